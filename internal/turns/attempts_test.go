package turns_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// overtakenLog is a log in which another attempt runs once, after a producer has found no stored result and before it begins its epoch.
type overtakenLog struct {
	turns.EventLog

	producer string
	other    func()
}

func (l *overtakenLog) Begin(ctx context.Context, id, producer string) (agent.Fence, agent.Appended, error) {
	if other := l.other; producer == l.producer && other != nil {
		l.other = nil
		other()
	}
	return l.EventLog.Begin(ctx, id, producer)
}

// Two attempts at the same work may overlap, because a process was frozen or a workflow task timed out. The later one must not void the
// events of the result that the earlier one has stored, because the turn may end before they are written again.
func TestLateAttemptVoidsNothing(t *testing.T) {
	log := &overtakenLog{}
	watch := func(c *turns.Config) { log.EventLog, c.Log = c.Log, log }
	repeats := func(h *harness, producer string, attempt func() (any, error)) {
		h.t.Helper()
		var first any
		log.producer, log.other = producer, func() {
			var err error
			first, err = attempt()
			require.NoError(h.t, err)
		}
		late, err := attempt()
		require.NoError(h.t, err)
		require.Equal(h.t, first, late, "it returns the verdict of the other attempt")
		require.NotContains(h.t, types(h.events("t1")), agent.EventReset)
	}
	t.Run("model", func(t *testing.T) {
		h := newHarness(t, watch)
		h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
		h.model.script(says("all ", "is done"))
		repeats(h, "model/1", func() (any, error) {
			return h.CallModel(t.Context(), turns.CallModelInput{TurnID: "t1", Step: 1})
		})
		require.Equal(t, "all is done", streamtest.Shown(h.events("t1")))
		require.Len(t, h.model.seen, 1)
	})
	t.Run("tool", func(t *testing.T) {
		h, in := beginWithCall(t, false, watch)
		h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(`"booked"`)}, nil)
		repeats(h, "tool/1/a", func() (any, error) { return h.CallTool(t.Context(), in) })
		require.Equal(t, 1, h.tool.count)
	})
	t.Run("preparation", func(t *testing.T) {
		h := asking(t, watch)
		h.model.script(says("RETRIEVAL"), says("what do the rules say?"))
		repeats(h, "prepare", func() (any, error) {
			v, err := h.Retrieve(t.Context(), turns.RetrieveInput{TurnID: "t1"})
			v.Requests = 0 // the events of this attempt
			return v, err
		})
		require.Len(t, h.model.seen, 2)
	})
}

// refusingLog is a log that refuses usage events.
type refusingLog struct{ turns.EventLog }

func (l refusingLog) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	for i := range events {
		if events[i].Type == agent.EventUsage {
			return agent.Appended{}, agent.Errorf(agent.CodeInternal, "append", "refused")
		}
	}
	return l.EventLog.Append(ctx, f, batch, events)
}

// A reply is stored only if the log has all its events.
func TestReplyWithoutItsEventsIsNotStored(t *testing.T) {
	h := newHarness(t, func(c *turns.Config) { c.Log = refusingLog{c.Log} })
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(says("hello"))
	_, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: "t1", Step: 1})
	require.ErrorContains(t, err, "refused")
	_, stored, err := h.store.ModelStep(t.Context(), agent.StepKey{TurnID: "t1", Step: 1})
	require.NoError(t, err)
	require.False(t, stored)
}
