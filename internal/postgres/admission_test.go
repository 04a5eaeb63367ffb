package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// asking returns the admission of turn id at a time, without limits.
func asking(id string, when time.Time) agent.Admission {
	return agent.Admission{TurnID: agent.TurnID(id), Tenant: tenant, UserID: "u1", Agent: "analyst", At: when}
}

func concurrent(id string, when time.Time, most int) agent.Admission {
	a := asking(id, when)
	a.Tenants.ConcurrentTurns = most
	return a
}

func (b *bench) requireAdmitted(a agent.Admission) {
	b.t.Helper()
	require.NoError(b.t, b.Admit(b.t.Context(), a))
}

// requireRefused requires that an admission is refused, and returns the refusal and the time to wait.
func (b *bench) requireRefused(a agent.Admission) (agent.AdmissionRefused, time.Duration) {
	b.t.Helper()
	err := b.Admit(b.t.Context(), a)
	requireCode(b.t, agent.CodeRateLimited, err)
	refused, ok := errors.AsType[agent.AdmissionRefused](err)
	require.True(b.t, ok, "%v", err)
	e, _ := errors.AsType[*agent.Error](err)
	return refused, e.RetryAfter
}

func TestRequestsPerMinuteSlide(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(id string, d time.Duration) agent.Admission {
		a := asking(id, at(d))
		a.Tenants.RequestsPerMinute = 3
		return a
	}
	b.requireAdmitted(ask("t1", 0))
	b.requireAdmitted(ask("t2", 10*time.Second))
	b.requireAdmitted(ask("t3", 59*time.Second))
	refused, wait := b.requireRefused(ask("t4", 59*time.Second+time.Millisecond))
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundTenant, Name: tenant, Bound: agent.BoundRequestsPerMinute, Limit: 3, Used: 3}, refused)
	require.Equal(t, 999*time.Millisecond, wait, "until a minute after t1")
	b.requireAdmitted(ask("t4", time.Minute))
	_, wait = b.requireRefused(ask("t5", time.Minute))
	require.Equal(t, 10*time.Second, wait)

	a := ask("t5", time.Minute)
	a.Tenants.RequestsPerMinute = 1
	refused, wait = b.requireRefused(a)
	require.Equal(t, "1", fmt.Sprint(refused.Used), "the limit was lowered")
	require.Equal(t, time.Minute, wait, "until a minute after the newest")
	b.requireAdmitted(ask("t5", 70*time.Second))

	other := ask("t6", 70*time.Second)
	other.Tenant = "other"
	b.requireAdmitted(other)
}

func TestRequestsAreCountedForEach(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(id, user, agentName string) agent.Admission {
		a := asking(id, at(0))
		a.UserID, a.Agent = user, agentName
		a.Users.RequestsPerMinute, a.Agents.RequestsPerMinute = 2, 3
		return a
	}
	b.requireAdmitted(ask("t1", "u1", "a1"))
	b.requireAdmitted(ask("t2", "u1", "a2"))
	refused, _ := b.requireRefused(ask("t3", "u1", "a3"))
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundRequestsPerMinute, Limit: 2, Used: 2}, refused)
	b.requireAdmitted(ask("t3", "u2", "a1"))
	b.requireAdmitted(ask("t4", "", "a1"))
	refused, _ = b.requireRefused(ask("t5", "", "a1"))
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundAgent, Name: "a1", Bound: agent.BoundRequestsPerMinute, Limit: 3, Used: 3}, refused)
	b.requireAdmitted(ask("t5", "", "a2")) // no user, so no limit of a user
	foreign := ask("t6", "u1", "a1")
	foreign.Tenant = "other"
	b.requireAdmitted(foreign)
	refused, _ = b.requireRefused(ask("t7", "u1", "a1"))
	require.Equal(t, agent.BoundUser, refused.Kind, "the first limit that refuses is named")
}

// A turn keeps its place until it ends in any way.
func TestPlacesAreFreed(t *testing.T) {
	b := newBench(t, postgres.Config{})
	end := func(status agent.TurnStatus) func(id string) {
		return func(id string) {
			f := finish(id, id)
			f.Output.Status = status
			b.finish(f)
		}
	}
	n := 0
	for name, free := range map[string]func(id string){
		"completed": end(agent.TurnCompleted), "failed": end(agent.TurnFailed), "cancelled": end(agent.TurnCancelled),
		"terminated": func(id string) { // another request finds that it has terminated
			running, err := b.Running(t.Context(), concurrent("", time.Time{}, 1), 10)
			require.NoError(t, err)
			require.Equal(t, []agent.TurnID{agent.TurnID(id)}, running)
			end(agent.TurnFailed)(string(running[0]))
		},
		"deleted": func(id string) {
			end(agent.TurnCompleted)(id)
			_, err := b.DeleteSession(t.Context(), tenant, agent.SessionID(id))
			require.NoError(t, err)
		},
		"gone": func(id string) {
			b.exec(`DELETE FROM messages WHERE turn_id = $1`, id)
			b.exec(`DELETE FROM turns WHERE turn_id = $1`, id)
		},
	} {
		n++
		id, next := fmt.Sprintf("t%d", n), fmt.Sprintf("n%d", n)
		b.requireAdmitted(concurrent(id, time.Time{}, 1))
		b.requireRefused(concurrent(next, time.Time{}, 1))
		b.ready(id, id)
		later := time.Now().Add(time.Hour)
		refused, wait := b.requireRefused(concurrent(next, later, 1))
		require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundTenant, Name: tenant, Bound: agent.BoundConcurrentTurns, Limit: 1, Used: 1}, refused, name)
		require.Positive(t, wait)
		b.requireAdmitted(concurrent(id, later, 1)) // again
		free(id)
		require.Zero(t, b.count("turn_places"), name)
		b.requireAdmitted(concurrent(next, later, 1))
		require.NoError(t, b.Leave(t.Context(), tenant, agent.TurnID(next)))
		require.Zero(t, b.count("turn_places"), name)
	}
}

// A turn that does not begin loses its place after a minute, and gets it back if it begins later.
func TestPlacesOfTurnsThatDoNotBegin(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.requireAdmitted(concurrent("t1", at(0), 1))
	b.requireRefused(concurrent("t2", at(59*time.Second), 1))
	b.requireAdmitted(concurrent("t2", at(time.Minute), 1))
	b.requireRefused(concurrent("t1", at(time.Minute), 1)) // it has lost its place and is admitted anew
	b.ready("t1", "s1")
	refused, _ := b.requireRefused(concurrent("t3", at(2*time.Minute), 1))
	require.Equal(t, "1", fmt.Sprint(refused.Used), "t1 began late")
	b.finish(finish("t1", "s1"))
	b.requireAdmitted(concurrent("t2", at(2*time.Minute), 1)) // it had lost its place and gets it again
	b.requireRefused(concurrent("t3", at(2*time.Minute+time.Second), 1))

	a := asking("t4", at(2*time.Hour)) // an unused place is removed in the end
	a.Tenants.DailyTokens = 1
	b.requireAdmitted(a)
	require.Equal(t, 1, b.count("turn_places"))

	b.ready("t5", "s5")
	for n, onBusy := range []agent.OnBusy{agent.OnBusyReject, agent.OnBusyQueue} { // busy, overflow
		id := fmt.Sprintf("b%d", n)
		b.requireAdmitted(concurrent(id, at(2*time.Hour), 3))
		r := turn(id, "s5")
		r.OnBusy, r.QueueLimit = onBusy, 1
		if n > 0 {
			require.Equal(t, agent.BeginBehind, b.begin(turn("q", "s5")).Answer)
		}
		require.Contains(t, []agent.BeginAnswer{agent.BeginBusy, agent.BeginOverflow}, b.begin(r).Answer)
		require.Equal(t, 1, b.count("turn_places"), "a refused turn gives its place back")
	}
	b.requireAdmitted(concurrent("t6", at(2*time.Hour), 3))
	f := finish("t6", "s6")
	f.Output.Status, f.Events[1].Status = agent.TurnFailed, agent.StatusFailed
	b.finish(f) // refused by BeginTurn
	require.Equal(t, 1, b.count("turn_places"))
	b.requireAdmitted(concurrent("q", at(2*time.Hour), 2))
	require.NoError(t, b.Leave(t.Context(), tenant, "t4"))
	require.Zero(t, b.count("turn_places"), "q is recorded and was admitted without a place")
}

func TestAdmissionCountsOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(id string, d time.Duration) agent.Admission {
		a := concurrent(id, at(d), 1)
		a.Tenants.RequestsPerMinute, a.Agents.RequestsPerMinute = 1, 1
		return a
	}
	for i := range 3 {
		b.requireAdmitted(ask("t1", time.Duration(i)*time.Second))
	}
	require.Equal(t, 2, b.count("admissions"), "one for the tenant and one for the agent")
	foreign := ask("t1", 0)
	foreign.Tenant = "other"
	b.requireAdmitted(foreign) // the same id in another tenant is another turn
	require.Equal(t, 2, b.count("turn_places"))
	b.ready("t1", "s1")
	for i := range 3 {
		b.requireAdmitted(ask("t1", time.Duration(i)*time.Hour))
	}
	b.finish(finish("t1", "s1"))
	b.requireAdmitted(ask("t1", 3*time.Hour))
	require.Equal(t, 1, b.count("turn_places"), "the place of the other tenant")
	_, err := b.DeleteSession(t.Context(), tenant, "s1")
	require.NoError(t, err)
	b.requireAdmitted(ask("t1", 3*time.Hour)) // the turn is deleted
	b.requireRefused(ask("t2", 3*time.Hour))
}

func TestAdmissionsAreChecked(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.requireAdmitted(agent.Admission{Tenant: tenant, TurnID: "t1"})
	require.Zero(t, b.count("turn_places"), "without limits nothing is stored")
	for field, change := range map[string]func(*agent.Admission){
		"tenant":  func(a *agent.Admission) { a.Tenant = "" },
		"turn_id": func(a *agent.Admission) { a.TurnID = "" },
		"agent":   func(a *agent.Admission) { a.Agent = "\xff" },
	} {
		a := concurrent("t1", time.Time{}, 1)
		change(&a)
		err := b.Admit(t.Context(), a)
		requireFault(t, agent.CodeInvalid, field, err)
	}
	long := func(id, end string) agent.Admission {
		a := asking(id, time.Time{})
		a.UserID = "\x00" + strings.Repeat("user ", 1000) + end
		a.Users = agent.Bound{ConcurrentTurns: 1, RequestsPerMinute: 1, DailyTokens: 10}
		return a
	}
	b.requireAdmitted(long("t1", "1"))
	refused, _ := b.requireRefused(long("t2", "1"))
	require.Equal(t, long("", "1").UserID, refused.Name)
	b.requireAdmitted(long("t2", "2"))
	running, err := b.Running(t.Context(), long("", "2"), 5)
	require.NoError(t, err)
	require.Equal(t, []agent.TurnID{"t2"}, running)
	b.spend(tenant, strings.Repeat("user ", 1000)+"3", "a", time.Now(), 10, 0)
	refused, _ = b.requireRefused(long("t3", "3"))
	require.Equal(t, agent.BoundDailyTokens, refused.Bound)
}

func TestRunning(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(n int, user, agentName string) agent.Admission {
		a := asking(fmt.Sprintf("t%02d", n), at(time.Duration(n)*time.Second))
		a.UserID, a.Agent, a.Tenants.ConcurrentTurns = user, agentName, 100
		return a
	}
	for n := range 20 {
		b.requireAdmitted(ask(n, "u1", "a1"))
	}
	b.requireAdmitted(ask(20, "u2", "a1"))
	b.requireAdmitted(ask(21, "u1", "a2"))
	foreign := ask(0, "u2", "a2")
	foreign.Tenant = "other"
	b.requireAdmitted(foreign)

	a := ask(22, "u2", "a2")
	running := func(limit int) []agent.TurnID {
		ids, err := b.Running(t.Context(), a, limit)
		require.NoError(t, err)
		return ids
	}
	require.Equal(t, []agent.TurnID{"t00", "t01", "t02"}, running(3))
	a.Users.ConcurrentTurns, a.Agents.ConcurrentTurns = 1, 1
	require.Equal(t, []agent.TurnID{"t00", "t20", "t21"}, running(3), "the oldest of each kind comes first")
	require.Len(t, running(0), 22)
	a.Tenants.ConcurrentTurns = 0
	require.Equal(t, []agent.TurnID{"t20", "t21"}, running(0))
	a.Users.ConcurrentTurns, a.Agents.ConcurrentTurns = 0, 0
	require.Len(t, running(0), 22)
	a.At = at(time.Hour)
	require.Empty(t, running(0), "they have not begun")
}

// Old admissions and places are removed as fast as new ones are added.
func TestOldAdmissionsAreRemoved(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for n := range 300 {
		a := asking(fmt.Sprintf("t%d", n), at(time.Duration(n)*10*time.Second))
		a.Tenant = fmt.Sprintf("tenant%d", n%7)
		a.Tenants.RequestsPerMinute, a.Users.RequestsPerMinute, a.Agents.RequestsPerMinute = 100, 100, 100
		b.requireAdmitted(a)
	}
	require.LessOrEqual(t, b.count("admissions"), 3*13, "admissions of two minutes")
	require.LessOrEqual(t, b.count("turn_places"), 361, "places of an hour")
}

// spend adds a row to the ledger with a time.
func (b *bench) spend(tenant, user, agentName string, when time.Time, tokens int64, usd float64) {
	b.t.Helper()
	b.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens,
			reasoning_tokens, cost_usd, user_id, agent, created_at)
		SELECT 'spent', 1, (SELECT count(*) + 1 FROM usage_ledger), $1, 'small', $4::bigint / 2, $4::bigint - $4::bigint / 2, 0, 0, $5::float8::numeric, $2, $3, $6`,
		tenant, user, agentName, tokens, usd, when)
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
	b.requireAdmitted(ask(30 * time.Second)) // 95 of 100: whatever it takes
	b.spend(tenant, "u1", "a", at(30*time.Second), 80, 0)
	again := ask(40 * time.Second)
	again.TurnID = "t2"
	refused, wait := b.requireRefused(again)
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundTokensPerMinute, Limit: 100, Used: 175}, refused)
	require.Equal(t, 40*time.Second, wait, "until a minute after the call at 20 s, when 80 are left")
	again.At = at(80*time.Second - time.Microsecond)
	_, wait = b.requireRefused(again)
	require.Equal(t, time.Millisecond, wait, "never zero")
	again.At = at(80 * time.Second)
	b.requireAdmitted(again)
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
		b.requireAdmitted(ask(midnight.Add(-time.Minute), bound)) // a cent is left, which admits a turn of any cost
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
		refused, wait := b.requireRefused(ask(late, bound))
		require.Equal(t, want, refused)
		require.Equal(t, time.Minute, wait, "until the end of the day, which ends the month")
		b.requireAdmitted(ask(midnight, bound))
	}
	b.spend(tenant, "u1", "a", midnight, 10, 0.1)
	refused, wait := b.requireRefused(ask(time.Date(2026, time.March, 10, 12, 0, 0, 0, time.UTC), monthUSD))
	require.Equal(t, agent.BoundMonthlyCost, refused.Bound)
	require.Equal(t, 21*24*time.Hour+12*time.Hour, wait)
	require.Equal(t, `the budget of tenant "acme" for this month is used up (8.02 of 7.00 USD)`, refused.Error())

	user := ask(midnight, agent.Bound{})
	user.Users.DailyCostUSD = 0.1
	refused, wait = b.requireRefused(user)
	require.Equal(t, agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundDailyCost, Limit: 0.1, Used: 0.1}, refused)
	require.Equal(t, 24*time.Hour, wait)
	user.UserID = "u2"
	b.requireAdmitted(user)
	agents := ask(midnight, agent.Bound{})
	agents.Agent, agents.Agents.MonthlyTokens = "a", 11
	b.requireAdmitted(agents)
	agents.TurnID, agents.Agents.MonthlyTokens = "t99", 10
	_, wait = b.requireRefused(agents)
	require.Equal(t, 30*24*time.Hour, wait, "April has 30 days")
}
