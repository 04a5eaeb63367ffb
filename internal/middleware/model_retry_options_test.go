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

func TestModelRetryWaits(t *testing.T) {
	patient := func(d time.Duration) error {
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: d, Err: errors.New("busy")}
	}
	cases := map[string]struct {
		options  string
		failures []error
		waited   time.Duration
	}{
		"twice as long each time":     {`{"jitter":false}`, []error{away, away}, 3 * time.Second},
		"as the factor says":          {`{"jitter":false,"backoff_factor":3,"max_retries":3}`, []error{away, away, away}, 13 * time.Second},
		"always the same":             {`{"jitter":false,"backoff_factor":0,"initial_delay":2}`, []error{away, away}, 4 * time.Second},
		"not at all":                  {`{"initial_delay":0}`, []error{away, away}, 0},
		"no longer than max_delay":    {`{"jitter":false,"max_retries":4,"max_delay":3}`, []error{away, away, away, away}, 9 * time.Second},
		"as long as it is asked to":   {`{}`, []error{patient(40 * time.Second)}, 40 * time.Second},
		"as long as max_delay allows": {`{}`, []error{patient(60 * time.Second)}, 60 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				started := time.Now()
				reply, err := failing(t, c.options, &calls, c.failures...)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
				require.NoError(t, err)
				require.Equal(t, "m", reply.Model)
				require.InDelta(t, c.waited, time.Since(started), float64(time.Microsecond))
			})
		})
	}
}

func TestModelRetryJitters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 20 {
			calls := 0
			started := time.Now()
			_, err := failing(t, ``, &calls, away)(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
			require.NoError(t, err)
			waited := time.Since(started)
			require.InDelta(t, time.Second, waited, float64(251*time.Millisecond))
			seen[waited] = true
		}
		require.Greater(t, len(seen), 1)
	})
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
