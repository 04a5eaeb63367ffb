package middleware

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// suiteCase is a middleware for the suite, which checks the contract of [agent.Middleware]: wrong options are refused by name, hooks
// survive empty calls, messages may be shared, and one middleware serves many calls at once.
type suiteCase struct {
	New     Factory
	Options string // the fewest options that it works with, a JSON object; empty: none
	Every   string // a JSON object with every option, each with a valid value
}

// exercise runs the suite.
func exercise(t *testing.T, c suiteCase) {
	t.Helper()
	t.Run("options", func(t *testing.T) { exerciseOptions(t, &c) })
	for name, options := range map[string]string{"least": c.Options, "every option": c.Every} {
		t.Run(name, func(t *testing.T) {
			build := func() agent.Middleware { return c.build(t, options) }
			t.Run("nothing in it", func(t *testing.T) { exerciseEmpty(t, build()) })
			t.Run("the same again", func(t *testing.T) { exerciseStable(t, build) })
			t.Run("shared", func(t *testing.T) { exerciseShared(t, build()) })
			t.Run("plan", func(t *testing.T) { exercisePlan(t, &c, build()) })
		})
	}
}

func (c *suiteCase) build(t *testing.T, options string) agent.Middleware {
	t.Helper()
	var raw json.RawMessage
	if options != "" {
		raw = json.RawMessage(options)
	}
	m, err := c.New(raw)
	require.NoError(t, err)
	require.NotNil(t, m)
	return m
}

// hostileValues returns values of every kind that hardly any option takes.
func hostileValues() []string {
	return []string{
		`null`, `true`, `false`, `-1`, `0`, `0.5`, `1e300`, `-1e300`, `1e999`, `99999999999999999999`, `""`, `" "`, `"\u0000"`, `"no such value"`,
		`"` + strings.Repeat("x", 1<<20) + `"`, `[]`, `[null]`, `[1]`, `[[]]`, `[""]`, `[{}]`, `["a"` + strings.Repeat(`,"a"`, 5_000) + `]`,
		`{}`, `{"no such field":1}`, `{"":null}`, strings.Repeat(`[`, 5_000) + strings.Repeat(`]`, 5_000),
	}
}

func exerciseOptions(t *testing.T, c *suiteCase) {
	t.Helper()
	every := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(c.Every), &every))
	require.NotEmpty(t, every)
	for _, bad := range []string{`[]`, `1`, `"x"`, `true`, `{`, `{}{}`, `{"a":1,"a":2}`, "\xff"} {
		_, err := c.New(json.RawMessage(bad))
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), bad)
	}
	require.Equal(t, "no_such_option", refusedField(t, c, every, "no_such_option", `1`))
	for _, name := range slices.Sorted(maps.Keys(every)) {
		wrong := 0
		for _, value := range hostileValues() {
			field := refusedField(t, c, every, name, value)
			if field == "" {
				continue
			}
			wrong++
			first, _, _ := strings.Cut(field, ".")
			first, _, _ = strings.Cut(first, "[")
			// Options may be at odds with one another; then the error names either.
			require.Contains(t, every, first, "%s: %.60s: the error names %s", name, value, field)
		}
		require.Positive(t, wrong, "%s takes anything", name)
	}
}

// refusedField sets one option and returns the field that the refusal names, "" without a refusal.
func refusedField(t *testing.T, c *suiteCase, every map[string]json.RawMessage, name, value string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("{")
	for _, other := range slices.Sorted(maps.Keys(every)) {
		if other != name {
			fmt.Fprintf(&b, "%q:%s,", other, every[other])
		}
	}
	fmt.Fprintf(&b, "%q:%s}", name, value)
	m, err := c.New(json.RawMessage(b.String()))
	if err == nil {
		require.NotNil(t, m)
		return ""
	}
	var e *agent.Error
	require.ErrorAs(t, err, &e, "%s: %.60s", name, value)
	require.Equal(t, agent.CodeInvalid, e.Code, "%s: %.60s", name, value)
	require.NotEmpty(t, e.Field, "%s: %.60s: %v", name, value, err)
	require.Less(t, len(err.Error()), 2_000, "%s: an error does not repeat its option", name)
	return e.Field
}

// exercisePlan holds what a middleware says of itself to its form.
func exercisePlan(t *testing.T, c *suiteCase, m agent.Middleware) {
	t.Helper()
	if checker, ok := m.(agent.PlanChecker); ok {
		if err := checker.CheckPlan(&agent.Plan{}); err != nil {
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeInvalid, e.Code)
			first, _, _ := strings.Cut(e.Field, ".")
			first, _, _ = strings.Cut(first, "[")
			require.Contains(t, c.Every, fmt.Sprintf("%q", first))
			require.Regexp(t, `^rule [a-z-]+: `, e.Err.Error())
		}
	}
	if ruler, ok := m.(agent.Ruler); ok {
		var one, two agent.Rules
		ruler.Rule(&one)
		ruler.Rule(&two)
		require.NotEqual(t, agent.Rules{}, one)
		require.Equal(t, one, two)
	}
	if granter, ok := m.(agent.Granter); ok {
		require.NotEmpty(t, granter.Grants())
	}
	if jumper, ok := m.(agent.Jumper); ok {
		require.NotEmpty(t, jumper.CanJumpTo())
	}
}
