package turns_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestRecordIsGone: if the record of a turn no longer exists, because an older backup was restored, all its operations fail permanently
// and with a clear message, in a new process and in one that has the turn in its cache.
func TestRecordIsGone(t *testing.T) {
	const id = agent.TurnID("t1")
	for name, c := range map[string]struct {
		call      func(ctx context.Context, a *turns.Turns) error
		neverSeen bool // whether a process that has cached the turn succeeds without the record
	}{
		"LoadPlan": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.LoadPlan(ctx, turns.TurnInput{TurnID: id})
			return err
		}, true},
		"RouteTurn": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.RouteTurn(ctx, turns.TurnInput{TurnID: id})
			return err
		}, true},
		"CallModel": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.CallModel(ctx, turns.CallModelInput{TurnID: id, Step: 1})
			return err
		}, false},
		"CallTool": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.CallTool(ctx, turns.CallToolInput{TurnID: id, Step: 1, CallID: "a"})
			return err
		}, false},
		"Retrieve": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.Retrieve(ctx, turns.RetrieveInput{TurnID: id})
			return err
		}, false},
		"RequestApproval": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.RequestApproval(ctx, turns.RequestApprovalInput{TurnID: id, Step: 1, Calls: []turns.ApprovalCall{{ID: "a"}}})
			return err
		}, true},
		"LookForDecisions": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.LookForDecisions(ctx, turns.LookForDecisionsInput{TurnID: id, Step: 1})
			return err
		}, true},
		"ExpireApprovals": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.ExpireApprovals(ctx, turns.ExpireApprovalsInput{TurnID: id, Step: 1})
			return err
		}, true},
		"BeginChild": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.BeginChild(ctx, turns.BeginChildInput{TurnID: id, Step: 1, CallID: "a"})
			return err
		}, true},
		"StoreTurn": {func(ctx context.Context, a *turns.Turns) error {
			_, err := a.StoreTurn(ctx, turns.StoreTurnInput{TurnID: id, Status: agent.TurnFailed, Stop: agent.StopInternal})
			return err
		}, true},
	} {
		for _, seen := range []bool{false, true} {
			if seen && c.neverSeen {
				continue
			}
			t.Run(name+map[bool]string{true: ", seen before"}[seen], func(t *testing.T) {
				h := newHarness(t)
				h.catalog.change(makeAskPlan)
				if seen {
					h.begin(agent.TurnRequest{TurnID: id})
					_, err := h.pool.Exec(t.Context(), "TRUNCATE turns CASCADE")
					require.NoError(t, err)
				}
				h.model.script(says("conversational"), says("words"))
				err := c.call(t.Context(), h.Turns)
				require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
				require.Contains(t, err.Error(), "it was deleted, or the database was restored from an older backup")
			})
		}
	}
}

// TestRecordIsGoneWhenItBegins: a workflow that was started by the id of a turn, or waits for its session, is refused permanently.
func TestRecordIsGoneWhenItBegins(t *testing.T) {
	for name, in := range map[string]turns.BeginTurnInput{
		"started by its id":     {WorkflowID: "turn/t1", RunID: "r"},
		"waits for its session": {WorkflowID: "turn/t1", RunID: "r", Again: true, TurnID: "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			out, err := h.BeginTurn(t.Context(), json.RawMessage(`{"turn_id":"t1","session_id":"s1"}`), in)
			require.NoError(t, err)
			require.Equal(t, turns.VerdictRefused, out.Verdict)
			require.Equal(t, string(agent.CodeNotFound), out.Refusal.Type)
			require.Contains(t, out.Refusal.Message, "there is no record of turn")
			_, err = h.store.Turn(t.Context(), "t1")
			require.Error(t, err, "the turn does not begin again")
			require.NotErrorIs(t, err, agent.ErrOutcomeUnknown)
		})
	}
}
