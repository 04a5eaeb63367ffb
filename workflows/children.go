package workflows

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// callChild runs a call as the turn of another agent: a child workflow, queued beforehand so that history holds none of its words. It
// answers how long the child was at work.
func (t *agentTurn) callChild(ctx workflow.Context, step int, c turn.Call, budget agent.Limits, v *agent.ToolVerdict) (int64, error) {
	var begun turns.BeginChildResult
	in := turns.BeginChildInput{TurnID: t.Turn.TurnID, Step: step, CallID: c.ID, Limits: budget}
	if err := runQuick(ctx, "begin child", acts.BeginChild, &begun, in); err != nil {
		return 0, err
	}
	if begun.Child == "" {
		c.Local, c.Refused = true, begun.Refused // answered with a refusal
		return 0, t.callTool(ctx, step, c, v)
	}
	request := agent.TurnRequest{TurnID: begun.Child, Context: agent.InvocationContext{Tenant: begun.Tenant}}
	child := workflow.ExecuteChildWorkflow(childOptions(ctx, begun.Child, c.Summary), AgentTurnType, request)
	over := false
	workflow.GoNamed(ctx, "cascade", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return over || t.cancelled })
		if over || child.GetChildWorkflowExecution().Get(ctx, nil) != nil {
			return
		}
		// The signal is not needed if the child has just ended.
		_ = child.SignalChildWorkflow(ctx, UpdateCancel, agent.CancelRequest{Reason: "the turn that asked was cancelled"}).Get(ctx, nil)
	})
	var out agent.AgentStepOutput
	err := child.Get(ctx, &out)
	over = true
	if err != nil {
		workflow.GetLogger(ctx).Warn("child turn", "turn", begun.Child, "error", err) // what the store has of it is the result
	}
	stored := turns.StoreChildInput{TurnID: t.Turn.TurnID, Step: step, CallID: c.ID, Child: begun.Child}
	return out.ExecutionTimeMS, runQuick(ctx, "store child", acts.StoreChild, v, stored)
}

func childOptions(ctx workflow.Context, id agent.TurnID, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id.WorkflowID(), StaticSummary: summary, WaitForCancellation: true,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	})
}
