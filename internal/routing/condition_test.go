package routing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// decideOne evaluates a rule with these conditions, with and without an explanation.
func decideOne(t testing.TB, when agent.RouteWhen, c agent.RouteContext) (matched bool, reason string) {
	r := mustRouter(t, []*agent.RouteTable{table("acme", "main", "", agent.RouteRule{Name: "r", Agent: "a", When: when})}, nil)
	d := r.Decide(c, nil, true)
	require.Len(t, d.Rules, 1)
	require.Equal(t, d.Rules[0].Matched, r.Decide(c, nil, false).Agent == "a")
	return d.Rules[0].Matched, d.Rules[0].Reason
}

// raw returns a map of names and JSON values.
func raw(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func TestListConditions(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprint("role-", i)
	}
	cases := []struct {
		entries []string
		value   string
		matched bool
		reason  string
	}{
		{[]string{"clerk"}, "clerk", true, "matched"},
		{[]string{"clerk"}, "Clerk", false, `role "Clerk" is not one of clerk`},
		{[]string{"clerk"}, "clerks", false, `role "clerks" is not one of clerk`},
		{[]string{"clerk"}, "", false, `role "" is not one of clerk`},
		{[]string{"admin", "clerk"}, "clerk", true, "matched"},
		{[]string{"admin", "ops*"}, "ops-lead", true, "matched"},
		{[]string{"admin", "ops*"}, "ops", true, "matched"},
		{[]string{"admin", "ops*"}, "op", false, `role "op" is not one of admin, ops*`},
		{[]string{"*"}, "anything", true, "matched"},
		{[]string{"*"}, "", true, "matched"},
		{[]string{""}, "", true, "matched"},
		{[]string{""}, "x", false, `role "x" is not one of `},
		{nil, "x", true, "matched"},
		{[]string{}, "x", true, "matched"},
		{many, "role-499", true, "matched"},
		{many, "role-500", false, `role "role-500" is not one of role-0, role-1, role-2, role-3, role-4, role-5, role-6, role-7, role-8, role-9 and 490 more`},
		{append([]string{"x*"}, many...), "xyz", true, "matched"},
		{[]string{"a"}, strings.Repeat("é", 100), false, `role "` + strings.Repeat("é", 40) + `…" is not one of a`},
	}
	for _, c := range cases {
		matched, reason := decideOne(t, agent.RouteWhen{Role: c.entries}, withRole(c.value))
		require.Equal(t, c.matched, matched, "%v %q", c.entries, c.value)
		require.Equal(t, c.reason, reason, "%v %q", c.entries, c.value)
	}
}

func TestListConditionsOfAllAttributes(t *testing.T) {
	c := agent.RouteContext{InvocationContext: agent.InvocationContext{UserRole: "r", UIPage: "p", Tenant: "t"}, Channel: "c"}
	list := []string{"x"}
	for reason, when := range map[string]agent.RouteWhen{
		`role "r" is not one of x`:    {Role: list},
		`page "p" is not one of x`:    {Page: list},
		`channel "c" is not one of x`: {Channel: list},
		`tenant "t" is not one of x`:  {Tenant: list},
	} {
		_, got := decideOne(t, when, c)
		require.Equal(t, reason, got)
	}
	all := agent.RouteWhen{Role: []string{"r"}, Page: []string{"p*"}, Channel: []string{"c"}, Tenant: []string{"t"}}
	matched, _ := decideOne(t, all, c)
	require.True(t, matched)
	c.Channel = "d"
	_, reason := decideOne(t, all, c)
	require.Equal(t, `channel "d" is not one of c`, reason)
	matched, _ = decideOne(t, agent.RouteWhen{Tenant: []string{agent.DefaultTenant}}, agent.RouteContext{})
	require.True(t, matched, "an empty tenant means the default tenant")
}

func TestFlags(t *testing.T) {
	type flags = map[string]any
	type named int
	cases := []struct {
		want, reason string // reason is empty if the flag matches
		flags        flags
	}{
		{`true`, "", flags{"f": true}},
		{`true`, "flag f is false, want true", flags{"f": false}},
		{`true`, "flag f is not given, want true", nil},
		{`true`, "flag f is not given, want true", flags{"g": true}},
		{`true`, `flag f is "true", want true`, flags{"f": "true"}},
		{`true`, "flag f is 1, want true", flags{"f": 1.0}},
		{`true`, "flag f is a list, want true", flags{"f": []any{true}}},
		{`true`, "flag f is an object, want true", flags{"f": map[string]any{}}},
		{`true`, "flag f is a struct {}, want true", flags{"f": struct{}{}}},
		{`false`, "", flags{"f": false}},
		{`false`, "", flags{}},
		{`false`, "", flags{"f": nil}},
		{`false`, "flag f is 0, want false", flags{"f": 0.0}},
		{`null`, "", nil},
		{`null`, "", flags{"f": nil}},
		{`null`, "flag f is false, want null", flags{"f": false}},
		{`0`, "flag f is not given, want 0", nil},
		{`""`, `flag f is not given, want ""`, nil},
		{`1`, "", flags{"f": 1.0}},
		{`1.0`, "", flags{"f": 1}},
		{`1e0`, "", flags{"f": uint8(1)}},
		{`1`, "", flags{"f": named(1)}},
		{`1`, "", flags{"f": float32(1)}},
		{`1`, "", flags{"f": json.Number("1.0")}},
		{`1`, "flag f is 1.5, want 1", flags{"f": json.Number("1.5")}},
		{`"1"`, "flag f is 1, want \"1\"", flags{"f": json.Number("1")}},
		{`"blue"`, "", flags{"f": "blue"}},
		{`"blue"`, `flag f is "green", want "blue"`, flags{"f": "green"}},
		{` "\u0062lue" `, "", flags{"f": "blue"}},
	}
	for _, c := range cases {
		request := agent.RouteContext{InvocationContext: agent.InvocationContext{Flags: c.flags}}
		matched, reason := decideOne(t, agent.RouteWhen{Flags: raw("f", c.want)}, request)
		require.Equal(t, c.reason == "", matched, "%s %v", c.want, c.flags)
		if !matched {
			require.Equal(t, c.reason, reason)
		}
	}
	both := agent.RouteWhen{Flags: raw("b", "true", "a", "true")}
	_, reason := decideOne(t, both, agent.RouteContext{InvocationContext: agent.InvocationContext{Flags: flags{"b": true}}})
	require.Equal(t, "flag a is not given, want true", reason)
}

func TestMetadata(t *testing.T) {
	var metadata map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{
		"plan": "pro", "seats": 12, "trial": false, "nothing": null, "tags": ["a"],
		"org": {"region": "eu", "unit": {"id": 7}, "a.b": "inner key", "a": {"b": "inner path"}},
		"x.y": "literal", "x": {"y": "nested", "z": "only nested"}
	}`), &metadata))
	cases := []struct{ path, want, reason string }{
		{"plan", `"pro"`, ""},
		{"plan", `"free"`, `metadata plan is "pro", want "free"`},
		{"plan", `["free", "pro"]`, ""},
		{"plan", `["free", 3]`, `metadata plan is "pro", want one of "free", 3`},
		{"plan", `["free"]`, `metadata plan is "pro", want "free"`},
		{"seats", `12.0`, ""},
		{"seats", `[1, 12]`, ""},
		{"trial", `false`, ""},
		{"trial", `null`, "metadata trial is false, want null"},
		{"nothing", `null`, ""},
		{"nothing", `false`, "metadata nothing is not given, want false"},
		{"missing", `null`, ""},
		{"missing", `[null, "x"]`, ""},
		{"missing", `""`, `metadata missing is not given, want ""`},
		{"tags", `["a"]`, `metadata tags is a list, want "a"`},
		{"org", `"eu"`, `metadata org is an object, want "eu"`},
		{"org.region", `"eu"`, ""},
		{"org.unit.id", `7`, ""},
		{"org.unit.id.deeper", `7`, "metadata org.unit.id.deeper is not given, want 7"},
		{"org.missing.id", `7`, "metadata org.missing.id is not given, want 7"},
		{"x.y", `"literal"`, ""},
		{"x.z", `"only nested"`, ""},
		{"org.a.b", `"inner key"`, ""},
	}
	for _, c := range cases {
		request := agent.RouteContext{InvocationContext: agent.InvocationContext{Metadata: metadata}}
		matched, reason := decideOne(t, agent.RouteWhen{Metadata: raw(c.path, c.want)}, request)
		require.Equal(t, c.reason == "", matched, "%s %s: %s", c.path, c.want, reason)
		if !matched {
			require.Equal(t, c.reason, reason)
		}
	}
}
