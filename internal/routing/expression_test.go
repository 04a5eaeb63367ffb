package routing_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func request() agent.RouteContext {
	return agent.RouteContext{
		InvocationContext: agent.InvocationContext{
			Tenant: "acme", UserID: "u1", UserRole: "clerk", UIPage: "/orders/7",
			Flags: map[string]any{"beta": true, "n": 3.0},
			Metadata: map[string]any{
				"plan": "pro", "seats": 12.0, "whole": 5, "tags": []any{"a", "b"}, "org": map[string]any{"region": "eu"}, "nothing": nil,
			},
		},
		Agent: "named", SessionID: "s-1", Channel: "slack",
	}
}

func evaluate(t testing.TB, expression string, c agent.RouteContext) (matched bool, reason string) {
	r := mustRouter(t, []*agent.RouteTable{table("acme", "main", "", agent.RouteRule{Name: "r", Agent: "a", When: agent.RouteWhen{Expression: expression}})}, nil)
	v := r.Decide(c, nil, true).Rules[0]
	return v.Matched, v.Reason
}

func TestExpressions(t *testing.T) {
	for _, e := range []string{
		`true`,
		`role == "clerk" && page == "/orders/7" && channel == "slack" && tenant == "acme" && user == "u1" && session == "s-1" && agent == "named"`,
		`role in ["admin", "clerk"]`,
		`page.startsWith("/orders") && page.matches("^/orders/[0-9]+$")`,
		`flags.beta == true`,
		`flags.beta && flags["n"] == 3`,
		`flags.n >= 2.5 && flags.n < 4 && metadata.whole == 5.0 && metadata.seats == 12 && percent(session) < 100.5`,
		`metadata.org.region == "eu"`,
		`!has(flags.gamma) && has(metadata.org.region)`,
		`"plan" in metadata && metadata.nothing == null`,
		`metadata.tags.exists(t, t == "b") && metadata.tags.all(t, t.size() == 1) && metadata.tags.filter(t, t != "a").size() == 1`,
		`flags.gamma == true || role == "clerk"`, // or forgives an error when the other side is true
		`role.upperAscii() == "CLERK" && "a,b".split(",")[1] == "b" && ["x", "y"].join("-") == "x-y" && "hello".substring(1, 3) == "el"`,
		`role.replace("c", "k") == "klerk" && role.replace("k", "c", 0) == "clerk" && ["a", "b"].join() == "ab"`,
		`"tacocat".indexOf("a") == 1 && "tacocat".indexOf("a", 2) == 5 && "tacocat".lastIndexOf("a") == 5 && "tacocat".lastIndexOf("a", 3) == 1`,
		`"%s-%d".format([role, 7]) == "clerk-7" && "abc".reverse() == "cba" && " x ".trim() == "x" && "ab".charAt(1) == "b"`,
		`percent(session) == hash(session) % 100 && percent(session, "s") == hash("s\x00" + session) % 100`,
	} {
		matched, reason := evaluate(t, e, request())
		require.True(t, matched, "%s: %s", e, reason)
	}
	for e, want := range map[string]string{
		`role == "admin"`:                   "expression is false",
		`flags.gamma == true`:               "expression failed: no such key: gamma",
		`metadata.org.country == "de"`:      "expression failed: no such key: country",
		`metadata.plan > 3`:                 "expression failed: no such overload",
		`1 / (flags.n == 3 ? 0 : 1) > 0`:    "expression failed: division by zero",
		`role.matches(metadata.plan + "(")`: "expression failed: error parsing regexp: missing closing ): `pro(`",
	} {
		matched, reason := evaluate(t, e, request())
		require.False(t, matched)
		require.Contains(t, reason, want, e)
	}
	matched, reason := evaluate(t, `role == "" && tenant == "default" && agent == "" && session == "" && size(flags) == 0 && !has(metadata.x)`, agent.RouteContext{})
	require.True(t, matched, "%s", reason)
}

// Rollouts depend on the values of hash. The digits are the first 16 of sha256sum; hash is half of their value.
func TestHashNeverChanges(t *testing.T) {
	for text, digits := range map[string]string{
		"":                "e3b0c44298fc1c14",
		"session-1":       "84097828fc31a8c8",
		"hello":           "2cf24dba5fb0a30e",
		"abc":             "ba7816bf8f01cfea",
		"x\x00abc":        "7899406e7ba30b39",
		"grüße, 世界":       "ff1d6863db1dca47",
		"s\x00session-42": "79c2a442987e118b",
	} {
		n, err := strconv.ParseUint(digits, 16, 64)
		require.NoError(t, err)
		c := agent.RouteContext{InvocationContext: agent.InvocationContext{UserID: text}}
		matched, reason := evaluate(t, fmt.Sprintf("hash(user) == %d && percent(user) == %d", n/2, n/2%100), c)
		require.True(t, matched, "%q: %s", text, reason)
	}
}

// hundred returns a list of a hundred numbers as an expression.
func hundred() string { return "[" + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + "]" }

// heavyRequest returns a request with much metadata.
func heavyRequest() agent.RouteContext {
	list, tree := make([]any, 2_000), map[string]any{}
	for i := range list {
		list[i] = float64(i)
		tree[fmt.Sprint(i)] = ""
	}
	c := request()
	c.Metadata["list"], c.Metadata["tree"] = list, tree
	c.Metadata["long"] = strings.Repeat("a", 150_000)
	c.Metadata["other"] = strings.Repeat("a", 70_000) + "b"
	c.Metadata["longer"] = strings.Repeat("a", 300_000)
	return c
}

// tableWithBomb returns a table with a rule that fails and a rule that matches.
func tableWithBomb(expression string) []*agent.RouteTable {
	return []*agent.RouteTable{table(
		"acme", "main", "",
		agent.RouteRule{Name: "bomb", Agent: "b", When: agent.RouteWhen{Expression: expression}},
		agent.RouteRule{Name: "behind", Agent: "a", When: agent.RouteWhen{Expression: `role == "clerk"`}},
	)}
}

// An expression that needs too much time or memory is aborted and does not match. The later rules are still evaluated.
func TestCostlyExpressions(t *testing.T) {
	h := hundred()
	wide := "[" + strings.TrimSuffix(strings.Repeat("a,", 200), ",") + "]"
	cases := map[string]struct{ expression, reason string }{
		"nested macros":           {h + ".all(a, " + h + ".all(b, " + h + ".all(c, " + h + ".all(d, a + b + c + d > 0))))", "actual cost limit exceeded"},
		"loops over metadata":     {"metadata.list.all(a, metadata.list.all(b, metadata.list.size() > 0))", "actual cost limit exceeded"},
		"hashing again and again": {"metadata.list.all(a, hash(metadata.long) > 0)", "actual cost limit exceeded"},
		"salting again and again": {"metadata.list.all(a, percent(role, metadata.long) >= 0)", "actual cost limit exceeded"},
		"a value that branches":   {h + strings.Repeat(".map(a, "+wide+")", 3) + " == [[[[1]]]]", "memory limit exceeded"},
		"a list of long texts":    {`metadata.list.map(a, metadata.long).join().size() > 0`, "memory limit exceeded"},
		"replacing":               {`metadata.long.replace("a", metadata.long).size() > 0`, "string_replace_string_string of texts this long is not allowed"},
		"replacing, with a limit": {`metadata.long.replace("a", metadata.long, 99999).size() > 0`, "not allowed"},
		"joining":                 {h + `.map(a, "x").join(metadata.long).size() > 0`, "not allowed"},
		"searching":               {`metadata.long.indexOf(metadata.other) > 0`, "cost limit exceeded"},
		"searching backwards":     {`metadata.long.lastIndexOf(metadata.other) > 0`, "cost limit exceeded"},
		"a large value":           {`metadata.longer == ""`, "memory limit exceeded"},
		"all values":              {`size(metadata) == 0`, "memory limit exceeded"},
		"a made-up pattern":       {`metadata.long.matches("(" + role + "?){60}x")`, "regex program size"},
	}
	for name, bomb := range cases {
		t.Run(name, func(t *testing.T) {
			r := mustRouter(t, tableWithBomb(bomb.expression), nil)
			start := time.Now()
			d := r.Decide(heavyRequest(), nil, true)
			require.Less(t, time.Since(start), 10*time.Second)
			require.False(t, d.Rules[0].Matched)
			require.Contains(t, d.Rules[0].Reason, bomb.reason)
			require.True(t, d.Rules[1].Matched, "%s", d.Rules[1].Reason)
		})
	}
}

// A time limit stops what steps do not count, for each expression and for the whole decision. Rules without an expression are still evaluated.
func TestTimeLimits(t *testing.T) {
	slow := "metadata.list.all(a, true" + strings.Repeat(" && metadata.tree.size() > 0", 10) + ")"
	c := newCompiler(t)
	c.SetTimes(time.Millisecond, time.Minute)
	d := mustRouterOf(t, c, tableWithBomb(slow), nil).Decide(heavyRequest(), nil, true)
	require.Equal(t, "expression failed: operation interrupted: context deadline exceeded", d.Rules[0].Reason)
	require.True(t, d.Rules[1].Matched, "%s", d.Rules[1].Reason)

	c.SetTimes(time.Millisecond, time.Nanosecond)
	d = mustRouterOf(t, c, tableWithBomb(slow), []*agent.RouteTable{table("*", "base", "", always("last", 0))}).Decide(heavyRequest(), nil, true)
	require.Contains(t, d.Rules[0].Reason, "expression failed")
	require.Equal(t, "expression was not evaluated: the expressions before it took all the time that a decision may take", d.Rules[1].Reason)
	require.True(t, d.Rules[2].Matched)
}

// The steps of all expressions of a decision are limited together.
func TestStepLimit(t *testing.T) {
	h := hundred()
	bomb := h + ".all(a, " + h + ".all(b, " + h + ".all(c, a + b + c > 0)))"
	rules := []agent.RouteRule{always("last", -1)}
	for i := range 1_000 {
		rules = append(rules, agent.RouteRule{Name: fmt.Sprint(i), Agent: "a", When: agent.RouteWhen{Expression: bomb}})
	}
	d := mustRouter(t, []*agent.RouteTable{table("acme", "main", "", rules...)}, nil).Decide(agent.RouteContext{}, nil, true)
	for i, v := range d.Rules[:1_000] {
		want := "expression failed: operation cancelled: actual cost limit exceeded"
		if i >= 10 {
			want = "expression was not evaluated: the expressions before it took all the steps that a decision may take"
		}
		require.Equal(t, want, v.Reason, "%d", i)
	}
	require.Equal(t, "last", d.Rule, "rules without an expression are still evaluated")
}
