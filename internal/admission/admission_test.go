package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
)

// desk is a store that counts turns at once, in memory.
type desk struct {
	mu     sync.Mutex
	asked  []agent.Admission
	inside []agent.Admission
	listed []agent.Admission
	left   []string
	fault  error
}

func (d *desk) Admit(_ context.Context, a agent.Admission) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, a)
	if d.fault != nil {
		return d.fault
	}
	tenants, users, agents := 0, 0, 0
	for i := range d.inside {
		in := &d.inside[i]
		if in.TurnID == a.TurnID {
			return nil
		}
		if in.Tenant != a.Tenant {
			continue
		}
		tenants++
		if in.UserID == a.UserID {
			users++
		}
		if in.Agent == a.Agent {
			agents++
		}
	}
	for _, c := range []struct {
		kind, name  string
		bound, used int
	}{
		{agent.BoundTenant, a.Tenant, a.Tenants.ConcurrentTurns, tenants},
		{agent.BoundUser, a.UserID, a.Users.ConcurrentTurns, users},
		{agent.BoundAgent, a.Agent, a.Agents.ConcurrentTurns, agents},
	} {
		if c.bound > 0 && c.used >= c.bound {
			refused := agent.AdmissionRefused{Kind: c.kind, Name: c.name, Bound: agent.BoundConcurrentTurns, Limit: float64(c.bound), Used: float64(c.used)}
			return &agent.Error{Code: agent.CodeRateLimited, Op: "admit", RetryAfter: 7 * time.Second, Err: refused}
		}
	}
	d.inside = append(d.inside, a)
	return nil
}

func (d *desk) Running(_ context.Context, a agent.Admission, limit int) ([]agent.TurnID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed = append(d.listed, a)
	var out []agent.TurnID
	for i := range d.inside {
		if len(out) < limit {
			out = append(out, d.inside[i].TurnID)
		}
	}
	return out, nil
}

func (d *desk) leave(id agent.TurnID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.inside {
		if d.inside[i].TurnID == id {
			d.inside = append(d.inside[:i], d.inside[i+1:]...)
			return
		}
	}
}

// Leave is what a gate that gives a place back calls.
func (d *desk) Leave(_ context.Context, tenant string, id agent.TurnID) error {
	d.leave(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = append(d.left, tenant+"/"+string(id))
	return d.fault
}

func (d *desk) last() agent.Admission {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[len(d.asked)-1]
}

// gate is a Gate whose callers all stay.
type gate struct{ *admission.Gate }

func (g gate) Admit(ctx context.Context, id agent.TurnID, tenant, user, name string, doc agent.RateLimits) error {
	_, err := g.Gate.Admit(ctx, id, tenant, user, name, doc)
	return err
}

func open(t *testing.T, c admission.Config) (gate, *desk) {
	t.Helper()
	d := &desk{}
	c.Store = d
	g, err := admission.New(c)
	require.NoError(t, err)
	return gate{g}, d
}

func TestWhoIsBoundByWhat(t *testing.T) {
	defaults := admission.Bounds{
		Tenant: agent.Bound{DailyCostUSD: 100}, User: agent.Bound{RequestsPerMinute: 10}, Agent: agent.Bound{ConcurrentTurns: 5, TokensPerMinute: 900},
	}
	tenants := map[string]admission.TenantBounds{"big": {Tenant: agent.Bound{MonthlyTokens: 7}, User: agent.Bound{RequestsPerMinute: 99}}, "free": {}}
	cases := map[string]struct {
		tenant, user string
		doc          agent.RateLimits
		want         agent.Admission
	}{
		"everybody": {
			"acme", "u1",
			agent.RateLimits{},
			agent.Admission{Tenants: defaults.Tenant, Users: defaults.User, Agents: defaults.Agent},
		},
		"of nobody's own": {"acme", "", agent.RateLimits{}, agent.Admission{Tenants: defaults.Tenant, Agents: defaults.Agent}},
		"a tenant of its own, in place of the rest": {
			"big", "u1",
			agent.RateLimits{},
			agent.Admission{Tenants: agent.Bound{MonthlyTokens: 7}, Users: agent.Bound{RequestsPerMinute: 99}, Agents: defaults.Agent},
		},
		"an unbound tenant": {"free", "u1", agent.RateLimits{}, agent.Admission{Agents: defaults.Agent}},
		"an agent's own, where it is stricter": {
			"free", "",
			agent.RateLimits{RequestsPerMinute: 3, ConcurrentTurns: 8, TokensPerMinute: 100},
			agent.Admission{Agents: agent.Bound{RequestsPerMinute: 3, ConcurrentTurns: 5, TokensPerMinute: 100}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g, d := open(t, admission.Config{Defaults: defaults, Tenants: tenants})
			require.NoError(t, g.Admit(t.Context(), "t1", c.tenant, c.user, "clerk", c.doc))
			c.want.TurnID, c.want.Tenant, c.want.UserID, c.want.Agent = "t1", c.tenant, c.user, "clerk"
			require.Equal(t, []agent.Admission{c.want}, d.asked)
		})
	}
}

// TestWhatIsNotBoundCostsNothing: not even a question.
func TestWhatIsNotBoundCostsNothing(t *testing.T) {
	g, d := open(t, admission.Config{Defaults: admission.Bounds{User: agent.Bound{RequestsPerMinute: 1}}, Tenants: map[string]admission.TenantBounds{"free": {}}})
	d.fault = errors.New("nobody is to ask")
	require.NoError(t, g.Admit(t.Context(), "t1", "acme", "", "clerk", agent.RateLimits{}), "the user is bound, and there is none")
	require.NoError(t, g.Admit(t.Context(), "t1", "free", "u1", "clerk", agent.RateLimits{}))
	require.Empty(t, d.asked)
	require.Error(t, g.Admit(t.Context(), "t1", "free", "u1", "clerk", agent.RateLimits{TokensPerMinute: 1}), "by the agent's document alone")
	require.Len(t, d.asked, 1)
}

// TestStoreAway: what is bound stays bound when nobody can count.
func TestStoreAway(t *testing.T) {
	for name, fault := range map[string]error{
		"away": &agent.Error{Code: agent.CodeUnavailable, Err: errors.New("no connection")}, "broken": errors.New("no such function"),
	} {
		t.Run(name, func(t *testing.T) {
			g, d := open(t, admission.Config{Defaults: admission.Bounds{Tenant: agent.Bound{RequestsPerMinute: 1}}})
			d.fault = fault
			err := g.Admit(t.Context(), "t1", "acme", "", "clerk", agent.RateLimits{})
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
			require.ErrorIs(t, err, fault)
		})
	}
	g, d := open(t, admission.Config{Defaults: admission.Bounds{Tenant: agent.Bound{RequestsPerMinute: 1}}})
	d.fault = agent.Errorf(agent.CodeCancelled, "admit", "%w", context.Canceled)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(g.Admit(t.Context(), "t1", "acme", "", "clerk", agent.RateLimits{})), "who left is told nothing else")
}

func TestNew(t *testing.T) {
	_, err := admission.New(admission.Config{})
	require.ErrorContains(t, err, "Store")
	for field, c := range map[string]admission.Config{
		"limits.tenant.requests_per_minute":      {Defaults: admission.Bounds{Tenant: agent.Bound{RequestsPerMinute: -1}}},
		"limits.user.monthly_tokens":             {Defaults: admission.Bounds{User: agent.Bound{MonthlyTokens: -1}}},
		"limits.agent.daily_cost_usd":            {Defaults: admission.Bounds{Agent: agent.Bound{DailyCostUSD: math.NaN()}}},
		"limits.tenants":                         {Tenants: map[string]admission.TenantBounds{"*": {}}},
		"limits.tenants[acme].user.daily_tokens": {Tenants: map[string]admission.TenantBounds{"acme": {User: agent.Bound{DailyTokens: -5}}}},
	} {
		c.Store = &desk{}
		_, err := admission.New(c)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), field)
		require.Equal(t, field, agent.FailureOf(err).Field)
	}
}

// TestOrphansGiveTheirPlacesBack: turns that nobody drives are ended when they keep others out, and the turn is let in.
func TestOrphansGiveTheirPlacesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *desk
		dead := map[agent.TurnID]bool{"b": true, "c": true}
		var looked []agent.TurnID
		g, d := open(t, admission.Config{
			Defaults: admission.Bounds{Tenant: agent.Bound{ConcurrentTurns: 3, DailyTokens: 9}, Agent: agent.Bound{ConcurrentTurns: 100}},
			End: func(_ context.Context, id agent.TurnID) (bool, error) {
				looked = append(looked, id)
				if id == "a" {
					return false, errors.New("nobody knows")
				}
				if dead[id] {
					d.leave(id)
				}
				return dead[id], nil
			},
		})
		admit := func(id agent.TurnID) error { return g.Admit(t.Context(), id, "acme", "", "clerk", agent.RateLimits{}) }
		for _, id := range []agent.TurnID{"a", "b", "c"} {
			require.NoError(t, admit(id))
		}
		require.Empty(t, looked)
		require.NoError(t, admit("d"))
		require.Equal(t, []agent.TurnID{"a", "b", "c"}, looked)
		require.Equal(t, []agent.Admission{{TurnID: "d", Tenant: "acme", Agent: "clerk", Tenants: agent.Bound{ConcurrentTurns: 3}}}, d.listed)
		require.NoError(t, admit("e"))

		// Now all are alive: however many are kept out, not each of them has ten workflows looked up.
		require.Error(t, admit("f"))
		asked := len(d.asked)
		for range 50 {
			err := admit("f")
			require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
			e, _ := errors.AsType[*agent.Error](err)
			require.Equal(t, 7*time.Second, e.RetryAfter)
		}
		require.Len(t, d.asked, asked+50, "nobody is asked twice in vain")
		require.Len(t, d.listed, 1, "a search a moment ago is enough")
		time.Sleep(11 * time.Second)
		dead["d"] = true
		require.NoError(t, admit("f"))
		require.Len(t, d.listed, 2)
	})
}

// TestSearchIsBounded in turns and in time.
func TestSearchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := 0
		g, _ := open(t, admission.Config{
			Defaults: admission.Bounds{User: agent.Bound{ConcurrentTurns: 30}},
			End: func(ctx context.Context, _ agent.TurnID) (bool, error) {
				looked++
				if looked > 2 {
					<-ctx.Done()
				}
				return false, ctx.Err()
			},
		})
		for i := range 30 {
			require.NoError(t, g.Admit(t.Context(), agent.TurnID(fmt.Sprint(i)), "acme", "u1", "clerk", agent.RateLimits{}))
		}
		began := time.Now()
		require.Equal(t, agent.CodeRateLimited, agent.CodeOf(g.Admit(t.Context(), "late", "acme", "u1", "clerk", agent.RateLimits{})))
		require.Equal(t, 10, looked)
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// TestOtherRefusalsSearchNothing: no end of a turn would help.
func TestOtherRefusalsSearchNothing(t *testing.T) {
	g, d := open(t, admission.Config{
		Defaults: admission.Bounds{Tenant: agent.Bound{DailyTokens: 3}},
		End:      func(context.Context, agent.TurnID) (bool, error) { return true, nil },
	})
	d.fault = &agent.Error{Code: agent.CodeRateLimited, Err: agent.AdmissionRefused{Kind: agent.BoundTenant, Name: "acme", Bound: agent.BoundDailyTokens}}
	require.ErrorIs(t, g.Admit(t.Context(), "t1", "acme", "", "clerk", agent.RateLimits{}), d.fault)
	require.Empty(t, d.listed)
	require.Len(t, d.asked, 1)
	require.Equal(t, agent.TurnID("t1"), d.last().TurnID)
}

// TestLeave: a turn that does not begin gives its place back, also when its caller has gone; where nothing was asked nothing is told.
func TestLeave(t *testing.T) {
	g, d := open(t, admission.Config{Defaults: admission.Bounds{User: agent.Bound{ConcurrentTurns: 1}}})
	ctx, gone := context.WithCancel(t.Context())
	leave, err := g.Gate.Admit(ctx, "t1", "acme", "u1", "clerk", agent.RateLimits{})
	require.NoError(t, err)
	gone()
	leave(ctx)
	require.Equal(t, []string{"acme/t1"}, d.left)
	require.NoError(t, g.Admit(t.Context(), "t2", "acme", "u1", "clerk", agent.RateLimits{}))
	leave, err = g.Gate.Admit(t.Context(), "t3", "acme", "", "clerk", agent.RateLimits{})
	require.NoError(t, err)
	leave(t.Context())
	require.Len(t, d.left, 1)
}
