package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestSpendingIsOfTodayAndTheMonth(t *testing.T) {
	b := newBench(t, postgres.Config{})
	noon := at(0)
	b.spend(tenant, "u1", "a1", noon, 100, 1)
	b.spend(tenant, "u1", "a2", noon.Add(-24*time.Hour), 50, 2)
	b.spend(tenant, "u2", "a1", noon.Add(-24*time.Hour), 51, 0.5)
	b.spend(tenant, "", "a1", noon, 1, 0)
	b.spend(tenant, "u9", "a9", noon.AddDate(0, -1, 0), 1000, 10) // 2 March, as February has no 30th
	b.spend(tenant, "u8", "a8", noon.AddDate(0, 0, -30), 1000, 10)
	b.spend("other", "u1", "a1", noon, 1000, 10)

	got, err := b.SpendingAt(t.Context(), tenant, noon)
	require.NoError(t, err)
	u1 := agent.Spender{
		Name: "u1", Today: agent.Spent{Calls: 1, InputTokens: 50, OutputTokens: 50, CostUSD: 1},
		Month: agent.Spent{Calls: 2, InputTokens: 75, OutputTokens: 75, CostUSD: 3},
	}
	u9 := agent.Spender{Name: "u9", Month: agent.Spent{Calls: 1, InputTokens: 500, OutputTokens: 500, CostUSD: 10}}
	require.Equal(t, []agent.Spender{u9, u1, {Name: "u2", Month: agent.Spent{Calls: 1, InputTokens: 25, OutputTokens: 26, CostUSD: 0.5}}}, got.Users)
	require.Equal(t, []string{"a9", "a2", "a1"}, []string{got.Agents[0].Name, got.Agents[1].Name, got.Agents[2].Name})
	require.Equal(t, agent.Spent{Calls: 2, InputTokens: 50, OutputTokens: 51, CostUSD: 1}, got.Agents[2].Today)
	require.Len(t, got.Models, 1)
	require.Equal(t, agent.Spent{Calls: 2, InputTokens: 50, OutputTokens: 51, CostUSD: 1}, got.Today)
	require.Equal(t, agent.Spent{Calls: 5, InputTokens: 600, OutputTokens: 602, CostUSD: 13.5}, got.Month)
	require.Equal(t, noon, got.At)

	got, err = b.SpendingAt(t.Context(), "nobody", noon)
	require.NoError(t, err)
	require.Equal(t, agent.Spending{Tenant: "nobody", At: noon, Users: []agent.Spender{}, Agents: []agent.Spender{}, Models: []agent.Spender{}}, got)
}

func TestSpendersAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	_, err := b.pool.Exec(t.Context(), `INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens,
			reasoning_tokens, cost_usd, user_id, agent, created_at)
		SELECT 't', n, 1, $1, 'm', n, 0, 0, 0, n, 'u' || n, 'a', $2 FROM generate_series(1, 500) AS n`, tenant, at(0))
	require.NoError(t, err)
	got, err := b.SpendingAt(t.Context(), tenant, at(0))
	require.NoError(t, err)
	require.Len(t, got.Users, agent.MaxSpenders)
	for i, u := range got.Users {
		require.Equal(t, fmt.Sprintf("u%d", 500-i), u.Name, "the dearest")
	}
	require.Equal(t, "125250", fmt.Sprint(got.Today.CostUSD), "the sum is of all")
}

// Each way to write the ledger says whose it is and is added up.
func TestSpendingIsTheTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s1")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("said"))))
	require.NoError(t, b.ChargeUsage(t.Context(), agent.StepKey{TurnID: "t1", Step: 1}, tenant, []agent.UsageEntry{
		{Epoch: 2, Model: "large", Usage: agent.Usage{InputTokens: 1}}, {Epoch: 1, Model: "small"}, // the latter is on the bill
	}))
	require.NoError(t, b.SavePrepared(t.Context(), agent.Prepared{
		TurnID: "t1", Tenant: tenant, Fence: agent.Fence{StreamID: "t1", Producer: "prepare", Epoch: 1}, Calls: []agent.UsageEntry{{Epoch: 1, Model: "small"}},
	}))
	b.finish(finish("t1", "s1"))
	_, err := b.DeleteSession(t.Context(), tenant, "s1")
	require.NoError(t, err)
	require.Equal(t, 3, b.count(`usage_ledger WHERE (user_id, agent, session_id, channel) = ('u1', 'analyst', 's1', 'http')`))
	got, err := b.Spending(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, agent.Spent{Calls: 3, InputTokens: 11, OutputTokens: 5, CostUSD: 0.0125}, got.Month)
	require.Equal(t, []string{"small", "large"}, []string{got.Models[0].Name, got.Models[1].Name})
	require.EqualValues(t, 3, got.Agents[0].Month.Calls)
	require.Equal(t, "u1", got.Users[0].Name)
}
