package inbox

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Decide answers an approval of a turn, or of a turn that it waits for.
func (b *Inbox) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	t, err := b.running(ctx, id)
	if t.Output != nil && t.Output.StopReason == agent.StopApprovalRequired { // for later attempts: this turn has ended
		_, err = b.Store.ResolveApproval(ctx, id, d)
		return err
	}
	if err != nil {
		return err
	}
	_, err = b.Runs.Decide(ctx, t.Record.WorkflowID, d)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeNotFound && e.Field == "" { // its workflow ended meanwhile
		return agent.Errorf(agent.CodeConflict, "", "turn %s is over", id)
	}
	return err
}

// Cancel marks the streams of the turn and of its child turns, which stops their models within a second, and tells the workflow, which may be
// waiting for a person or for its session.
func (b *Inbox) Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error {
	t, err := b.running(ctx, id)
	if err != nil {
		return err
	}
	if err := b.Turns.MarkCancelled(ctx, id); err != nil {
		return err
	}
	err = b.Runs.Interrupt(ctx, t.Record.WorkflowID, c)
	if agent.CodeOf(err) == agent.CodeNotFound { // it ended, it never will by itself, or this very moment a process drives it
		return b.settle(ctx, id)
	}
	return err
}

// Provide stores the result of a client-side tool that a turn, or a turn that it waits for, has called, and tells the workflow, whose
// history gets the call's id alone. What is stored stands: a workflow that does not hear of it looks into the store by itself.
func (b *Inbox) Provide(ctx context.Context, id agent.TurnID, r gateway.ProvidedResult) error {
	if err := r.Validate(); err != nil {
		return err
	}
	t, err := b.running(ctx, id)
	if err != nil && t.Output == nil { // of a turn that is over the same result again is accepted
		return err
	}
	in := turns.ProvideInput{TurnID: id, Provided: r}
	workflowID := t.Record.WorkflowID
	pending, err := b.Store.PendingBelow(ctx, id)
	if err != nil {
		return err
	}
	if p := waitingCall(pending, id, r.ToolCallID); p != nil {
		in.TurnID, in.Provided.ToolCallID = p.TurnID, agent.CallID(p.ApprovalID)
		if p.TurnID != id {
			child, err := b.Store.Turn(ctx, p.TurnID)
			if err != nil {
				return err
			}
			workflowID = child.Record.WorkflowID
		}
	}
	out, err := b.Turns.Provide(ctx, in)
	if err != nil {
		return err
	}
	if f := out.Refusal; f != nil {
		return &agent.Error{Code: agent.Code(f.Type), Field: f.Field, Err: errors.New(strings.TrimPrefix(f.Message, f.Field+": "))}
	}
	if t.Output != nil {
		return nil
	}
	if err := b.Runs.Provided(ctx, workflowID, out.Verdict.ApprovalID); err != nil {
		b.Logger.Warn("tell a turn of a result", logs.Turn(in.TurnID, t.Record.Tenant, t.Record.InstanceID), zap.Error(err))
	}
	return nil
}

// waitingCall finds a call by its id, or by that of what waits, among what a turn and the turns below it wait for: the turn's own first.
func waitingCall(pending []agent.Approval, id agent.TurnID, call agent.CallID) (found *agent.Approval) {
	for i := range pending {
		p := &pending[i]
		if p.Kind != agent.WaitClientTool || (p.CallID != call && p.ApprovalID != string(call)) {
			continue
		}
		if p.TurnID == id {
			return p
		}
		if found == nil {
			found = p
		}
	}
	return found
}

// running returns a turn that has not ended.
func (b *Inbox) running(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	t, err := b.Store.Turn(ctx, id)
	if err != nil {
		if agent.CodeOf(err) != agent.CodeNotFound {
			return t, err
		}
		// Started a moment ago, perhaps: its workflow has the turn's id then.
		if closed, closedErr := b.Runs.Closed(ctx, id.WorkflowID()); closedErr != nil || closed {
			return t, err
		}
		t.Record.WorkflowID, t.State = id.WorkflowID(), agent.StateQueued
	}
	if t.Output != nil {
		return t, agent.Errorf(agent.CodeConflict, "", "turn %s is over", id)
	}
	return t, nil
}
