package routing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
)

// candidate is a rule of the reference implementation.
type candidate struct {
	rule  *agent.RouteRule
	table *agent.RouteTable
	group int // 0: own, 1: shared
	index int
}

// before is the order of evaluation in the reference implementation.
func before(a, b candidate) bool {
	switch {
	case a.group != b.group:
		return a.group < b.group
	case a.rule.Priority != b.rule.Priority:
		return a.rule.Priority > b.rule.Priority
	case a.table.Name != b.table.Name:
		return a.table.Name < b.table.Name
	default:
		return a.index < b.index
	}
}

// matches evaluates the conditions that drawRule generates.
func matches(r *agent.RouteRule, c *agent.RouteContext) bool {
	in := func(list []string, v string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(e string) bool {
			if rest, ok := strings.CutSuffix(e, "*"); ok {
				return len(v) >= len(rest) && v[:len(rest)] == rest
			}
			return e == v
		})
	}
	beta, _ := c.Flags["beta"].(bool)
	if want, ok := r.When.Flags["beta"]; ok && string(want) != fmt.Sprint(beta) {
		return false
	}
	if want, ok := r.When.Metadata["org.plan"]; ok {
		org, _ := c.Metadata["org"].(map[string]any)
		plan, _ := json.Marshal(org["plan"])
		if !strings.Contains(string(want), string(plan)) {
			return false
		}
	}
	if r.When.Expression != "" && c.UserRole != "ab" {
		return false
	}
	return !r.Disabled && in(r.When.Role, c.UserRole) && in(r.When.Page, c.UIPage)
}

func drawRule(t *rapid.T, i int) agent.RouteRule {
	entry := rapid.SampledFrom([]string{"", "a", "ab", "b", "a*", "*", "ab*"})
	r := agent.RouteRule{
		Name: fmt.Sprint("r", i), Priority: rapid.IntRange(-1, 2).Draw(t, "priority"), Agent: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "agent"),
		Disabled: rapid.IntRange(0, 5).Draw(t, "disabled") == 0,
	}
	r.When.Role = rapid.SliceOfN(entry, 0, 3).Draw(t, "role")
	r.When.Page = rapid.SliceOfN(entry, 0, 2).Draw(t, "page")
	switch rapid.IntRange(0, 5).Draw(t, "more") {
	case 0:
		r.When.Flags = raw("beta", rapid.SampledFrom([]string{"true", "false"}).Draw(t, "flag"))
	case 1:
		r.When.Metadata = raw("org.plan", rapid.SampledFrom([]string{`"pro"`, `["pro","free"]`, `null`}).Draw(t, "plan"))
	case 2:
		r.When.Expression = `role == "ab"`
	}
	return r
}

func drawTables(t *rapid.T, tenant string) []*agent.RouteTable {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "tables")
	out := make([]*agent.RouteTable, len(names))
	for i, name := range names {
		out[i] = table(tenant, name, rapid.SampledFrom([]string{"", "x", "d"}).Draw(t, "default"))
		for j := range rapid.IntRange(0, 5).Draw(t, "rules") {
			out[i].Rules = append(out[i].Rules, drawRule(t, j))
		}
	}
	return out
}

func drawContext(t *rapid.T) agent.RouteContext {
	word := rapid.SampledFrom([]string{"", "a", "ab", "abc", "b"})
	c := agent.RouteContext{InvocationContext: agent.InvocationContext{UserRole: word.Draw(t, "role"), UIPage: word.Draw(t, "page")}}
	c.Agent = rapid.SampledFrom([]string{"", "", "x", "w"}).Draw(t, "named")
	if rapid.Bool().Draw(t, "flags") {
		c.Flags = map[string]any{"beta": rapid.Bool().Draw(t, "beta")}
	}
	if rapid.Bool().Draw(t, "metadata") {
		c.Metadata = map[string]any{"org": map[string]any{"plan": rapid.SampledFrom([]any{"pro", "free", nil}).Draw(t, "plan")}}
	}
	return c
}

// expect is the reference implementation of Decide.
func expect(own, shared []*agent.RouteTable, c *agent.RouteContext, available func(string, string) bool) agent.RouteDecision {
	var all []candidate
	defaults := map[[2]string]string{}
	for group, tables := range [][]*agent.RouteTable{own, shared} {
		for _, t := range tables {
			for i := range t.Rules {
				all = append(all, candidate{&t.Rules[i], t, group, i})
			}
			defaults[[2]string{fmt.Sprint(group), t.Name}] = t.DefaultAgent
		}
	}
	var best *candidate
	for i := range all {
		if matches(all[i].rule, c) && available(all[i].rule.Agent, all[i].rule.Model) && (best == nil || before(all[i], *best)) {
			best = &all[i]
		}
	}
	if best != nil {
		return agent.RouteDecision{Agent: best.rule.Agent, Reason: agent.RouteRuled, Table: best.table.Tenant + "/" + best.table.Name, Rule: best.rule.Name}
	}
	for group, tenant := range []string{"acme", "*"} {
		for _, name := range []string{"a", "b", "c"} {
			if d := defaults[[2]string{fmt.Sprint(group), name}]; d != "" && available(d, "") {
				return agent.RouteDecision{Agent: d, Reason: agent.RouteDefault, Table: tenant + "/" + name}
			}
		}
	}
	return agent.RouteDecision{}
}

// Decide agrees with a simple reference implementation: the first matching rule decides, and an explanation does not change
// the decision.
func TestDecideAgainstReference(t *testing.T) {
	compiler := newCompiler(t)
	rapid.Check(t, func(t *rapid.T) {
		own, shared, c := drawTables(t, "acme"), drawTables(t, "*"), drawContext(t)
		available := allBut(rapid.SampledFrom([]string{"", "x", "y", "d"}).Draw(t, "missing"))
		for _, k := range append(slices.Clone(own), shared...) {
			require.Empty(t, compiler.Check(k))
		}
		r, err := compiler.Engine(own, shared)
		require.NoError(t, err)
		want := expect(own, shared, &c, available)
		if c.Agent != "" {
			want = agent.RouteDecision{Agent: c.Agent, Reason: agent.RouteNamed, Expected: want.Agent, Mismatch: want.Agent != "" && want.Agent != c.Agent}
		}
		require.Equal(t, want, r.Decide(c, available, false))
		explained := r.Decide(c, available, true)
		rules := explained.Rules
		explained.Rules = nil
		require.Equal(t, want, explained)

		for _, v := range rules {
			require.NotEmpty(t, v.Reason)
			require.Equal(t, v.Chosen, want.Rule != "" && v.Table == want.Table && v.Rule == want.Rule)
			require.True(t, v.Matched || !v.Chosen)
		}
		count := 0
		for _, k := range append(slices.Clone(own), shared...) {
			count += len(k.Rules)
		}
		require.Len(t, rules, count)
	})
}
