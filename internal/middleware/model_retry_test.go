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

// failing wraps a model that ends its calls as told and then answers.
func failing(t *testing.T, options string, calls *int, failures ...error) agent.ModelFunc {
	t.Helper()
	m, err := newModelRetry(2, nil, json.RawMessage(options))
	require.NoError(t, err)
	return m.WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		*calls++
		if *calls <= len(failures) {
			return agent.ModelReply{Model: "partial"}, failures[*calls-1]
		}
		return agent.ModelReply{Model: "m"}, nil
	})
}

func TestModelRetry(t *testing.T) {
	patient := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Hour, Err: errors.New("come back later")}
	for name, c := range map[string]struct {
		failures []error
		calls    int
		want     error
	}{
		"answers at once":        {nil, 1, nil},
		"comes back":             {[]error{away, busy}, 3, nil},
		"stays away":             {[]error{away, away, away}, 3, away},
		"is busy to the last":    {[]error{busy, busy, busy}, 3, busy},
		"asks for too much time": {[]error{patient}, 1, patient},
		"refuses":                {[]error{denied}, 1, denied},
		"has a bug":              {[]error{errBug}, 1, errBug},
		"comes back and refuses": {[]error{away, denied}, 2, denied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				reply, err := failing(t, ``, &calls, c.failures...)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
				require.Equal(t, c.calls, calls)
				require.Equal(t, c.want, err, "the error is the provider's own")
				require.Equal(t, c.want == nil, reply.Model == "m")
			})
		})
	}
}

func TestModelRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the turn was cancelled")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		calls := 0
		_, err := failing(t, `{"initial_delay":30}`, &calls, away)(ctx, agent.Invocation{}, agent.ModelRequest{}, nil)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 1, calls)
	})
}

// model_retry and tool_retry wait alike.
func TestRetriesWait(t *testing.T) {
	patient := func(d time.Duration) error {
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: d, Err: errors.New("busy")}
	}
	for name, c := range map[string]struct {
		options  string
		failures []error
		waited   time.Duration
	}{
		"twice as long each time":     {`{"jitter":false}`, []error{busy, busy}, 3 * time.Second},
		"as the factor says":          {`{"jitter":false,"backoff_factor":3,"max_retries":3}`, []error{busy, busy, busy}, 13 * time.Second},
		"always the same":             {`{"jitter":false,"backoff_factor":0,"initial_delay":2}`, []error{busy, busy}, 4 * time.Second},
		"not at all":                  {`{"initial_delay":0}`, []error{busy, busy}, 0},
		"no longer than max_delay":    {`{"jitter":false,"max_retries":4,"max_delay":3}`, []error{busy, busy, busy, busy}, 9 * time.Second},
		"as long as it is asked to":   {`{}`, []error{patient(40 * time.Second)}, 40 * time.Second},
		"as long as max_delay allows": {`{}`, []error{patient(60 * time.Second)}, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for kind, took := range retryTimes(t, c.options, c.failures...) {
					require.InDelta(t, c.waited, took, float64(time.Microsecond), kind)
				}
			})
		})
	}
	t.Run("with jitter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			seen := map[string]map[time.Duration]bool{"model": {}, "tool": {}}
			for range 20 {
				for kind, took := range retryTimes(t, ``, busy) {
					require.InDelta(t, time.Second, took, float64(251*time.Millisecond), kind)
					seen[kind][took] = true
				}
			}
			require.Greater(t, len(seen["model"]), 1)
			require.Greater(t, len(seen["tool"]), 1)
		})
	})
}

// retryTimes returns how long model_retry and tool_retry take to succeed after these failures.
func retryTimes(t *testing.T, options string, failures ...error) map[string]time.Duration {
	t.Helper()
	calls, start := 0, time.Now()
	_, err := failing(t, options, &calls, failures...)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
	require.NoError(t, err)
	require.Equal(t, len(failures)+1, calls)
	took := map[string]time.Duration{"model": time.Since(start)}

	var answers []answer
	for _, err := range failures {
		answers = append(answers, answer{err: err})
	}
	calls, start = 0, time.Now()
	_, err = build(t, newToolRetry, options).WrapTool(script(&calls, answers...))(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "read"})
	require.NoError(t, err)
	require.Equal(t, len(failures)+1, calls)
	took["tool"] = time.Since(start)
	return took
}

func TestModelRetryOfOtherCodes(t *testing.T) {
	bug := agent.Errorf(agent.CodeInternal, "call model", "a bug")
	calls := 0
	_, err := failing(t, `{"retry_on":["internal"],"initial_delay":0}`, &calls, bug)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	calls = 0
	_, err = failing(t, `{"retry_on":["internal"],"initial_delay":0}`, &calls, away)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
	require.Equal(t, away, err)
	require.Equal(t, 1, calls)
}

func TestModelRetryContinues(t *testing.T) {
	const on = `{"on_failure":"continue","initial_delay":0}`
	long := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Hour, Err: errors.New("come back later")}
	cut := agent.Errorf(agent.CodeCancelled, "", "cut off")
	for name, c := range map[string]struct {
		failures []error
		text     string // of the reply, empty: the error
		err      error
	}{
		"to the last":            {[]error{away, away, away}, "Model call failed after 3 attempts with unavailable: call tool: away", nil},
		"asked to wait too long": {[]error{long}, "Model call failed after 1 attempt with rate_limited: come back later", nil},
		"not what it repeats":    {[]error{denied}, "Model call failed after 1 attempt with denied: call tool: bad key", nil},
		"a bug, at last":         {[]error{away, errBug}, "Model call failed after 2 attempts with internal: a bug", nil},
		"a call that was cut":    {[]error{cut}, "", cut},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			reply, err := failing(t, on, &calls, c.failures...)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
			require.Equal(t, c.err, err)
			if c.err == nil {
				require.Equal(t, agent.ModelReply{Blocks: []agent.Block{agent.Text(c.text)}, FinishReason: agent.FinishStop}, reply)
			}
		})
	}
	calls := 0
	reply, err := failing(t, on, &calls, agent.Errorf(agent.CodeUnavailable, "", "%s", strings.Repeat("x", 10_000)), away, away)(
		t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(reply.Blocks[0].Text), maxFailureBytes+len("…"))

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the turn was cancelled")
	cancel(cause)
	calls = 0
	_, err = failing(t, on, &calls, away, away, away)(ctx, agent.Invocation{}, agent.ModelRequest{}, nil)
	require.Error(t, err, "the end of the context is no answer")
}

func TestModelRetryRefusesOptions(t *testing.T) {
	refuses(t, func(o json.RawMessage) (agent.Middleware, error) { return newModelRetry(2, nil, o) }, map[string]string{
		`{"max_retries":-1}`:         "max_retries",
		`{"max_retries":99}`:         "max_retries",
		`{"max_retries":"2"}`:        "max_retries",
		`{"max_delay":0.1}`:          "max_delay",
		`{"backoff_factor":0.5}`:     "backoff_factor",
		`{"retries":1}`:              "retries",
		`{"retry_on":[]}`:            "retry_on",
		`{"retry_on":["denied"]}`:    "retry_on[0]",
		`{"retry_on":["cancelled"]}`: "retry_on[0]",
		`{"on_failure":"raise"}`:     "on_failure",
		`{"initial_delay":-1}`:       "initial_delay",
		`{"max_delay":3601}`:         "max_delay",
		`{"backoff_factor":-1}`:      "backoff_factor",
		`{"backoff_factor":1e9}`:     "backoff_factor",
	})
}
