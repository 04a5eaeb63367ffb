package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestToolError(t *testing.T) {
	field := agent.Invalid("args.city", "is no city")
	cancelled := agent.Errorf(agent.CodeCancelled, "", "the upload was cancelled")
	cases := map[string]struct {
		options string
		err     error
		want    *agent.Failure // nil: the error stays
	}{
		"unreachable":          {`{}`, away, &agent.Failure{Type: "unavailable", Message: "call tool: away", Retryable: true, Tool: "read"}},
		"without options":      {``, denied, &agent.Failure{Type: "denied", Message: "call tool: bad key", Tool: "read"}},
		"with nulls":           {`{"tools":null,"codes":null}`, denied, &agent.Failure{Type: "denied", Message: "call tool: bad key", Tool: "read"}},
		"no code":              {`{}`, errBug, &agent.Failure{Type: "internal", Message: "a bug", Tool: "read"}},
		"wrapped":              {`{}`, fmt.Errorf("read: %w", busy), &agent.Failure{Type: "rate_limited", Message: "read: call tool: busy", Retryable: true, Tool: "read"}},
		"a field":              {`{}`, field, &agent.Failure{Type: "invalid", Message: "args.city: is no city", Field: "args.city", Tool: "read"}},
		"cancelled":            {`{}`, cancelled, nil},
		"cancelled, as asked":  {`{"codes":["cancelled"]}`, cancelled, &agent.Failure{Type: "cancelled", Message: "the upload was cancelled", Tool: "read"}},
		"a code that is meant": {`{"codes":["denied","unavailable"]}`, away, &agent.Failure{Type: "unavailable", Message: "call tool: away", Retryable: true, Tool: "read"}},
		"a code that is not":   {`{"codes":["denied"]}`, away, nil},
		"a tool that is meant": {`{"tools":["write","read"]}`, denied, &agent.Failure{Type: "denied", Message: "call tool: bad key", Tool: "read"}},
		"a tool that is not":   {`{"tools":["write"]}`, denied, nil},
		"a text": {
			`{"message":"{{tool}} says: {{ error }}. {{tool}} stays away."}`, away,
			&agent.Failure{Type: "unavailable", Message: "read says: call tool: away. read stays away.", Retryable: true, Tool: "read"},
		},
		"a text that tells nothing": {`{"message":"It failed."}`, away, &agent.Failure{Type: "unavailable", Message: "It failed.", Retryable: true, Tool: "read"}},
		"an error with braces":      {`{"message":"{{error}}"}`, errors.New("{{tool}}"), &agent.Failure{Type: "internal", Message: "{{tool}}", Tool: "read"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			calls := 0
			call := build(t, newToolError, c.options).WrapTool(script(&calls, answer{err: c.err}))
			result, err := call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
			require.Equal(t, 1, calls)
			if c.want == nil {
				require.Equal(t, c.err, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, agent.ToolResult{Failure: c.want}, result)
		})
	}
}

func TestToolErrorLeavesResults(t *testing.T) {
	calls := 0
	call := build(t, newToolError, `{"message":"failed"}`).WrapTool(script(&calls, answer{failure: marked}))
	result, err := call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
	require.NoError(t, err)
	require.Same(t, marked, result.Failure)
	result, err = call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
	require.NoError(t, err)
	require.Equal(t, agent.ToolResult{Output: json.RawMessage(`"done"`)}, result)
}

func TestToolErrorLeavesTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	call := build(t, newToolError, `{}`).WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		cancel()
		return agent.ToolResult{}, away
	})
	_, err := call(ctx, agent.Invocation{}, agent.ToolCall{Name: "read"})
	require.Equal(t, error(away), err)
}

func TestToolErrorPanics(t *testing.T) {
	panics := func(v any) agent.ToolFunc {
		return func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) { panic(v) }
	}
	cases := map[string]struct {
		value any
		want  string
	}{
		"a text":   {"no such row", "call tool: the tool panicked: no such row"},
		"an error": {away, "call tool: the tool panicked: call tool: away"},
		"too much": {strings.Repeat("x", 10_000), "call tool: the tool panicked: " + strings.Repeat("x", maxPanicBytes) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := build(t, newToolError, `{}`).WrapTool(panics(c.value))(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
			require.NoError(t, err)
			require.Equal(t, agent.ToolResult{Failure: &agent.Failure{Type: "internal", Message: c.want, Tool: "read"}}, result)
		})
	}
	result, err := build(t, newToolError, `{}`).WrapTool(panics(nil))(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.NoError(t, err)
	require.NotNil(t, result.Failure, "a panic with nil is one as well")
	_, err = build(t, newToolError, `{"codes":["unavailable"]}`).WrapTool(panics("no such row"))(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "a panic that is not meant is an error still")
	require.PanicsWithValue(t, "mine", func() {
		_, _ = build(t, newToolError, `{"tools":["write"]}`).WrapTool(panics("mine"))(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
	})
}

func TestToolErrorBoundsTheMessage(t *testing.T) {
	long := errors.New(strings.Repeat("é", 10_000))
	for _, options := range []string{`{}`, `{"message":"x{{error}}"}`, `{"message":"` + strings.Repeat("{{error}}", 200) + `"}`} {
		calls := 0
		result, err := build(t, newToolError, options).WrapTool(script(&calls, answer{err: long}))(t.Context(), agent.Invocation{}, agent.ToolCall{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(result.Failure.Message), maxFailureBytes+len("…"))
		require.True(t, utf8.ValidString(result.Failure.Message))
		require.True(t, strings.HasSuffix(result.Failure.Message, "é…"))
	}
}

// The order that LangChain advises: tool_error outside, tool_retry inside with on_failure error.
func TestToolErrorAroundToolRetry(t *testing.T) {
	calls := 0
	inner := build(t, newToolRetry, `{"on_failure":"error","initial_delay":0,"max_retries":1}`).WrapTool(script(&calls, answer{err: busy}, answer{err: busy}))
	result, err := build(t, newToolError, `{"message":"{{tool}}: {{error}}"}`).WrapTool(inner)(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Equal(t, "read: call tool: busy", result.Failure.Message)
}

func TestToolErrorRefusesOptions(t *testing.T) {
	refuses(t, newToolError, map[string]string{
		`{"tools":[""]}`:              "tools[0]",
		`{"codes":[]}`:                "codes",
		`{"codes":["denied","nope"]}`: "codes[1]",
		`{"codes":["denied"` + strings.Repeat(`,"denied"`, 9) + `]}`: "codes",
		`{"message":"{{tool}} {{args}}"}`:                            "message",
		`{"message":"{{tool"}`:                                       "message",
		`{"message":"` + strings.Repeat("x", 2_001) + `"}`:           "message",
		`{"on_error":"x"}`:                                           "on_error",
	})
}
