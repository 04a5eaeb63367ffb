package routing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestCheckNamesTheField(t *testing.T) {
	many := func(n int) []string { return make([]string, n) }
	flags := func(name, value string) agent.RouteWhen { return agent.RouteWhen{Flags: raw(name, value)} }
	metadata := func(path, value string) agent.RouteWhen { return agent.RouteWhen{Metadata: raw(path, value)} }
	expression := func(e string) agent.RouteWhen { return agent.RouteWhen{Expression: e} }
	crowd := map[string]json.RawMessage{}
	for i := range 101 {
		crowd[fmt.Sprint(i)] = json.RawMessage("1")
	}
	long := strings.Repeat("x", 1_025)
	cases := map[string]struct {
		when agent.RouteWhen
		want []string // path: message, of a rule's conditions
	}{
		"entry: star inside":      {agent.RouteWhen{Role: []string{"ok", "a*b"}}, []string{`role[1]: "a*b": a * stands for anything at the end alone`}},
		"entry: two stars":        {agent.RouteWhen{Page: []string{"/a/**"}}, []string{`page[0]: "/a/**": a * stands for anything at the end alone`}},
		"entry too long":          {agent.RouteWhen{Channel: []string{long}}, []string{"channel[0]: is 1025 bytes, at most 1024"}},
		"too many entries":        {agent.RouteWhen{Tenant: many(1_001)}, []string{"tenant: has 1001 entries, at most 1000"}},
		"flag without a name":     {flags("", "1"), []string{"flags: a name is empty"}},
		"flag: an object":         {flags("f", `{"a":1}`), []string{"flags.f: is an object; want a text, a number, true, false or null"}},
		"flag: a list":            {flags("f", `[1]`), []string{"flags.f: is a list; want a text, a number, true, false or null"}},
		"flag: nothing":           {flags("f", ``), []string{"flags.f: is no JSON value: unexpected end of JSON input"}},
		"flag: broken":            {flags("f", `tru`), []string{"flags.f: is no JSON value: invalid character"}},
		"flag: beyond floats":     {flags("f", `1e999`), []string{"flags.f: is no JSON value: json: cannot unmarshal number 1e999"}},
		"flag's name too long":    {flags(long, `1`), []string{`flags: the name "` + long[:80] + `…" is 1025 bytes, at most 1024`}},
		"too many flags":          {agent.RouteWhen{Flags: crowd}, []string{"flags: has 101 entries, at most 100"}},
		"metadata without a path": {metadata(" ", "1"), []string{"metadata: a name is empty"}},
		"metadata: an object":     {metadata("a.b", `{}`), []string{"metadata.a.b: is an object; want a text, a number, true, false or null, or a list of them"}},
		"metadata: empty list":    {metadata("a.b", `[]`), []string{"metadata.a.b: is an empty list, which nothing matches"}},
		"metadata: list of lists": {metadata("a", `[1,[2],{}]`), []string{"metadata.a[1]: is a list; want", "metadata.a[2]: is an object; want"}},
		"metadata: broken":        {metadata("a", `{`), []string{"metadata.a: is no JSON value"}},
		"metadata: too long":      {metadata("a", "["+strings.Repeat("1,", 1_000)+"1]"), []string{"metadata.a: has 1001 entries, at most 1000"}},
		"too much metadata":       {agent.RouteWhen{Metadata: crowd}, []string{"metadata: has 101 entries, at most 100"}},
		"several":                 {agent.RouteWhen{Role: []string{"a*b"}, Flags: raw("z", "[]", "a", "[]"), Expression: "x"}, []string{"role[0]: ", "flags.a: ", "flags.z: ", "expression: "}},

		"not CEL":            {expression("role =="), []string{"expression: 1:8: Syntax error: mismatched input '<EOF>'"}},
		"second line":        {expression("role == 'a' &&\n  nope == 1"), []string{"expression: 2:3: undeclared reference to 'nope'"}},
		"wrong types":        {expression("role == 1"), []string{"expression: 1:6: found no matching overload for '_==_' applied to '(string, int)'"}},
		"two faults":         {expression("a && b"), []string{"expression: 1:1: undeclared reference to 'a'", "expression: 1:6: undeclared reference to 'b'"}},
		"no bool":            {expression("role + page"), []string{"expression: 1:1: is of type string, want bool"}},
		"anything":           {expression("flags.beta"), []string{"expression: 1:1: is of type dyn, want bool; compare it, such as with == true"}},
		"percent of what":    {expression("percent() < 3"), []string{"expression: 1:8: found no matching overload for 'percent' applied to '()'"}},
		"regular expression": {expression("role.matches('(')"), []string{"expression: 1:14: invalid matches argument"}},
		"large pattern":      {expression("role.matches('(a{9}){30}')"), []string{"expression: 1:14: regex program size"}},
		"duration":           {expression("duration('x') > duration('1s')"), []string{"expression: 1:10: invalid duration argument"}},
		"timestamp":          {expression("timestamp('x') > timestamp('y')"), []string{"expression: 1:11: invalid timestamp argument", "expression: 1:28: invalid"}},
		"nested too deep": {
			expression(strings.Repeat("[1].all(x, ", 5) + "true" + strings.Repeat(")", 5)),
			[]string{"expression: 1:52: comprehension exceeds nesting limit"},
		},
		"brackets":    {expression(strings.Repeat("(", 2_000)), []string{"expression: expression recursion limit exceeded: 250"}},
		"blank":       {expression(" "), []string{"expression: 1:2: Syntax error"}},
		"too long":    {expression(strings.Repeat(" ", 4_093) + "true"), []string{"expression: is 4097 bytes, at most 4096"}},
		"many faults": {expression(strings.Repeat("a && ", 30) + "a"), slicesRepeat("expression: ", 10)},
	}
	c := newCompiler(t)
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			wrong := agent.RouteRule{Name: "wrong", Agent: "a", When: k.when}
			mine := table("acme", "main", "", always("right", 0), wrong)
			found := c.Check(mine)
			require.Len(t, found, len(k.want), "%v", found)
			for i, f := range found {
				require.NotContains(t, f.Message, "\n")
				require.Contains(t, f.String(), "rules[1].when."+k.want[i])
			}
			_, err := c.Engine([]*agent.RouteTable{mine}, nil)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
}

func slicesRepeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestCheckRules(t *testing.T) {
	c := newCompiler(t)
	found := c.Check(table("acme", "main", "",
		agent.RouteRule{Agent: "a"},
		agent.RouteRule{Name: "one", Agent: " "},
		agent.RouteRule{Name: "two", Agent: "a"},
		agent.RouteRule{Name: "one", Agent: "a", Disabled: true},
		agent.RouteRule{Agent: "a"},
		agent.RouteRule{Name: strings.Repeat("x", 1_025), Agent: "a", Disabled: true, When: agent.RouteWhen{Expression: "nope"}},
	))
	require.Equal(t, strings.Join([]string{
		"rules[0].name: is empty",
		"rules[1].agent: is empty",
		`rules[3].name: "one" is the name of rules[1] as well`,
		"rules[4].name: is empty",
		"rules[5].name: is 1025 bytes, at most 1024",
		"rules[5].when.expression: 1:1: undeclared reference to 'nope'",
	}, "\n"), found.Error(), "a disabled rule is checked like any other")
}

func TestCheckIsBounded(t *testing.T) {
	c := newCompiler(t)
	found := c.Check(table("acme", "main", "", make([]agent.RouteRule, 10_001)...))
	require.Equal(t, "rules: has 10001 rules, at most 10000", found.Error())

	found = c.Check(table("acme", "main", "", make([]agent.RouteRule, 10_000)...))
	require.Len(t, found, 101)
	require.Equal(t, "there are more faults from here on", found[100].Message)
	require.Equal(t, "rules[50].name", found[100].Path)

	rules := make([]agent.RouteRule, 300)
	for i := range rules {
		e := fmt.Sprintf("role == '%d%s'", i, strings.Repeat("x", 4_000))
		rules[i] = agent.RouteRule{Name: fmt.Sprint(i), Agent: "a", When: agent.RouteWhen{Expression: e}}
	}
	found = c.Check(table("acme", "main", "", rules...))
	require.NotEmpty(t, found)
	require.Equal(t, "rules[261].when.expression: the table's expressions have more than 1048576 bytes", found[0].String())
	for i := range rules {
		rules[i].When.Expression = rules[0].When.Expression
	}
	require.Empty(t, c.Check(table("acme", "main", "", rules...)), "the same text counts once")
}
