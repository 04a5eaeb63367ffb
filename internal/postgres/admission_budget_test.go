package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// spend adds a row to the ledger as of a time.
func (b *bench) spend(tenant, user, agentName string, when time.Time, tokens int64, usd float64) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens,
			reasoning_tokens, cost_usd, user_id, agent, created_at)
		SELECT 'spent', 1, (SELECT count(*) + 1 FROM usage_ledger), $1, 'small', $4::bigint / 2, $4::bigint - $4::bigint / 2, 0, 0, $5::float8::numeric, $2, $3, $6`,
		tenant, user, agentName, tokens, usd, when)
	require.NoError(b.t, err)
}

func TestTokensPerMinute(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(d time.Duration) agent.Admission {
		a := asking("t1", at(d))
		a.Users.TokensPerMinute = 100
		return a
	}
	b.spend(tenant, "u1", "a", at(0), 60, 0)
	b.spend(tenant, "u1", "b", at(10*time.Second), 10, 0)
	b.spend(tenant, "u1", "a", at(20*time.Second), 25, 0)
	b.spend(tenant, "u2", "a", at(20*time.Second), 1000, 0)
	b.spend("other", "u1", "a", at(20*time.Second), 1000, 0)
	b.admitted(ask(30 * time.Second)) // 95 of 100: whatever it takes
	b.spend(tenant, "u1", "a", at(30*time.Second), 80, 0)
	again := ask(40 * time.Second)
	again.TurnID = "t2"
	refused, wait := b.refused(again)
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundTokensPerMinute, Limit: 100, Used: 175}, refused)
	require.Equal(t, 40*time.Second, wait, "until the call at 20 s is out of the window: 80 are left")
	again.At = at(80*time.Second - time.Microsecond)
	_, wait = b.refused(again)
	require.Equal(t, time.Millisecond, wait, "never nothing")
	again.At = at(80 * time.Second)
	b.admitted(again)
}

func TestBudgetsAreOfDaysAndMonths(t *testing.T) {
	b := newBench(t, postgres.Config{})
	midnight := time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC) // at(0) is two days before
	n := 0
	ask := func(when time.Time, bound agent.Bound) agent.Admission {
		n++
		a := asking(fmt.Sprintf("t%d", n), when)
		a.Tenants = bound
		return a
	}
	var (
		dayUSD, monthUSD = agent.Bound{DailyCostUSD: 5}, agent.Bound{MonthlyCostUSD: 7}
		day, month       = agent.Bound{DailyTokens: 500}, agent.Bound{MonthlyTokens: 700}
	)
	b.spend(tenant, "u1", "a", midnight.Add(-25*time.Hour), 300, 3)
	b.spend(tenant, "", "b", midnight.Add(-time.Hour), 499, 4.99)
	b.spend("other", "u1", "a", midnight.Add(-time.Hour), 1_000_000, 1000)
	for _, bound := range []agent.Bound{dayUSD, day} {
		b.admitted(ask(midnight.Add(-time.Minute), bound)) // a cent is left: it may cost what it likes
	}
	late := midnight.Add(-time.Minute)
	b.spend(tenant, "u1", "a", midnight.Add(-time.Second), 3, 0.03)
	for bound, want := range map[agent.Bound]agent.AdmissionRefused{
		dayUSD:   {Bound: agent.BoundDailyCost, Limit: 5, Used: 5.02},
		day:      {Bound: agent.BoundDailyTokens, Limit: 500, Used: 502},
		monthUSD: {Bound: agent.BoundMonthlyCost, Limit: 7, Used: 8.02},
		month:    {Bound: agent.BoundMonthlyTokens, Limit: 700, Used: 802},
	} {
		want.Kind, want.Name = agent.BoundTenant, tenant
		refused, wait := b.refused(ask(late, bound))
		require.Equal(t, want, refused)
		require.Equal(t, time.Minute, wait, "until the day, and with it the month, is over")
		b.admitted(ask(midnight, bound))
	}
	b.spend(tenant, "u1", "a", midnight, 10, 0.1)
	refused, wait := b.refused(ask(time.Date(2026, time.March, 10, 12, 0, 0, 0, time.UTC), monthUSD))
	require.Equal(t, agent.BoundMonthlyCost, refused.Bound)
	require.Equal(t, 21*24*time.Hour+12*time.Hour, wait)
	require.Equal(t, `the budget of tenant "acme" for this month is used up (8.02 of 7.00 USD)`, refused.Error())

	user := ask(midnight, agent.Bound{})
	user.Users.DailyCostUSD = 0.1
	refused, wait = b.refused(user)
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundDailyCost, Limit: 0.1, Used: 0.1}, refused)
	require.Equal(t, 24*time.Hour, wait)
	user.UserID = "u2"
	b.admitted(user)
	agents := ask(midnight, agent.Bound{})
	agents.Agent, agents.Agents.MonthlyTokens = "a", 11
	b.admitted(agents)
	agents.TurnID, agents.Agents.MonthlyTokens = "t99", 10
	_, wait = b.refused(agents)
	require.Equal(t, 30*24*time.Hour, wait, "April has 30 days")
}
