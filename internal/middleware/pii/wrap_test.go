package pii

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const said = "Write to ann@example.com or to bob@example.org, please."

// wrapped runs a middleware around a model that says a text in chunks of a size, and returns what was emitted.
func wrapped(t *testing.T, options string, size int, fail error) (emitted string, reply agent.ModelReply, err error) {
	t.Helper()
	made, err := New(json.RawMessage(options))
	require.NoError(t, err)
	call := made.WrapModel(func(_ context.Context, _ agent.Invocation, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		reply := agent.ModelReply{Blocks: []agent.Block{agent.Text(said)}, Usage: agent.Usage{OutputTokens: 7}}
		for rest := said; rest != ""; {
			n := min(size, len(rest))
			if err := emit(agent.Delta{Text: rest[:n]}); err != nil {
				return reply, err
			}
			rest = rest[n:]
		}
		return reply, fail
	})
	var out strings.Builder
	reply, err = call(t.Context(), agent.Invocation{}, agent.ModelRequest{}, func(d agent.Delta) error {
		out.WriteString(d.Text)
		return nil
	})
	return out.String(), reply, err
}

func TestStreamedOutputIsRedacted(t *testing.T) {
	const clean = "Write to [REDACTED_EMAIL] or to [REDACTED_EMAIL], please."
	for size := 1; size <= len(said); size++ {
		emitted, reply, err := wrapped(t, `{"pii_type":"email","apply_to_output":true}`, size, nil)
		require.NoError(t, err)
		require.Equal(t, clean, emitted, "chunks of %d", size)
		require.Equal(t, clean, reply.Blocks[0].Text)
	}
	emitted, reply, err := wrapped(t, `{"pii_type":"email"}`, 5, nil)
	require.NoError(t, err)
	require.Equal(t, said, emitted, "output is left alone unless asked for")
	require.Equal(t, said, reply.Blocks[0].Text)
}

func TestFailedCallDropsWhatIsHeld(t *testing.T) {
	away := errors.New("away")
	for size := 1; size <= len(said); size++ {
		emitted, reply, err := wrapped(t, `{"pii_type":"email","apply_to_output":true}`, size, away)
		require.ErrorIs(t, err, away)
		require.NotContains(t, emitted, "@")
		require.Empty(t, reply.Blocks)
		require.Equal(t, int64(7), reply.Usage.OutputTokens, "it was billed all the same")
	}
}

func TestBlockedOutputEndsTheCall(t *testing.T) {
	for size := 1; size <= len(said); size++ {
		emitted, reply, err := wrapped(t, `{"pii_type":"email","strategy":"block","apply_to_output":true}`, size, nil)
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
		require.NotContains(t, err.Error(), "ann")
		require.NotContains(t, emitted, "ann")
		require.Empty(t, reply.Blocks)
	}
}

// Held is how many bytes a stream holds back, without the context behind them.
func (s *Stream) Held() int { return len(s.text) - s.from }

// Found is the number of values so far.
func (s *Stream) Found() int { return s.found }

// Type is the name of what the rule looks for.
func (r *Rule) Type() string { return r.kind }

// NewPattern is for tests against regexp.
func NewPattern(expression string) (*Rule, int, error) {
	p, err := newPattern(expression, 0)
	if err != nil {
		return nil, 0, err
	}
	return &Rule{kind: "x", strategy: StrategyRedact, finder: p}, p.limit, nil
}

// OutputRule is the rule for what the model says, and so for the stream of it; nil when the output is left alone.
func (m *Middleware) OutputRule() *Rule {
	if !m.output {
		return nil
	}
	return m.rule
}
