package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
)

// retry builds model_retry with options around a model that fails with the given errors, one after the other, and then answers.
func retry(t *testing.T, options string, failures ...error) (agent.ModelFunc, *int) {
	t.Helper()
	set, err := middleware.NewSet(middleware.Builtin(2, nil)...)
	require.NoError(t, err)
	chain, err := set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "model_retry", Options: json.RawMessage(options)}}})
	require.NoError(t, err)
	calls := 0
	return chain[0].WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		calls++
		if calls <= len(failures) {
			return agent.ModelReply{}, failures[calls-1]
		}
		return agent.ModelReply{Model: "m"}, nil
	}), &calls
}

const fast = `{"max_retries":2,"initial_delay":0.001,"max_delay":0.05}`

func TestModelRetry(t *testing.T) {
	away := agent.Errorf(agent.CodeUnavailable, "call model", "away")
	busy := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 5 * time.Millisecond, Err: errors.New("busy")}
	patience := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Hour, Err: errors.New("come back later")}
	denied := agent.Errorf(agent.CodeDenied, "call model", "bad key")
	unknown := errors.New("a bug")
	cases := map[string]struct {
		failures []error
		calls    int
		want     error
	}{
		"answers at once":        {nil, 1, nil},
		"comes back":             {[]error{away, busy}, 3, nil},
		"stays away":             {[]error{away, away, away}, 3, away},
		"asks for a little time": {[]error{busy}, 2, nil},
		"is busy to the last":    {[]error{busy, busy, busy}, 3, busy},
		"asks for too much time": {[]error{patience}, 1, patience},
		"refuses":                {[]error{denied}, 1, denied},
		"has a bug":              {[]error{unknown}, 1, unknown},
		"comes back and refuses": {[]error{away, denied}, 2, denied},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			call, calls := retry(t, fast, c.failures...)
			reply, err := call(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
			require.Equal(t, c.calls, *calls)
			require.Equal(t, c.want, err, "the error is the provider's own")
			require.Equal(t, c.want == nil, reply.Model == "m")
		})
	}
}

func TestModelRetryHonoursRetryAfter(t *testing.T) {
	wait := &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 40 * time.Millisecond, Err: errors.New("busy")}
	call, _ := retry(t, fast, wait)
	started := time.Now()
	_, err := call(t.Context(), agent.Invocation{}, agent.ModelRequest{}, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(started), 40*time.Millisecond)
}

func TestModelRetryEndsWithItsContext(t *testing.T) {
	call, calls := retry(t, `{"initial_delay":30}`, agent.Errorf(agent.CodeUnavailable, "", "away"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the turn was cancelled")
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	_, err := call(ctx, agent.Invocation{}, agent.ModelRequest{}, nil)
	require.ErrorIs(t, err, cause)
	require.Equal(t, 1, *calls)
}

func TestChainRefusesWhatItDoesNotKnow(t *testing.T) {
	set, err := middleware.NewSet(middleware.Builtin(2, nil)...)
	require.NoError(t, err)
	for options, field := range map[string]string{
		`{"max_retries":-1}`:     "max_retries",
		`{"max_retries":99}`:     "max_retries",
		`{"max_delay":0.1}`:      "max_delay",
		`{"backoff_factor":0.5}`: "backoff_factor",
		`{"retries":1}`:          "retries",
		`{"max_retries":"2"}`:    "max_retries",
	} {
		_, err := set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "model_retry", Options: json.RawMessage(options)}}})
		var e *agent.Error
		require.ErrorAs(t, err, &e, options)
		require.Equal(t, field, e.Field)
	}
	_, err = set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "nope"}}})
	require.ErrorContains(t, err, `middleware[0].name: there is no middleware "nope"`)
	_, err = middleware.NewSet(append(middleware.Builtin(2, nil), middleware.Builtin(2, nil)...)...)
	require.ErrorContains(t, err, "given twice")
}
