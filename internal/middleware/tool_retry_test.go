package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// build makes a middleware as plans do.
func build(t *testing.T, factory Factory, options string) agent.Middleware {
	t.Helper()
	set, err := NewSet(Named{Name: "tested", New: factory})
	require.NoError(t, err)
	chain, err := set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "tested", Options: json.RawMessage(options)}}})
	require.NoError(t, err)
	return chain[0]
}

// refuses checks that options are refused with the field that is at fault.
func refuses(t *testing.T, factory Factory, fields map[string]string) {
	t.Helper()
	for options, field := range fields {
		_, err := factory(json.RawMessage(options))
		var e *agent.Error
		require.ErrorAs(t, err, &e, options)
		require.Equal(t, agent.CodeInvalid, e.Code, options)
		require.Equal(t, field, e.Field, options)
	}
}

// answer is how a scripted tool ends one call.
type answer struct {
	failure *agent.Failure
	err     error
}

// script makes a tool that ends its calls as told and then goes well. calls counts them.
func script(calls *int, answers ...answer) agent.ToolFunc {
	return func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		*calls++
		if *calls > len(answers) {
			return agent.ToolResult{Output: json.RawMessage(`"done"`)}, nil
		}
		a := answers[*calls-1]
		return agent.ToolResult{Output: json.RawMessage(`"partial"`), Failure: a.failure}, a.err
	}
}

var (
	away   = agent.Errorf(agent.CodeUnavailable, "call tool", "away")
	busy   = agent.Errorf(agent.CodeRateLimited, "call tool", "busy")
	denied = agent.Errorf(agent.CodeDenied, "call tool", "bad key")
	errBug = errors.New("a bug")

	marked   = &agent.Failure{Type: "unavailable", Message: "no answer", Retryable: true}
	unmarked = &agent.Failure{Type: "unavailable", Message: "whether it took effect is unknown"}
	wrong    = &agent.Failure{Type: "invalid", Message: "no such city", Retryable: true}
	odd      = &agent.Failure{Type: "lock_timeout", Message: "locked", Retryable: true}
)

func TestToolRetryRepeatsWhatMayBeRepeated(t *testing.T) {
	const named = `{"tools":["pay"]}`
	cases := map[string]struct {
		options string
		answer  answer
		repeats bool
	}{
		"a failure that the tool marked":          {`{}`, answer{failure: marked}, true},
		"a failure that it did not mark":          {`{}`, answer{failure: unmarked}, false},
		"an error that may have taken effect":     {`{}`, answer{err: away}, false},
		"an error that says it was turned away":   {`{}`, answer{err: busy}, true},
		"a bug":                                   {`{}`, answer{err: errBug}, false},
		"another failure":                         {`{}`, answer{failure: wrong}, false},
		"named: a marked failure":                 {named, answer{failure: marked}, true},
		"named: a failure that is not marked":     {named, answer{failure: unmarked}, true},
		"named: an error":                         {named, answer{err: away}, true},
		"named: a refusal":                        {named, answer{err: denied}, false},
		"named: another failure":                  {named, answer{failure: wrong}, false},
		"another tool is named":                   {`{"tools":["read"]}`, answer{failure: marked}, false},
		"a type of the tool's own":                {`{"retry_on":["lock_timeout"]}`, answer{failure: odd}, true},
		"a type that the options leave out":       {`{"retry_on":["lock_timeout"]}`, answer{failure: marked}, false},
		"a bug, where the plan says so by name":   {`{"tools":["pay"],"retry_on":["internal"]}`, answer{err: errBug}, true},
		"a bug, where the plan says so of all":    {`{"retry_on":["internal"]}`, answer{err: errBug}, false},
		"on_failure is for what was repeated":     {`{"on_failure":"continue"}`, answer{err: denied}, false},
		"on_failure error leaves data what it is": {`{"on_failure":"error"}`, answer{failure: wrong}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				call := build(t, newToolRetry, c.options).WrapTool(script(&calls, c.answer))
				result, err := call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "pay"})
				if c.repeats {
					require.NoError(t, err)
					require.Equal(t, agent.ToolResult{Output: json.RawMessage(`"done"`)}, result)
					require.Equal(t, 2, calls)
					return
				}
				require.Equal(t, 1, calls)
				require.Equal(t, c.answer.err, err, "the error is the tool's own")
				require.Same(t, c.answer.failure, result.Failure)
				require.JSONEq(t, `"partial"`, string(result.Output))
			})
		})
	}
}

func TestToolRetryGivesUp(t *testing.T) {
	long := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Hour, Err: errors.New("come back later")}
	cases := map[string]struct {
		options string
		answer  answer
		calls   int
		message string // of the failure; "" when there is none
		err     error
	}{
		"a failure, told to the model":       {`{}`, answer{failure: marked}, 3, "failed after 3 attempts: no answer", nil},
		"an error, told to the model":        {`{}`, answer{err: busy}, 3, "failed after 3 attempts: call tool: busy", nil},
		"without a retry":                    {`{"max_retries":0}`, answer{failure: marked}, 1, "failed after 1 attempt: no answer", nil},
		"asked for too much time":            {`{}`, answer{err: long}, 1, "failed after 1 attempt: come back later (asked to wait 1h0m0s)", nil},
		"an error, told to the runtime":      {`{"on_failure":"error"}`, answer{err: busy}, 3, "", busy},
		"an error, by the older name":        {`{"on_failure":"raise"}`, answer{err: busy}, 3, "", busy},
		"a failure, by the older name":       {`{"on_failure":"return_message"}`, answer{failure: marked}, 3, "failed after 3 attempts: no answer", nil},
		"too much time, told to the runtime": {`{"on_failure":"error"}`, answer{err: long}, 1, "", long},
		"a failure, told to the runtime":     {`{"on_failure":"error"}`, answer{failure: marked}, 3, "no answer", marked.AsError()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				before := *marked
				call := build(t, newToolRetry, c.options).WrapTool(script(&calls, c.answer, c.answer, c.answer, c.answer))
				result, err := call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
				require.Equal(t, c.err, err)
				require.Equal(t, c.calls, calls)
				require.Equal(t, before, *marked, "a tool may share its failures")
				if c.message == "" {
					require.Nil(t, result.Failure)
					return
				}
				require.Equal(t, c.message, result.Failure.Message)
				require.True(t, result.Failure.Retryable)
				require.JSONEq(t, `"partial"`, string(result.Output), "what the tool had is kept")
				if c.err == nil {
					require.Equal(t, "read", result.Failure.Tool)
				}
			})
		})
	}
}

func TestToolRetryBoundsTheMessage(t *testing.T) {
	calls := 0
	long := answer{err: agent.Errorf(agent.CodeRateLimited, "", "%s", strings.Repeat("é", 10_000))}
	call := build(t, newToolRetry, `{"max_retries":0}`).WrapTool(script(&calls, long))
	result, err := call(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.NoError(t, err)
	require.LessOrEqual(t, len(result.Failure.Message), maxFailureBytes+len("…"))
	require.True(t, strings.HasSuffix(result.Failure.Message, "é…"))
}

func TestToolRetryReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		calls := 0
		call := build(t, newToolRetry, `{"jitter":false}`).WrapTool(script(&calls, answer{failure: marked}, answer{err: busy}, answer{err: busy}))
		_, err := call(t.Context(), agent.Invocation{Progress: func(m string) { heard = append(heard, m) }}, agent.ToolCall{Name: "read"})
		require.NoError(t, err)
		require.Equal(t, []string{"read failed (unavailable): retry 1 of 2 in 1s", "read failed (rate_limited): retry 2 of 2 in 2s"}, heard)
	})
}

func TestToolRetryPassesTheCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := agent.Invocation{TurnID: "t1", IdempotencyKey: "t1/0/c1"}
		call := agent.ToolCall{ID: "c1", Name: "read", Args: json.RawMessage(`{"a":1}`)}
		calls := 0
		next := script(&calls, answer{failure: marked})
		wrapped := build(t, newToolRetry, `{}`).WrapTool(func(ctx context.Context, i agent.Invocation, c agent.ToolCall) (agent.ToolResult, error) {
			require.Equal(t, inv.IdempotencyKey, i.IdempotencyKey, "the same for every attempt")
			require.Equal(t, call, c)
			return next(ctx, i, c)
		})
		for range 2 { // a wrapped call keeps nothing from one call to the next
			calls = 0
			_, err := wrapped(t.Context(), inv, call)
			require.NoError(t, err)
			require.Equal(t, 2, calls)
		}
	})
}

func TestToolRetryEndsWithItsContext(t *testing.T) {
	cause := errors.New("the turn was cancelled")
	t.Run("while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			call := build(t, newToolRetry, `{"initial_delay":30}`).WrapTool(script(&calls, answer{failure: marked}))
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			started := time.Now()
			_, err := call(ctx, agent.Invocation{}, agent.ToolCall{})
			require.ErrorIs(t, err, cause)
			require.Equal(t, 1, calls)
			require.Equal(t, time.Second, time.Since(started))
		})
	})
	t.Run("in its last try", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		call := build(t, newToolRetry, `{"max_retries":0,"tools":["read"]}`).WrapTool(
			func(ctx context.Context, _ agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
				cancel(cause)
				return agent.ToolResult{}, agent.Errorf(agent.CodeUnavailable, "", "stopped: %w", ctx.Err())
			})
		_, err := call(ctx, agent.Invocation{}, agent.ToolCall{Name: "read"})
		require.ErrorIs(t, err, cause, "the end of the context is no failure to tell the model")
	})
}

func TestToolRetryRefusesOptions(t *testing.T) {
	refuses(t, newToolRetry, map[string]string{
		`{"max_retries":-1}`:                                 "max_retries",
		`{"max_retries":21}`:                                 "max_retries",
		`{"max_retries":"2"}`:                                "max_retries",
		`{"on_failure":"ignore"}`:                            "on_failure",
		`{"on_failure":""}`:                                  "on_failure",
		`{"backoff_factor":0.5}`:                             "backoff_factor",
		`{"backoff_factor":-1}`:                              "backoff_factor",
		`{"initial_delay":-1}`:                               "initial_delay",
		`{"initial_delay":61}`:                               "max_delay",
		`{"max_delay":3601}`:                                 "max_delay",
		`{"retry_on":[]}`:                                    "retry_on",
		`{"retry_on":["unavailable","cancelled"]}`:           "retry_on[1]",
		`{"retry_on":[""]}`:                                  "retry_on[0]",
		`{"tools":["a",""]}`:                                 "tools[1]",
		`{"tools":["` + strings.Repeat("a", 129) + `"]}`:     "tools[0]",
		`{"tools":["a"` + strings.Repeat(`,"a"`, 128) + `]}`: "tools",
		`{"tools":"a"}`:                                      "tools",
		`{"retries":1}`:                                      "retries",
	})
	build(t, newToolRetry, `{"max_retries":20,"tools":[],"retry_on":["x"],"max_delay":3600,"initial_delay":0}`)
}

// TestToolRetryOfRepeatableCalls: an outage may have come after the call took effect, which only a repeatable one need not mind.
func TestToolRetryOfRepeatableCalls(t *testing.T) {
	m, err := newToolRetry(json.RawMessage(`{"initial_delay":0,"max_delay":0}`))
	require.NoError(t, err)
	for repeatable, tries := range map[bool]int{true: 3, false: 1} {
		n := 0
		_, _ = m.WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
			n++
			return agent.ToolResult{}, agent.Errorf(agent.CodeUnavailable, "", "away")
		})(t.Context(), agent.Invocation{Repeatable: repeatable}, agent.ToolCall{Name: "x"})
		require.Equal(t, tries, n, "repeatable: %v", repeatable)
	}
}
