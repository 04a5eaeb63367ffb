package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// startVisit starts a visit of a node.
func (r *definedRun) startVisit(ctx workflow.Context, s scopes, v core.Visit) {
	n := &r.skeleton.Nodes[v.Node]
	if n.Type == agent.WorkflowTimer {
		until := workflow.Now(ctx).Add(time.Duration(n.WaitMS) * time.Millisecond)
		r.startTimer(ctx, s, timer{Node: v.Node, Visit: v.Visit, From: v.From, Until: until})
		return
	}
	r.working++
	workflow.GoNamed(ctx, n.ID, func(ctx workflow.Context) {
		in := r.nodeInput(v.Node, v.Visit, v.From)
		var out definitions.NodeResult
		var err error
		switch n.Type {
		case agent.WorkflowAgent:
			out, err = r.runAgentNode(ctx, s.work, n, in)
		case agent.WorkflowCondition:
			err = runQuick(ctx, summary(n), definitionActivities.RunNode, &out, in)
		default:
			err = workflow.ExecuteActivity(taskOptions(s.work, summary(n)), definitionActivities.RunNode, in).Get(ctx, &out)
		}
		out = r.endVisit(ctx, in, out, err)
		r.working--
		r.applyResult(v.Node, out)
	})
}

// startTimer starts a visit of a timer node, or resumes it.
func (r *definedRun) startTimer(ctx workflow.Context, s scopes, t timer) {
	r.timers = append(r.timers, t)
	workflow.GoNamed(ctx, "timer", func(ctx workflow.Context) {
		var out definitions.NodeResult
		left := t.Until.Sub(workflow.Now(ctx))
		var err error
		if left > 0 {
			err = workflow.NewTimerWithOptions(s.timers, left, workflow.TimerOptions{Summary: r.skeleton.Nodes[t.Node].ID}).Get(ctx, nil)
		} else {
			err = s.timers.Err()
		}
		r.working++ // it can no longer be carried into the next run
		r.removeTimer(t.Node)
		in := r.nodeInput(t.Node, t.Visit, t.From)
		if err == nil {
			err = runQuick(ctx, summary(&r.skeleton.Nodes[t.Node]), definitionActivities.RunNode, &out, in)
		}
		out = r.endVisit(ctx, in, out, err)
		r.working--
		r.applyResult(t.Node, out)
	})
}

func (r *definedRun) removeTimer(node int) {
	var left []timer
	for _, t := range r.timers {
		if t.Node != node {
			left = append(left, t)
		}
	}
	r.timers = left
}

func (r *definedRun) nodeInput(node, visit int, from []core.Source) definitions.NodeInput {
	return definitions.NodeInput{RunID: r.ref.RunID, Node: r.skeleton.Nodes[node].ID, Visit: visit, From: from}
}

// endVisit stores the end of a visit whose activity returned an error.
func (r *definedRun) endVisit(ctx workflow.Context, in definitions.NodeInput, out definitions.NodeResult, err error) definitions.NodeResult {
	if err == nil {
		return out
	}
	end := definitions.EndNodeInput{NodeInput: in, Cancelled: temporal.IsCanceledError(err)}
	if !end.Cancelled {
		end.Failure = internalFailure(err)
	}
	var stored definitions.NodeResult
	if err := runQuick(ctx, "end "+in.Node, definitionActivities.EndNode, &stored, end); err != nil {
		return definitions.NodeResult{Failure: internalFailure(err)}
	}
	return stored
}

// applyResult gives the end of a visit to the core.
func (r *definedRun) applyResult(node int, out definitions.NodeResult) {
	result := core.Result{Status: core.Completed, Outcome: out.Outcome}
	switch {
	case out.Cancelled:
		result = core.Result{Status: core.Cancelled}
	case out.Failure != nil:
		result = core.Result{Status: core.Failed}
		if r.failure == nil {
			r.failure = out.Failure
		}
	}
	r.core.After(node, result)
	r.changed = true
}

// runAgentNode runs an agent node as a child turn. The turn is queued before, so that its message is not in history.
func (r *definedRun) runAgentNode(ctx, work workflow.Context, n *core.Node, in definitions.NodeInput) (definitions.NodeResult, error) {
	if err := work.Err(); err != nil {
		return definitions.NodeResult{}, err
	}
	var begun definitions.BeginAgentNodeResult
	if err := runQuick(ctx, "begin "+n.ID, definitionActivities.BeginAgentNode, &begun, in); err != nil {
		return definitions.NodeResult{}, err
	}
	if begun.Done != nil {
		return *begun.Done, nil
	}
	request := agent.TurnRequest{TurnID: begun.Turn, Context: agent.InvocationContext{Tenant: begun.Tenant}}
	child := workflow.ExecuteChildWorkflow(childOptions(ctx, begun.Turn, summary(n)), AgentTurnType, request)
	over := false
	workflow.GoNamed(ctx, "cascade", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return over || work.Err() != nil })
		if over || child.GetChildWorkflowExecution().Get(ctx, nil) != nil {
			return
		}
		// The signal is not needed if the child has just ended.
		_ = child.SignalChildWorkflow(ctx, UpdateCancel, agent.CancelRequest{Reason: "the workflow that asked has stopped"}).Get(ctx, nil)
	})
	err := child.Get(ctx, nil)
	over = true
	if err != nil {
		workflow.GetLogger(ctx).Warn("turn of a node", "turn", begun.Turn, "error", err) // what the store has of it is the result
	}
	var out definitions.NodeResult
	err = runQuick(ctx, "store "+n.ID, definitionActivities.StoreAgentNode, &out, in)
	return out, err
}

// taskOptions returns the options of a task. The run waits for a cancelled task, which returns what it has done.
func taskOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: toolTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(), Summary: summary,
		WaitForCancellation: true,
	})
}

// DefinedWorkflowID returns the usual workflow id of a run; others work too.
func DefinedWorkflowID(key agent.WorkflowKey, runID string) string {
	return "workflow/" + key.Tenant + "/" + key.Owner + "/" + key.Tag + "/" + runID
}

// DefinedPolicy is the reuse policy of a run's workflow id: an id runs once.
const DefinedPolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
