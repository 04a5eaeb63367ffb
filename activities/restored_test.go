package activities_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// TestRecordIsGone: what a turn asks for whose record is gone, because an older backup was restored, fails once and for all, in plain words: in a
// process that never saw the turn, and in one that knew it before.
func TestRecordIsGone(t *testing.T) {
	const id = agent.TurnID("t1")
	for name, c := range map[string]struct {
		call      func(ctx context.Context, a *activities.Activities) error
		neverSeen bool // a process that saw the turn before does without the record, or asks for nothing that is gone
	}{
		"LoadPlan": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.LoadPlan(ctx, activities.TurnInput{TurnID: id})
			return err
		}, true},
		"RouteTurn": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.RouteTurn(ctx, activities.TurnInput{TurnID: id})
			return err
		}, true},
		"CallModel": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.CallModel(ctx, activities.CallModelInput{TurnID: id, Step: 1})
			return err
		}, false},
		"CallTool": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.CallTool(ctx, activities.CallToolInput{TurnID: id, Step: 1, CallID: "a"})
			return err
		}, false},
		"Retrieve": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.Retrieve(ctx, activities.RetrieveInput{TurnID: id})
			return err
		}, false},
		"RequestApproval": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.RequestApproval(ctx, activities.RequestApprovalInput{TurnID: id, Step: 1, Calls: []activities.ApprovalCall{{ID: "a"}}})
			return err
		}, true},
		"LookForDecisions": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.LookForDecisions(ctx, activities.LookForDecisionsInput{TurnID: id, Step: 1})
			return err
		}, true},
		"ExpireApprovals": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.ExpireApprovals(ctx, activities.ExpireApprovalsInput{TurnID: id, Step: 1})
			return err
		}, true},
		"BeginChild": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.BeginChild(ctx, activities.BeginChildInput{TurnID: id, Step: 1, CallID: "a"})
			return err
		}, true},
		"StoreTurn": {func(ctx context.Context, a *activities.Activities) error {
			_, err := a.StoreTurn(ctx, activities.StoreTurnInput{TurnID: id, Status: agent.TurnFailed, Stop: agent.StopInternal})
			return err
		}, true},
	} {
		for _, seen := range []bool{false, true} {
			if seen && c.neverSeen {
				continue
			}
			t.Run(name+map[bool]string{true: ", seen before"}[seen], func(t *testing.T) {
				h := newHarness(t)
				h.catalog.put(guide(h.catalog.plan))
				if seen {
					h.begin(agent.TurnRequest{TurnID: id})
					_, err := h.pool.Exec(t.Context(), "TRUNCATE turns CASCADE")
					require.NoError(t, err)
				}
				h.model.script(says("conversational"), says("words"))
				err := c.call(t.Context(), h.Activities)
				var application *temporal.ApplicationError
				require.ErrorAs(t, err, &application)
				require.True(t, application.NonRetryable(), "%v", err)
				require.Equal(t, string(agent.CodeNotFound), application.Type())
				require.Contains(t, err.Error(), "it was deleted, or the database was restored from an older backup")
			})
		}
	}
}

// TestRecordIsGoneWhenItBegins: a workflow that is started by the id of a turn, or waits for its session, is refused for good.
func TestRecordIsGoneWhenItBegins(t *testing.T) {
	for name, in := range map[string]activities.BeginTurnInput{
		"started by its id":     {WorkflowID: "turn/t1", RunID: "r"},
		"waits for its session": {WorkflowID: "turn/t1", RunID: "r", Again: true, TurnID: "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			payload, err := converter.GetDefaultDataConverter().ToPayload(json.RawMessage(`{"turn_id":"t1","session_id":"s1"}`))
			require.NoError(t, err)
			out, err := h.BeginTurn(t.Context(), converter.NewRawValue(payload), in)
			require.NoError(t, err)
			require.Equal(t, activities.VerdictRefused, out.Verdict)
			require.Equal(t, string(agent.CodeNotFound), out.Refusal.Type)
			require.Contains(t, out.Refusal.Message, "there is no record of turn")
			_, err = h.store.Turn(t.Context(), "t1")
			require.Error(t, err, "it is not begun anew")
			require.NotErrorIs(t, err, agent.ErrOutcomeUnknown)
		})
	}
}
