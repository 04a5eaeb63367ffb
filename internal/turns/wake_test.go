package turns_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// recordTurn begins a turn whose workflow runs.
func (o *inboxHarness) recordTurn(id agent.TurnID, session agent.SessionID) {
	o.t.Helper()
	_, err := o.acts.Begin(o.t.Context(), helloRequest(func(r *agent.TurnRequest) { r.TurnID, r.SessionID = id, session }),
		turns.BeginTurnInput{WorkflowID: id.WorkflowID()})
	require.NoError(o.t, err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started[id.WorkflowID()] = agent.TurnRequest{}
}

// recordDecision records an approval of a turn's first step and its decision.
func (o *inboxHarness) recordDecision(id agent.TurnID, d ...agent.Decision) {
	o.t.Helper()
	for i := range d {
		require.NoError(o.t, o.store.SaveApproval(o.t.Context(), "acme", agent.Approval{
			ApprovalID: d[i].ApprovalID, TurnID: id, CallID: agent.CallID(d[i].ApprovalID), Step: 1, ToolName: "pay", Args: json.RawMessage(`{}`),
		}))
		if d[i].Decision == "" {
			continue
		}
		_, err := o.store.ResolveApproval(o.t.Context(), id, d[i])
		require.NoError(o.t, err)
	}
}

// TestWakeStalledTurns: what the store knows and a workflow may have missed is signalled again, and nothing else is.
func TestWakeStalledTurns(t *testing.T) {
	edit := agent.Decision{ApprovalID: "x", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"amount":90}`), By: "ann"}
	reject := agent.Decision{ApprovalID: "y", Decision: agent.DecisionReject, Message: "too dear", By: "bob"}
	open := agent.Decision{ApprovalID: "z"}
	cases := map[string]struct {
		set   func(o *inboxHarness)
		quiet time.Duration
		want  map[string][]any // signals to the turn
	}{
		"decided": {
			set:  func(o *inboxHarness) { o.recordDecision("t1", edit, reject) },
			want: map[string][]any{"turn/t1 resolved": {"x", "y"}},
		},
		"decided a moment ago": {set: func(o *inboxHarness) { o.recordDecision("t1", edit) }, quiet: time.Hour},
		"decided in part":      {set: func(o *inboxHarness) { o.recordDecision("t1", edit, open) }},
		"decided, at work":     {set: func(o *inboxHarness) { o.recordDecision("t1", edit); o.busy["turn/t1"] = true }},
		"decided, closed":      {set: func(o *inboxHarness) { o.recordDecision("t1", edit); o.closed["turn/t1"] = true }},
		"decided, went on": {set: func(o *inboxHarness) {
			o.recordDecision("t1", edit)
			require.NoError(o.t, o.store.SaveModelStep(o.t.Context(), agent.ModelStep{
				Key: agent.StepKey{TurnID: "t1", Step: 2}, Fence: agent.Fence{StreamID: "t1", Producer: "model/2", Epoch: 1}, Tenant: "acme",
			}))
		}},
		"decided, over": {set: func(o *inboxHarness) {
			o.recordDecision("t1", edit)
			require.NoError(o.t, o.acts.Terminate(o.t.Context(), "t1"))
		}},
		"cancelled": {
			set:  func(o *inboxHarness) { require.NoError(o.t, o.log.Cancel(o.t.Context(), "t1")) },
			want: map[string][]any{"turn/t1 cancel": {agent.CancelRequest{Reason: "the turn was cancelled"}}},
		},
		"cancelled, at work": {set: func(o *inboxHarness) {
			require.NoError(o.t, o.log.Cancel(o.t.Context(), "t1"))
			o.busy["turn/t1"] = true
		}},
		"cancelled in the queue": {
			set: func(o *inboxHarness) {
				o.recordTurn("t2", "s1")
				require.NoError(o.t, o.log.Cancel(o.t.Context(), "t2"))
			},
			want: map[string][]any{"turn/t2 cancel": {agent.CancelRequest{Reason: "the turn was cancelled"}}},
		},
		"handed its session": {
			set: func(o *inboxHarness) {
				o.recordTurn("t2", "s1")
				require.NoError(o.t, o.acts.Terminate(o.t.Context(), "t1"))
				delete(o.signals, "turn/t2 ready") // lost
			},
			want: map[string][]any{"turn/t2 ready": {nil}},
		},
		"waits for its session": {set: func(o *inboxHarness) { o.recordTurn("t2", "s1") }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newInboxHarness(t)
			o.recordTurn("t1", "s1")
			c.set(o)
			woken, err := o.WakeStalledTurns(t.Context(), c.quiet)
			require.NoError(t, err)
			require.Equal(t, len(c.want), woken)
			if c.want == nil {
				c.want = map[string][]any{}
			}
			require.Equal(t, c.want, o.signals)
		})
	}
}
