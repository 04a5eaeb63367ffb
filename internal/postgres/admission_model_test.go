package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// admissionModel is a simple model of Admit for one tenant, which remembers everything and counts it anew each time.
type admissionModel struct {
	now    time.Time
	places map[string]*modelPlace
	turns  map[string]bool // the recorded turns
	log    []modelSpending // admissions
	ledger []modelSpending
}

type modelPlace struct {
	user, agent string
	at          time.Time
	begun       bool
}

type modelSpending struct {
	kind, name string // admissions only
	user       string
	agent      string
	at         time.Time
	tokens     int64
	usd        float64
}

func (m *admissionModel) holds(p *modelPlace) bool {
	return p.begun || p.at.After(m.now.Add(-time.Minute))
}

func (m *admissionModel) admit(a *agent.Admission) (*agent.AdmissionRefused, time.Duration) {
	id := string(a.TurnID)
	if p := m.places[id]; m.turns[id] || p != nil && m.holds(p) {
		return nil, 0
	}
	for _, k := range []struct {
		kind, name string
		b          agent.Bound
	}{{agent.BoundTenant, a.Tenant, a.Tenants}, {agent.BoundUser, a.UserID, a.Users}, {agent.BoundAgent, a.Agent, a.Agents}} {
		if k.name == "" {
			continue
		}
		if bound, limit, used, wait := m.check(k.kind, k.name, &k.b); bound != "" {
			return &agent.AdmissionRefused{Kind: k.kind, Name: k.name, Bound: bound, Limit: limit, Used: used}, wait
		}
	}
	m.places[id] = &modelPlace{user: a.UserID, agent: a.Agent, at: m.now}
	for _, k := range []modelSpending{{kind: agent.BoundTenant, name: a.Tenant}, {kind: agent.BoundUser, name: a.UserID}, {kind: agent.BoundAgent, name: a.Agent}} {
		k.at = m.now
		m.log = append(m.log, k)
	}
	return nil, 0
}

func (m *admissionModel) check(kind, name string, b *agent.Bound) (bound string, limit, used float64, wait time.Duration) {
	var within []time.Time
	for _, l := range m.log {
		if l.kind == kind && l.name == name && l.at.After(m.now.Add(-time.Minute)) {
			within = append(within, l.at)
		}
	}
	if n := b.RequestsPerMinute; n > 0 && len(within) >= n {
		return agent.BoundRequestsPerMinute, float64(n), float64(n), within[len(within)-n].Add(time.Minute).Sub(m.now)
	}
	places := 0
	for _, p := range m.places {
		if m.holds(p) && (kind == agent.BoundTenant || kind == agent.BoundUser && p.user == name || kind == agent.BoundAgent && p.agent == name) {
			places++
		}
	}
	if n := b.ConcurrentTurns; n > 0 && places >= n {
		return agent.BoundConcurrentTurns, float64(n), float64(places), 5 * time.Second
	}
	midnight := m.now.Truncate(24 * time.Hour)
	var minute, today, month, usdToday, usdMonth float64
	for _, s := range slices.Backward(m.ledger) {
		if kind == agent.BoundUser && s.user != name || kind == agent.BoundAgent && s.agent != name {
			continue
		}
		if s.at.After(m.now.Add(-time.Minute)) {
			if minute += float64(s.tokens); wait == 0 && minute >= float64(b.TokensPerMinute) {
				wait = s.at.Add(time.Minute).Sub(m.now)
			}
		}
		if s.at.Month() == m.now.Month() {
			month += float64(s.tokens)
			usdMonth += s.usd
		}
		if !s.at.Before(midnight) {
			today += float64(s.tokens)
			usdToday += s.usd
		}
	}
	nextMonth := time.Date(m.now.Year(), m.now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		bound       string
		limit, used float64
		wait        time.Duration
	}{
		{agent.BoundTokensPerMinute, float64(b.TokensPerMinute), minute, wait},
		{agent.BoundDailyCost, b.DailyCostUSD, usdToday, midnight.Add(24 * time.Hour).Sub(m.now)},
		{agent.BoundMonthlyCost, b.MonthlyCostUSD, usdMonth, nextMonth.Sub(m.now)},
		{agent.BoundDailyTokens, float64(b.DailyTokens), today, midnight.Add(24 * time.Hour).Sub(m.now)},
		{agent.BoundMonthlyTokens, float64(b.MonthlyTokens), month, nextMonth.Sub(m.now)},
	} {
		if c.limit > 0 && c.used >= c.limit {
			return c.bound, c.limit, c.used, c.wait
		}
	}
	return "", 0, 0, 0
}

func drawBound(rt *rapid.T, label string) agent.Bound {
	pick := func(name string, limits ...int) int { return rapid.SampledFrom(limits).Draw(rt, label+name) }
	return agent.Bound{
		RequestsPerMinute: pick("requests", 0, 0, 2, 3), ConcurrentTurns: pick("concurrent", 0, 0, 2, 3), TokensPerMinute: int64(pick("tokens", 0, 0, 50)),
		DailyCostUSD: float64(pick("daily", 0, 0, 2)), MonthlyCostUSD: float64(pick("monthly", 0, 0, 3)),
		DailyTokens: int64(pick("daily tokens", 0, 0, 100)), MonthlyTokens: int64(pick("monthly tokens", 0, 0, 150)),
	}
}

func TestAdmissionFollowsItsModel(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		name := fmt.Sprintf("tenant%d", round)
		m := admissionModel{now: at(35*time.Hour + 58*time.Minute), places: map[string]*modelPlace{}, turns: map[string]bool{}} // 23:58, the last of March
		ended := map[string]bool{}
		bounds := [3]agent.Bound{drawBound(rt, "tenant "), drawBound(rt, "user "), drawBound(rt, "agent ")}
		record := func(id string) agent.TurnRecord {
			r := turn(id, id)
			r.Tenant = name
			return r
		}
		for range rapid.IntRange(5, 30).Draw(rt, "operations") {
			m.now = m.now.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Second, 20 * time.Second, 59 * time.Second, time.Minute, 26 * time.Hour}).Draw(rt, "later"))
			id := fmt.Sprintf("%s-t%d", name, rapid.IntRange(1, 9).Draw(rt, "turn"))
			user, agentName := rapid.SampledFrom([]string{"", "u1", "u1", "u2"}).Draw(rt, "user"), rapid.SampledFrom([]string{"a1", "a1", "a2"}).Draw(rt, "agent")
			switch rapid.SampledFrom([]string{"admit", "admit", "admit", "begin", "finish", "spend"}).Draw(rt, "operation") {
			case "admit":
				a := agent.Admission{
					TurnID: agent.TurnID(id), Tenant: name, UserID: user, Agent: agentName, At: m.now, Tenants: bounds[0], Users: bounds[1], Agents: bounds[2],
				}
				if bounds == [3]agent.Bound{} {
					continue // without limits nothing is stored
				}
				want, wait := m.admit(&a)
				err := b.Admit(t.Context(), a)
				if want == nil {
					require.NoError(rt, err)
					continue
				}
				got, _ := errors.AsType[agent.AdmissionRefused](err)
				require.Equal(rt, *want, got, "%v", err)
				e, _ := errors.AsType[*agent.Error](err)
				require.Equal(rt, wait, e.RetryAfter)
			case "begin":
				if p := m.places[id]; m.turns[id] || p != nil && p.at.Before(m.now.Add(-time.Hour)) {
					continue // its place may have been removed
				}
				b.begin(record(id))
				if m.turns[id] = true; m.places[id] != nil {
					m.places[id].begun = true
				}
			case "finish":
				if !m.turns[id] || ended[id] {
					continue
				}
				f := finish(id, id)
				f.Tenant, f.Events = name, nil
				b.finish(f)
				ended[id] = true
				delete(m.places, id)
			case "spend":
				s := modelSpending{user: user, agent: agentName, at: m.now, tokens: int64(rapid.IntRange(0, 40).Draw(rt, "tokens")), usd: float64(rapid.IntRange(0, 4).Draw(rt, "quarters")) / 4}
				m.ledger = append(m.ledger, s)
				b.spend(name, s.user, s.agent, s.at, s.tokens, s.usd)
			}
		}
	})
}
