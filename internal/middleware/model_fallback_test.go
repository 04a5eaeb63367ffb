package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestModelFallback(t *testing.T) {
	m, err := newModelFallback(json.RawMessage(`{"models":["b","a","c"]}`))
	require.NoError(t, err)
	away := errors.New("away")
	cases := map[string]struct {
		failing []string
		asked   []string
		err     error
	}{
		"the first answers": {nil, []string{"a"}, nil},
		"the second does":   {[]string{"a"}, []string{"a", "b"}, nil},
		"not asked twice":   {[]string{"a", "b"}, []string{"a", "b", "c"}, nil},
		"nobody does":       {[]string{"a", "b", "c"}, []string{"a", "b", "c"}, away},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			call := m.WrapModel(func(_ context.Context, _ agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
				asked = append(asked, req.Profile)
				if slices.Contains(c.failing, req.Profile) {
					return agent.ModelReply{}, away
				}
				return agent.ModelReply{Model: req.Profile}, emit(agent.Delta{Text: "hi"})
			})
			streamed := ""
			_, err := call(t.Context(), agent.Invocation{}, agent.ModelRequest{Profile: "a"}, func(d agent.Delta) error {
				streamed += d.Text
				return nil
			})
			require.Equal(t, c.err, err)
			require.Equal(t, c.asked, asked)
			require.Equal(t, c.err == nil, streamed == "hi")
		})
	}
}

func TestModelFallbackEndsWithItsContext(t *testing.T) {
	m, err := newModelFallback(json.RawMessage(`{"models":["b"]}`))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err = m.WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		calls++
		cancel()
		return agent.ModelReply{}, context.Canceled
	})(ctx, agent.Invocation{}, agent.ModelRequest{Profile: "a"}, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)
}

func TestModelFallbackKnowsItsPlan(t *testing.T) {
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	p := &agent.Plan{Agent: "x", Models: []agent.PlanModel{{Profile: "a"}, {Profile: "b"}}}
	fallback := func(options string) agent.PlanMiddleware {
		return agent.PlanMiddleware{Name: "model_fallback", Options: json.RawMessage(options)}
	}
	require.NoError(t, set.Check(fallback(`{"models":["b"]}`), p))
	require.ErrorContains(t, set.Check(fallback(`{"models":["b","z"]}`), p), `options.models[1]: rule known-model: the agent has no model "z"`)
	require.NoError(t, set.Check(fallback(`{"models":["z"]}`), nil), "for a node, whose agents are not known yet")
	require.ErrorContains(t, set.Check(fallback(`{}`), p), "options.models: want 1 to 10")
	require.ErrorContains(t, set.Check(fallback(`{"model":"b"}`), p), "options.model: unknown field")
}
