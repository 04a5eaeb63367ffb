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

// begins starts a visit of a node.
func (r *definedRun) begins(ctx workflow.Context, s scopes, v core.Visit) {
	n := &r.skeleton.Nodes[v.Node]
	if n.Type == agent.WorkflowTimer {
		until := workflow.Now(ctx).Add(time.Duration(n.WaitMS) * time.Millisecond)
		r.wait(ctx, s, timer{Node: v.Node, Visit: v.Visit, From: v.From, Until: until})
		return
	}
	r.working++
	workflow.GoNamed(ctx, n.ID, func(ctx workflow.Context) {
		in := r.input(v.Node, v.Visit, v.From)
		var out definitions.NodeResult
		var err error
		switch n.Type {
		case agent.WorkflowAgent:
			out, err = r.ask(ctx, s.work, n, in)
		case agent.WorkflowCondition:
			err = quick(ctx, summary(n), definitionActivities.RunNode, &out, in)
		default:
			err = workflow.ExecuteActivity(taskOptions(s.work, summary(n)), definitionActivities.RunNode, in).Get(ctx, &out)
		}
		out = r.settle(ctx, in, out, err)
		r.working--
		r.after(v.Node, out)
	})
}

// wait begins a visit of a timer, or goes on with it.
func (r *definedRun) wait(ctx workflow.Context, s scopes, t timer) {
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
		r.working++ // from here on it cannot be carried along
		r.drop(t.Node)
		in := r.input(t.Node, t.Visit, t.From)
		if err == nil {
			err = quick(ctx, summary(&r.skeleton.Nodes[t.Node]), definitionActivities.RunNode, &out, in)
		}
		out = r.settle(ctx, in, out, err)
		r.working--
		r.after(t.Node, out)
	})
}

func (r *definedRun) drop(node int) {
	var left []timer
	for _, t := range r.timers {
		if t.Node != node {
			left = append(left, t)
		}
	}
	r.timers = left
}

func (r *definedRun) input(node, visit int, from []core.Source) definitions.NodeInput {
	return definitions.NodeInput{RunID: r.ref.RunID, Node: r.skeleton.Nodes[node].ID, Visit: visit, From: from}
}

// settle stores the end of a visit that could not say so itself.
func (r *definedRun) settle(ctx workflow.Context, in definitions.NodeInput, out definitions.NodeResult, err error) definitions.NodeResult {
	if err == nil {
		return out
	}
	end := definitions.EndNodeInput{NodeInput: in, Cancelled: temporal.IsCanceledError(err)}
	if !end.Cancelled {
		end.Failure = internalFailure(err)
	}
	var stored definitions.NodeResult
	if err := quick(ctx, "end "+in.Node, definitionActivities.EndNode, &stored, end); err != nil {
		return definitions.NodeResult{Failure: internalFailure(err)}
	}
	return stored
}

// after hands the end of a visit to the core.
func (r *definedRun) after(node int, out definitions.NodeResult) {
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

// ask runs an agent node as the turn of its agent: a child workflow, queued beforehand so that history holds none of its words.
func (r *definedRun) ask(ctx, work workflow.Context, n *core.Node, in definitions.NodeInput) (definitions.NodeResult, error) {
	if err := work.Err(); err != nil {
		return definitions.NodeResult{}, err
	}
	var begun definitions.BeginAgentNodeResult
	if err := quick(ctx, "begin "+n.ID, definitionActivities.BeginAgentNode, &begun, in); err != nil {
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
		// A child that has just ended needs no word.
		_ = child.SignalChildWorkflow(ctx, UpdateCancel, agent.CancelRequest{Reason: "the workflow that asked has stopped"}).Get(ctx, nil)
	})
	err := child.Get(ctx, nil)
	over = true
	if err != nil {
		workflow.GetLogger(ctx).Warn("turn of a node", "turn", begun.Turn, "error", err) // what the store has of it is the result
	}
	var out definitions.NodeResult
	err = quick(ctx, "store "+n.ID, definitionActivities.StoreAgentNode, &out, in)
	return out, err
}

// taskOptions bound a task. It is waited for when it is cancelled: only it knows what it has done.
func taskOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: toolTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: patient(), Summary: summary,
		WaitForCancellation: true,
	})
}

// DefinedWorkflowID is the workflow id of a run by convention; any other will do.
func DefinedWorkflowID(key agent.WorkflowKey, runID string) string {
	return "workflow/" + key.Tenant + "/" + key.Owner + "/" + key.Tag + "/" + runID
}

// DefinedPolicy is how a run is started under its id: a run is made once.
const DefinedPolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
