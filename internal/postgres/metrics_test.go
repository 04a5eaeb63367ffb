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
	b.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens,
			reasoning_tokens, cost_usd, user_id, agent, created_at)
		SELECT 't', n, 1, $1, 'm', n, 0, 0, 0, n, 'u' || n, 'a', $2 FROM generate_series(1, 500) AS n`, tenant, at(0))
	got, err := b.SpendingAt(t.Context(), tenant, at(0))
	require.NoError(t, err)
	require.Len(t, got.Users, agent.MaxSpenders)
	for i, u := range got.Users {
		require.Equal(t, fmt.Sprintf("u%d", 500-i), u.Name, "the dearest")
	}
	require.Equal(t, "125250", fmt.Sprint(got.Today.CostUSD), "the total includes all spenders")
}

// All statements that write the ledger set the owner and are added up.
func TestSpendingIsTheTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s1")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("said"))))
	require.NoError(t, b.ChargeUsage(t.Context(), agent.StepKey{TurnID: "t1", Step: 1}, tenant, []agent.UsageEntry{
		{Epoch: 2, Model: "large", Usage: agent.Usage{InputTokens: 1}}, {Epoch: 1, Model: "small"}, // the latter is charged
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

// backlog stores finished turns. For each of five tenants it stores a running turn with three queued turns behind it, the oldest from an
// hour ago. For three of them it stores as many open approvals as the number of the tenant, half of them of the running turn, and as many
// that can no longer be decided.
func backlog(t testing.TB, finished int) *bench {
	b := newBench(t, postgres.Config{})
	b.exec(`CREATE INDEX IF NOT EXISTS turns_running ON turns (tenant) WHERE state = 'running'`)
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO sessions (tenant, session_id) SELECT 'acme', 's' || n FROM generate_series(1, %d) AS n`, finished/100+1),
		`INSERT INTO sessions (tenant, session_id) SELECT 't' || n, 'busy' FROM generate_series(1, 5) AS n`,
		turnRows("'f' || n", "'acme'", "'s' || n / 100 + 1", "n", "CASE n % 3 WHEN 0 THEN 'completed' WHEN 1 THEN 'failed' ELSE 'cancelled' END", "now()", finished),
		turnRows("'r' || n", "'t' || n", "'busy'", "1", "'running'", "now() - interval '2 hours'", 5),
		turnRows("'q' || n", "'t' || 1 + n % 5", "'busy'", "1 + n", "'queued'", "now() - n * interval '4 minutes'", 15),
		approvals("'r' || n", "'t' || n", "NULL", "NULL", "now() - n * interval '1 minute'", 3),
		approvals("'q' || n", "'t' || 1 + n % 5", "NULL", "now() + interval '1 hour'", "now() - n * interval '1 second'", 2),
		approvals("'r' || n", "'t' || n", "'approve'", "NULL", "now() - interval '1 day'", 5),
		approvals("'r' || n", "'t' || n", "NULL", "now() - interval '1 second'", "now() - interval '2 days'", 4),
		approvals("'f' || n", "'acme'", "NULL", "NULL", "now() - interval '3 days'", finished/10),
		approvals("'f' || n", "'acme'", "'reject'", "NULL", "now() - interval '3 days'", finished),
		`ANALYZE`,
	} {
		b.exec(sql)
	}
	return b
}

func turnRows(id, tenant, session, seq, state, at string, n int) string {
	return fmt.Sprintf(`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy,
			history, input, context, created_at)
		SELECT %s, %s, %s, %s, %s, 'w' || n, 'analyst', 'analyst@1', 'h', 'small', 'http', 'u1', 'queue', 'load', '[]', '{}', %s
		FROM generate_series(1, %d) AS n`, id, tenant, session, seq, state, at, n)
}

func approvals(turn, tenant, decision, expires, at string, n int) string {
	return fmt.Sprintf(`INSERT INTO approvals (turn_id, approval_id, tenant, call_id, step, tool_name, rule, created_at, decision, expires_at)
		SELECT %s, gen_random_uuid()::text, %s, 'c', 1, 'pay', 'r', %s, %s, %s FROM generate_series(1, %d) AS n`, turn, tenant, at, decision, expires, n)
}

func TestBacklog(t *testing.T) {
	b := backlog(t, 300)
	s, err := b.Backlog(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"t1": 1, "t2": 2, "t3": 2}, s.Approvals)
	require.Equal(t, []int64{15, 2, 3, 3}, []int64{s.Queued, s.Running, s.Waiting, s.LongestQueue})
	require.InDelta(t, 3*time.Minute, s.OldestApproval, float64(time.Minute)/2, "only those that can be decided")
	require.InDelta(t, time.Hour, s.OldestQueued, float64(time.Minute)/2)

	s, err = b.Backlog(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"t2": 2, "": 3}, s.Approvals, "the other tenants together")
	require.EqualValues(t, 3, s.Waiting)
	require.InDelta(t, 3*time.Minute, s.OldestApproval, float64(time.Minute)/2)
}

func TestEmptyBacklog(t *testing.T) {
	s, err := newBench(t, postgres.Config{}).Backlog(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, postgres.Backlog{Approvals: map[string]int64{}}, s)
}

func TestTenantsSpending(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`
		INSERT INTO usage_daily VALUES
			('a', 'tenant', '', '2026-11-22', 0, 1, 10, 1, 0, 0, 0.5), ('a', 'tenant', '', '2026-11-22', 1, 1, 20, 2, 0, 0, 0.25),
			('a', 'tenant', '', '2026-11-01', 0, 1, 100, 10, 0, 0, 4), ('a', 'tenant', '', '2026-10-31', 0, 1, 1000, 100, 0, 0, 100),
			('a', 'user', 'u', '2026-11-22', 0, 1, 7, 7, 0, 0, 7), ('b', 'tenant', '', '2026-10-22', 0, 1, 7, 7, 0, 0, 7),
			('c', 'agent', '', '2026-11-22', 0, 1, 7, 7, 0, 0, 7), ('d', 'tenant', '', '2026-11-03', 0, 1, 5, 6, 0, 0, 0)`)
	all, err := b.TenantsSpendingAt(t.Context(), time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC))
	require.NoError(t, err)
	require.ElementsMatch(t, []postgres.TenantSpending{
		{Tenant: "a", DayUSD: 0.75, DayTokens: 33, MonthUSD: 4.75, MonthTokens: 143}, {Tenant: "d", MonthTokens: 11},
	}, all, "of this month, and of the tenant's own sums alone")
	all, err = b.TenantsSpendingAt(t.Context(), time.Date(2026, 11, 22, 23, 59, 0, 0, time.FixedZone("west", -3600)))
	require.NoError(t, err)
	require.Zero(t, all[0].DayTokens, "the day is in UTC")
	none, err := newBench(t, postgres.Config{}).TenantsSpending(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
}

// Finished turns do not make the queries slower.
func TestBacklogUsesIndexes(t *testing.T) {
	t.Parallel()
	b := backlog(t, 20_000)
	plan := b.explain(postgres.CountLiveTurns)
	require.NotContains(t, plan, "Seq Scan on turns", plan)
	t.Log(plan)
	plan = b.explain(postgres.CountApprovals, 200)
	require.NotContains(t, plan, "Seq Scan on turns", plan)
	require.NotContains(t, plan, "Seq Scan on approvals", plan)
	t.Log(plan)
	b.exec(`
		INSERT INTO usage_daily SELECT 't' || t, k.kind, k.name, now()::date - d, 0, 1, 10, 1, 0, 0, 0.5
		FROM generate_series(1, 50) AS t, generate_series(0, 59) AS d, (
			SELECT 'tenant' AS kind, '' AS name UNION ALL SELECT 'user', 'u' || u FROM generate_series(1, 40) AS u) AS k;
		ANALYZE usage_daily`)
	plan = b.explain(postgres.ReadTenantsSpending, time.Now().UTC(), 10_000)
	require.NotContains(t, plan, "Seq Scan on usage_daily", plan)
	t.Log(plan)
}

func BenchmarkStanding(b *testing.B) {
	s := backlog(b, 100_000)
	b.Run("backlog", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Backlog(b.Context(), 200); err != nil {
				b.Fatal(err)
			}
		}
	})
}
