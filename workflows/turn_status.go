package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
)

//nolint:gochecknoglobals // constants in all but syntax
var (
	attributeStatus     = temporal.NewSearchAttributeKeyKeyword(AttributeStatus)
	attributeStopReason = temporal.NewSearchAttributeKeyKeyword(AttributeStopReason)
)

// indexAction indexes that the turn waits for a person, for the caller's tools or for a provider that is away, and that it runs again.
func (t *agentTurn) indexAction(ctx workflow.Context, a turn.Action) {
	switch a.Kind {
	case turn.Await, turn.Pause:
		t.indexStatus(ctx, statusWaiting)
	case turn.Finish: // leave indexes the end
	default:
		if t.IndexedStatus != "" {
			t.indexStatus(ctx, statusRunning)
		}
	}
}

// indexEnd indexes how the turn ended. A turn that never waited and has completed is not indexed: its status would cost every turn an event.
func (t *agentTurn) indexEnd(ctx workflow.Context, out *agent.AgentStepOutput) {
	if out.Status != agent.TurnCompleted || t.IndexedStatus != "" {
		t.indexStatus(ctx, string(out.Status), attributeStopReason.ValueSet(string(out.StopReason)))
	}
}

// indexStatus sets TurnstoneStatus, and other attributes with it, if the namespace knows it and the turn does not have it yet.
func (t *agentTurn) indexStatus(ctx workflow.Context, status string, others ...temporal.SearchAttributeUpdate) {
	if !t.StatusAttributes || t.IndexedStatus == status {
		return
	}
	t.IndexedStatus = status
	index(ctx, append(others, attributeStatus.ValueSet(status))...)
}

// failedTurnError returns the error with which the workflow of a failed turn fails. Its details hold the turn's result.
func failedTurnError(out *agent.AgentStepOutput) error {
	f := out.Error
	if f == nil {
		f = &agent.Failure{Type: string(out.StopReason), Message: "the turn failed"}
	}
	return temporal.NewNonRetryableApplicationError(f.Message, f.Type, nil, *out)
}
