package agent_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestToolLimits(t *testing.T) {
	scoped := func(scopes ...string) agent.Principal {
		return agent.Principal{Method: agent.MethodKey, Tenant: "acme", Scopes: scopes}
	}
	long := strings.Repeat("x", 129)
	cases := map[string]struct {
		who  agent.Principal
		want []string
	}{
		"the runtime itself":   {agent.Principal{}, nil},
		"nothing configured":   {agent.Principal{Method: agent.MethodNone}, nil},
		"everything":           {scoped("*"), nil},
		"the action":           {scoped("turns.run", "tools.use"), nil},
		"what begins so":       {scoped("tools.*"), nil},
		"every tool":           {scoped("tools.use:*"), nil},
		"one wider than other": {scoped("tools.use:send_*", "tools.use"), nil},
		"none":                 {scoped("turns.run"), []string{}},
		"another action":       {scoped("tools.read"), []string{}},
		"some":                 {scoped("tools.use:send_*", "turns.run", "tools.*:look"), []string{"send_*", "look"}},
		"no tool's name":       {scoped("tools.use:a*b", "tools.use:"+long, "tools.use:look"), []string{"look"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.who.ToolLimits()) })
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("tools.use:t", i))
	}
	who := scoped(many...)
	limits := agent.Limits{Tools: who.ToolLimits()}
	require.NoError(t, limits.Validate("limits"), "limits from scopes are valid limits of a request")
}

func TestLowerTools(t *testing.T) {
	cases := map[string]struct{ a, b, want []string }{
		"of nothing":   {nil, nil, nil},
		"left":         {[]string{"a"}, nil, []string{"a"}},
		"right":        {nil, []string{"a"}, []string{"a"}},
		"none stays":   {[]string{}, nil, []string{}},
		"none wins":    {[]string{"*"}, []string{}, []string{}},
		"names":        {[]string{"a", "b"}, []string{"b", "c"}, []string{"b"}},
		"nothing left": {[]string{"a"}, []string{"b"}, []string{}},
		"pattern":      {[]string{"send_*", "look"}, []string{"send_mail", "lo*"}, []string{"send_mail", "look"}},
		"both open":    {[]string{"send_*"}, []string{"send_m*", "s*"}, []string{"send_m*", "send_*"}},
		"once":         {[]string{"a", "a*"}, []string{"a", "a*"}, []string{"a", "a*"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := agent.Limits{Tools: c.a}
			require.Equal(t, c.want, l.Lower(&agent.Limits{Tools: c.b}).Tools)
		})
	}
}

// For any two lists, the lowered limits allow exactly the tools that both lists allow.
func TestLowerToolsIntersects(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		var s strings.Builder
		for range r.IntN(n) {
			s.WriteByte("ab"[r.IntN(2)])
		}
		return s.String()
	}
	list := func() []string {
		if r.IntN(8) == 0 {
			return nil
		}
		out := []string{}
		for range r.IntN(4) {
			p := word(4)
			if p == "" || r.IntN(2) == 0 {
				p += "*"
			}
			out = append(out, p)
		}
		return out
	}
	for range 20_000 {
		a, b := agent.Limits{Tools: list()}, agent.Limits{Tools: list()}
		both := a.Lower(&b)
		tool := word(5) + "a"
		require.Equal(t, a.MayCall(tool) && b.MayCall(tool), both.MayCall(tool), "%q of %q and %q: %q", tool, a.Tools, b.Tools, both.Tools)
		require.NoError(t, both.Validate(""))
	}
}

func TestLowerToolsIsBounded(t *testing.T) {
	wide, narrow := []string{"b*"}, []string{"a*"}
	for i := range 255 {
		wide, narrow = append(wide, fmt.Sprint("a", i)), append(narrow, fmt.Sprint("b", i))
	}
	l := agent.Limits{Tools: wide}
	both := l.Lower(&agent.Limits{Tools: narrow})
	require.Len(t, both.Tools, 256)
	require.NoError(t, both.Validate("limits"))
}

func TestValidateTools(t *testing.T) {
	cases := map[string]struct {
		tools []string
		field string
	}{
		"none":     {[]string{}, ""},
		"name":     {[]string{"look", "send_*", "*"}, ""},
		"empty":    {[]string{"look", ""}, "limits.tools[1]"},
		"long":     {[]string{strings.Repeat("x", 129)}, "limits.tools[0]"},
		"inside":   {[]string{"a*b"}, "limits.tools[0]"},
		"two":      {[]string{"a**"}, "limits.tools[0]"},
		"too many": {make([]string, 257), "limits.tools"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&agent.Limits{Tools: c.tools}).Validate("limits")
			if c.field == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			require.Equal(t, c.field, agent.FailureOf(err).Field)
		})
	}
}

// JSON must keep the difference between an empty tool list, which allows no tool, and a missing one, which allows all.
func TestEmptyToolListInJSON(t *testing.T) {
	for _, tools := range [][]string{nil, {}, {"look"}} {
		raw, err := json.Marshal(agent.Limits{Tools: tools})
		require.NoError(t, err)
		require.Equal(t, tools == nil, string(raw) == "{}", "%s", raw)
		var back agent.Limits
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, tools, back.Tools)
	}
}

func TestCostLimitIsFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), -1} {
		l := agent.Limits{CostUSD: v}
		require.Equal(t, "limits.cost_usd", agent.FailureOf(l.Validate("limits")).Field, v)
	}
}
