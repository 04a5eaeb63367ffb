package inbox

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/workflows"
)

// stalledAfter is how long a turn may take to go on by itself: longer than Temporal takes to replace a dead worker.
const stalledAfter = 15 * time.Second

// WakeStalledTurns tells workflows what the store knows and they may never have heard: that a person decided, that somebody cancelled,
// that the session is free. It returns how many it told. A workflow that is at work, or is about to be, needs no word.
func (b *Inbox) WakeStalledTurns(ctx context.Context, quiet time.Duration) (woken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, upkeepPatience)
	defer cancel()
	stalled, err := b.Store.StalledTurns(ctx, quiet, upkeepTurns)
	if err != nil {
		return 0, err
	}
	var faults []error
	for _, t := range stalled {
		told, err := b.wake(ctx, t)
		if err != nil {
			faults = append(faults, err)
			if ctx.Err() != nil {
				break
			}
		}
		if told {
			woken++
		}
	}
	return woken, errors.Join(faults...)
}

// wake signals one stalled turn, unless its workflow is at work.
func (b *Inbox) wake(ctx context.Context, t postgres.StalledTurn) (bool, error) {
	waits, err := b.Runs.waits(ctx, t.WorkflowID, t.Reason != postgres.StallCancelled)
	if err != nil || !waits {
		return false, err
	}
	switch t.Reason {
	case postgres.StallSession:
		return true, b.Runs.Ready(ctx, t.WorkflowID)
	case postgres.StallCancelled:
		return true, b.Runs.Interrupt(ctx, t.WorkflowID, agent.CancelRequest{Reason: "the turn was cancelled"})
	case postgres.StallDecided:
	}
	approvals, err := b.Store.Approvals(ctx, t.TurnID)
	if err != nil || len(approvals) == 0 {
		return false, err
	}
	step := approvals[len(approvals)-1].Step
	for i := range approvals {
		p := &approvals[i]
		if p.Step != step || p.By == agent.ExpiredBy { // the workflow itself decided what expired
			continue
		}
		if p.Kind == agent.WaitClientTool {
			stored := agent.ProvidedResult{ToolCallID: agent.CallID(p.ApprovalID)}
			if err := b.Runs.signal(ctx, t.WorkflowID, workflows.UpdateProvide, stored); err != nil {
				return false, err
			}
			continue
		}
		d := agent.Decision{ApprovalID: p.ApprovalID, Decision: p.Decision, Args: p.DecidedArgs, Message: p.Message, Remember: p.Remembered, By: p.By}
		if err := b.Runs.signal(ctx, t.WorkflowID, workflows.UpdateDecide, d); err != nil {
			return false, err
		}
	}
	return true, nil
}

// waits reports whether a workflow runs and has nothing to do: no task, no activity and, if childless, no child.
func (r *Runs) waits(ctx context.Context, workflowID string, childless bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := r.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return false, nil // whoever waits for the turn finds out and ends it
	}
	if err != nil {
		return false, temporalError("describe turn", err)
	}
	idle := d.GetPendingWorkflowTask() == nil && len(d.GetPendingActivities()) == 0 && (!childless || len(d.GetPendingChildren()) == 0)
	return idle && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
