package routing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/routing"
)

// newCompiler returns a compiler with a time limit of a minute per expression, so that slow machines decide alike.
func newCompiler(t testing.TB) *routing.Compiler {
	c, err := routing.New()
	require.NoError(t, err)
	c.SetTimes(time.Minute, time.Minute)
	return c
}

// mustRouter compiles valid tables.
func mustRouter(t testing.TB, own, shared []*agent.RouteTable) *routing.Router {
	return mustRouterOf(t, newCompiler(t), own, shared)
}

func mustRouterOf(t testing.TB, c *routing.Compiler, own, shared []*agent.RouteTable) *routing.Router {
	for _, table := range append(append([]*agent.RouteTable{}, own...), shared...) {
		require.Empty(t, c.Check(table))
	}
	r, err := c.Engine(own, shared)
	require.NoError(t, err)
	return r
}

func table(tenant, name, defaultAgent string, rules ...agent.RouteRule) *agent.RouteTable {
	return &agent.RouteTable{Kind: agent.KindRoutes, Tenant: tenant, Name: name, DefaultAgent: defaultAgent, Rules: rules}
}

// always returns a rule without conditions whose agent has the same name as the rule.
func always(name string, priority int) agent.RouteRule {
	return agent.RouteRule{Name: name, Priority: priority, Agent: name}
}

func withRole(role string) agent.RouteContext {
	return agent.RouteContext{InvocationContext: agent.InvocationContext{UserRole: role}}
}

// allBut returns a function that says that all agents except these are available.
func allBut(missing ...string) func(string, string) bool {
	return func(name, _ string) bool { return !slices.Contains(missing, name) }
}

func TestRuleOrder(t *testing.T) {
	own := []*agent.RouteTable{
		table("acme", "b", "", always("b-low", 1), always("b-high", 9), always("b-high-later", 9)),
		table("acme", "a", "", always("a-low", 1), always("a-high", 9)),
	}
	shared := []*agent.RouteTable{
		table("*", "z", "", always("z-top", 100)),
		table("*", "y", "", always("y-low", -5), always("y-top", 100)),
	}
	d := mustRouter(t, own, shared).Decide(agent.RouteContext{}, nil, true)
	got := make([]string, len(d.Rules))
	for i, v := range d.Rules {
		got[i] = fmt.Sprintf("%s %s %d", v.Table, v.Rule, v.Priority)
	}
	require.Equal(t, []string{
		"acme/a a-high 9", "acme/b b-high 9", "acme/b b-high-later 9", "acme/a a-low 1", "acme/b b-low 1",
		"*/y y-top 100", "*/z z-top 100", "*/y y-low -5",
	}, got)
}

func TestDecide(t *testing.T) {
	clerks := agent.RouteRule{Name: "clerks", Agent: "desk", Model: "small", Priority: 5, When: agent.RouteWhen{Role: []string{"clerk"}}}
	ops := agent.RouteRule{Name: "ops", Agent: "console", When: agent.RouteWhen{Role: []string{"ops*"}}}
	off := agent.RouteRule{Name: "off", Agent: "ghost", Priority: 99, Disabled: true}
	own := []*agent.RouteTable{table("acme", "main", "", clerks, off), table("acme", "rest", "helper")}
	shared := []*agent.RouteTable{table("*", "base", "concierge", ops)}
	unnamed := []*agent.RouteTable{table("", "main", "helper")}
	named := func(name, role string) agent.RouteContext {
		c := withRole(role)
		c.Agent = name
		return c
	}
	cases := map[string]struct {
		c           agent.RouteContext
		available   func(string, string) bool
		own, shared []*agent.RouteTable
		want        agent.RouteDecision
	}{
		"a rule of an own table": {
			withRole("clerk"), nil, own, shared,
			agent.RouteDecision{Agent: "desk", Model: "small", Reason: agent.RouteRuled, Table: "acme/main", Rule: "clerks"},
		},
		"a rule of a shared table": {
			withRole("ops-2"), nil, own, shared,
			agent.RouteDecision{Agent: "console", Reason: agent.RouteRuled, Table: "*/base", Rule: "ops"},
		},
		"the agent of a rule is not available": {
			withRole("clerk"), allBut("desk"), own, shared,
			agent.RouteDecision{Agent: "helper", Reason: agent.RouteDefault, Table: "acme/rest"},
		},
		"own default": {
			withRole("guest"), nil, own, shared,
			agent.RouteDecision{Agent: "helper", Reason: agent.RouteDefault, Table: "acme/rest"},
		},
		"own default not available": {
			withRole("guest"), allBut("helper"), own, shared,
			agent.RouteDecision{Agent: "concierge", Reason: agent.RouteDefault, Table: "*/base"},
		},
		"no default available": {withRole("guest"), allBut("helper", "concierge"), own, shared, agent.RouteDecision{}},
		"no tables":            {withRole("guest"), nil, nil, nil, agent.RouteDecision{}},
		"an unnamed tenant's table": {
			withRole("guest"), nil, unnamed, nil,
			agent.RouteDecision{Agent: "helper", Reason: agent.RouteDefault, Table: "default/main"},
		},
		"named as the rules say": {
			named("desk", "clerk"), nil, own, shared,
			agent.RouteDecision{Agent: "desk", Reason: agent.RouteNamed, Expected: "desk"},
		},
		"named otherwise": {
			named("console", "clerk"), nil, own, shared,
			agent.RouteDecision{Agent: "console", Reason: agent.RouteNamed, Expected: "desk", Mismatch: true},
		},
		"named, and the default is another": {
			named("console", "guest"), nil, own, shared,
			agent.RouteDecision{Agent: "console", Reason: agent.RouteNamed, Expected: "helper", Mismatch: true},
		},
		"named, and the rules say nothing": {
			named("console", "guest"), nil, nil, nil,
			agent.RouteDecision{Agent: "console", Reason: agent.RouteNamed},
		},
		"named, and not available": {
			named("nobody", "clerk"), allBut("nobody"), own, shared,
			agent.RouteDecision{Agent: "nobody", Reason: agent.RouteNamed, Expected: "desk", Mismatch: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := mustRouter(t, c.own, c.shared)
			require.Equal(t, c.want, r.Decide(c.c, c.available, false))
			explained := r.Decide(c.c, c.available, true)
			explained.Rules = nil
			require.Equal(t, c.want, explained)
		})
	}
}

func TestExplain(t *testing.T) {
	rules := []agent.RouteRule{
		{Name: "off", Agent: "a", Disabled: true},
		{Name: "gone", Agent: "missing"},
		{Name: "clerks", Agent: "b", When: agent.RouteWhen{Role: []string{"admin", "ops*"}}},
		{Name: "clerk", Agent: "b", Model: "small", When: agent.RouteWhen{Role: []string{"clerk"}}},
		{Name: "later", Agent: "c", Priority: -1},
	}
	r := mustRouter(t, []*agent.RouteTable{table("acme", "main", "d", rules...)}, nil)

	verdict := func(rule, name string, matched, chosen bool, reason string) agent.RuleVerdict {
		return agent.RuleVerdict{Table: "acme/main", Rule: rule, Agent: name, Matched: matched, Chosen: chosen, Reason: reason}
	}
	want := []agent.RuleVerdict{
		verdict("off", "a", false, false, "disabled"),
		verdict("gone", "missing", true, false, `matched, but agent "missing" is not available`),
		verdict("clerks", "b", false, false, `role "clerk" is not one of admin, ops*`),
		verdict("clerk", "b", true, true, "matched"),
		verdict("later", "c", true, false, "matched, but a rule before it decided"),
	}
	want[3].Model, want[4].Priority = "small", -1
	require.Equal(t, want, r.Decide(withRole("clerk"), allBut("missing"), true).Rules)
	require.Nil(t, r.Decide(withRole("clerk"), allBut("missing"), false).Rules)

	named := withRole("clerk")
	named.Agent = "x"
	want[3].Chosen, want[3].Reason = false, "matched, and would decide if the request named no agent"
	require.Equal(t, want, r.Decide(named, allBut("missing"), true).Rules)
}

func TestEngineRefusesWhatCheckRefuses(t *testing.T) {
	c := newCompiler(t)
	bad := table("acme", "main", "", agent.RouteRule{Name: "r", Agent: "a", When: agent.RouteWhen{Expression: "role =="}})
	for _, group := range [][2][]*agent.RouteTable{{{bad}, nil}, {nil, {bad}}} {
		r, err := c.Engine(group[0], group[1])
		require.Nil(t, r)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		require.ErrorContains(t, err, `compile route table "acme/main": rules[0].when.expression: 1:8: Syntax error`)
	}
}

func TestEngineCopiesTables(t *testing.T) {
	when := agent.RouteWhen{Role: []string{"clerk"}, Flags: map[string]json.RawMessage{"beta": json.RawMessage("true")}}
	mine := table("acme", "main", "", agent.RouteRule{Name: "r", Agent: "a", When: when})
	r := mustRouter(t, []*agent.RouteTable{mine}, nil)
	mine.Rules[0].When.Role[0], mine.Rules[0].When.Flags["beta"] = "boss", json.RawMessage("false")
	mine.Rules[0].Agent = "z"
	d := r.Decide(agent.RouteContext{InvocationContext: agent.InvocationContext{UserRole: "clerk"}}, nil, true)
	require.Equal(t, "flag beta is not given, want true", d.Rules[0].Reason)
	c := withRole("clerk")
	c.Flags = map[string]any{"beta": true}
	require.Equal(t, "a", r.Decide(c, nil, false).Agent)
}

// For the race detector: one compiler, routers that share programs, and requests that share their maps.
func TestConcurrentUse(t *testing.T) {
	c := newCompiler(t)
	rules := []agent.RouteRule{
		{Name: "x", Agent: "x", Priority: 3, When: agent.RouteWhen{Expression: `metadata.items.exists(i, i.id == int(session)) && percent(session) >= 0`}},
		{Name: "y", Agent: "y", Priority: 2, When: agent.RouteWhen{Expression: `flags.n > 3 && role.matches("^c.*k$")`}},
		{Name: "z", Agent: "z", Priority: 1, When: agent.RouteWhen{Role: []string{"c*"}, Expression: `"items" in metadata`}},
	}
	shared := table("*", "shared", "none", rules...)
	metadata := map[string]any{"items": []any{map[string]any{"id": 1.0}, map[string]any{"id": 2.0}}}
	flags := map[string]any{"n": 4.0}
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error {
			r, err := c.Engine(nil, []*agent.RouteTable{shared})
			if err != nil {
				return err
			}
			for n := range 200 {
				request := agent.RouteContext{
					InvocationContext: agent.InvocationContext{UserRole: "clerk", Flags: flags, Metadata: metadata}, SessionID: agent.SessionID(fmt.Sprint(n % 4)),
				}
				want := map[int]string{0: "y", 1: "x", 2: "x", 3: "y"}[n%4]
				if got := r.Decide(request, nil, (n+i)%2 == 0); got.Agent != want {
					return fmt.Errorf("session %d: got %q, want %q: %v", n%4, got.Agent, want, got.Rules)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}
