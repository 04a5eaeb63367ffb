package inbox

import (
	"context"
	"errors"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Decide answers an approval of a turn, or of a turn that it waits for.
func (b *Inbox) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	t, err := b.running(ctx, id)
	if err != nil {
		return err
	}
	_, err = b.Runs.Decide(ctx, t.Record.WorkflowID, d)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeNotFound && e.Field == "" { // its workflow ended meanwhile
		return agent.Errorf(agent.CodeConflict, "", "turn %s is over", id)
	}
	return err
}

// Cancel marks the turn's stream, which stops the model within a second, and tells the workflow, which may be waiting for a person
// or for its session.
func (b *Inbox) Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error {
	t, err := b.running(ctx, id)
	if err != nil {
		return err
	}
	if err := b.Log.Cancel(ctx, string(id)); err != nil {
		return err
	}
	err = b.Runs.Interrupt(ctx, t.Record.WorkflowID, c)
	if agent.CodeOf(err) == agent.CodeNotFound { // it ended, it never will by itself, or this very moment a process drives it
		return b.settle(ctx, id)
	}
	return err
}

// Provide is for client-side tools, which no agent has yet.
func (b *Inbox) Provide(ctx context.Context, id agent.TurnID, r gateway.ProvidedResult) error {
	if _, err := b.running(ctx, id); err != nil {
		return err
	}
	return agent.Errorf(agent.CodeConflict, "", "nothing waits for a result of call %q", r.ToolCallID)
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
