package turns

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Decide decides an approval of a turn, or of a child turn that it waits for.
func (b *Inbox) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	t, err := b.unfinishedTurn(ctx, id)
	switch {
	case t.Output != nil && t.Output.StopReason == agent.StopApprovalRequired: // the turn has ended; later attempts use the decision
		_, err = b.Turns.Store.ResolveApproval(ctx, id, d)
		return err
	case t.Output != nil:
		return b.decideAgain(ctx, id, d)
	case err != nil:
		return err
	}
	_, err = b.Turns.Runs.Decide(ctx, t.Record.WorkflowID, d)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeNotFound && e.Field == "" { // the workflow ended meanwhile
		return b.decideAgain(ctx, id, d)
	}
	return err
}

// decideAgain accepts a repeated decision after the turn has ended, in case its sender has lost the answer. Any other decision is refused.
func (b *Inbox) decideAgain(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	_, err := b.Turns.Store.ResolveApproval(ctx, id, d)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return errTurnOver(id)
	}
	return err
}

// Cancel marks the streams of the turn and of its child turns as cancelled, which stops their model calls within a second. It also signals the
// workflow, which may be waiting for a person or for its session.
func (b *Inbox) Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error {
	t, err := b.unfinishedTurn(ctx, id)
	if err != nil {
		return err
	}
	if err := b.Turns.MarkCancelled(ctx, id); err != nil {
		return err
	}
	err = b.Turns.Runs.Interrupt(ctx, t.Record.WorkflowID, c)
	if agent.CodeOf(err) == agent.CodeNotFound { // the turn is direct, or its workflow is gone
		return b.Turns.endSilentTurn(ctx, id)
	}
	return err
}

// Provide stores the result of a client-side tool that the turn, or a turn that it waits for, has called. Then it signals the workflow. The signal has
// only the id of the call, so that the result is not in the history. A workflow that misses the signal finds the result in the store later.
func (b *Inbox) Provide(ctx context.Context, id agent.TurnID, r agent.ProvidedResult) error {
	if err := r.Validate(); err != nil {
		return err
	}
	t, err := b.unfinishedTurn(ctx, id)
	if err != nil && t.Output == nil { // a turn that has ended accepts a repeated result
		return err
	}
	in, workflowID, err := b.findWaitingCall(ctx, &t.Record, ProvideInput{TurnID: id, Provided: r})
	if err != nil {
		return err
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
	if err := b.Turns.Runs.Provided(ctx, workflowID, out.Verdict.ApprovalID); err != nil {
		b.Turns.Logger.Warn("tell a turn of a result", logs.Turn(in.TurnID, t.Record.Tenant, t.Record.InstanceID), zap.Error(err))
	}
	return nil
}

// findWaitingCall finds the call that waits for a result: one of the turn itself, else one of a child turn. It returns in with the turn and the
// approval of that call, and the workflow of that turn. If no call waits, it returns in unchanged.
func (b *Inbox) findWaitingCall(ctx context.Context, r *agent.TurnRecord, in ProvideInput) (found ProvideInput, workflowID string, err error) {
	pending, err := b.Turns.Store.PendingBelow(ctx, in.TurnID)
	ownCalls := slices.DeleteFunc(slices.Clone(pending), func(a agent.Approval) bool { return a.TurnID != in.TurnID })
	p := cmp.Or(findClientCall(ownCalls, in.Provided.ToolCallID), findClientCall(pending, in.Provided.ToolCallID))
	if err != nil || p == nil {
		return in, r.WorkflowID, err
	}
	workflowID = r.WorkflowID
	if p.TurnID != in.TurnID {
		child, err := b.Turns.Store.Turn(ctx, p.TurnID)
		if err != nil {
			return in, "", err
		}
		workflowID = child.Record.WorkflowID
	}
	in.TurnID, in.Provided.ToolCallID = p.TurnID, agent.CallID(p.ApprovalID)
	return in, workflowID, nil
}

// unfinishedTurn returns a turn. If the turn has ended, it returns both the turn and an error.
func (b *Inbox) unfinishedTurn(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	t, err := b.Turns.Store.Turn(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound { // its workflow may have been started a moment ago
		if workflow, lookErr := b.Turns.Runs.Look(ctx, id.WorkflowID()); lookErr == nil && workflow.Running {
			return agent.TurnState{Record: agent.TurnRecord{TurnID: id, WorkflowID: id.WorkflowID()}, State: agent.StateQueued}, nil
		}
	}
	if err == nil && t.Output != nil {
		err = errTurnOver(id)
	}
	return t, err
}

func errTurnOver(id agent.TurnID) error {
	return agent.Errorf(agent.CodeConflict, "", "turn %s is over", id)
}
