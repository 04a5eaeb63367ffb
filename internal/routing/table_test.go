package routing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestCheckNamesTheField(t *testing.T) {
	flags := func(name, value string) agent.RouteWhen { return agent.RouteWhen{Flags: raw(name, value)} }
	metadata := func(path, value string) agent.RouteWhen { return agent.RouteWhen{Metadata: raw(path, value)} }
	expression := func(e string) agent.RouteWhen { return agent.RouteWhen{Expression: e} }
	cases := map[string]struct {
		when agent.RouteWhen
		want []string // path: message, of a rule's conditions
	}{
		"entry: star inside":      {agent.RouteWhen{Role: []string{"ok", "a*b"}}, []string{`role[1]: "a*b": a * stands for anything at the end alone`}},
		"entry: two stars":        {agent.RouteWhen{Page: []string{"/a/**"}}, []string{`page[0]: "/a/**": a * stands for anything at the end alone`}},
		"flag without a name":     {flags("", "1"), []string{"flags: a name is empty"}},
		"flag: an object":         {flags("f", `{"a":1}`), []string{"flags.f: is an object; want a text, a number, true, false or null"}},
		"flag: a list":            {flags("f", `[1]`), []string{"flags.f: is a list; want a text, a number, true, false or null"}},
		"flag: nothing":           {flags("f", ``), []string{"flags.f: is no JSON value: unexpected end of JSON input"}},
		"flag: broken":            {flags("f", `tru`), []string{"flags.f: is no JSON value: invalid character"}},
		"flag: beyond floats":     {flags("f", `1e999`), []string{"flags.f: is no JSON value: json: cannot unmarshal number 1e999"}},
		"metadata without a path": {metadata(" ", "1"), []string{"metadata: a name is empty"}},
		"metadata: an object":     {metadata("a.b", `{}`), []string{"metadata.a.b: is an object; want a text, a number, true, false or null, or a list of them"}},
		"metadata: empty list":    {metadata("a.b", `[]`), []string{"metadata.a.b: is an empty list, which nothing matches"}},
		"metadata: list of lists": {metadata("a", `[1,[2],{}]`), []string{"metadata.a[1]: is a list; want", "metadata.a[2]: is an object; want"}},
		"metadata: broken":        {metadata("a", `{`), []string{"metadata.a: is no JSON value"}},
		"metadata: too long":      {metadata("a", "["+strings.Repeat("1,", 1_000)+"1]"), []string{"metadata.a: has 1001 entries, at most 1000"}},
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
		"many faults": {expression(strings.Repeat("a && ", 30) + "a"), slices.Repeat([]string{"expression: "}, 10)},
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

func TestDisabledRulesAreChecked(t *testing.T) {
	found := newCompiler(t).Check(table("acme", "main", "", agent.RouteRule{Name: "r", Agent: "a", Disabled: true, When: agent.RouteWhen{Expression: "nope"}}))
	require.EqualError(t, found, "rules[0].when.expression: 1:1: undeclared reference to 'nope'")
}

func TestCheckIsBounded(t *testing.T) {
	c := newCompiler(t)
	wrong := make([]agent.RouteRule, 1_000)
	for i := range wrong {
		wrong[i].When.Role = []string{"a*b"}
	}
	found := c.Check(table("acme", "main", "", wrong...))
	require.Len(t, found, 101)
	require.Equal(t, "there are more faults from here on", found[100].Message)
	require.Equal(t, "rules[50].when.role[0]", found[50].Path)

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
