package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// saveTimeout bounds the storing of a visit.
const saveTimeout = 10 * time.Second

// visit is one visit of a node under way.
type visit struct {
	runner  *Runner
	facts   *facts
	node    *agent.WorkflowNode
	config  nodeConfig
	in      NodeInput
	started time.Time
}

// faultError is what is wrong with the node itself: its visit fails by it, and the run. Any other error is trouble of the runtime's.
type faultError struct{ failure *agent.Failure }

func (e faultError) Error() string { return e.failure.Message }

// fault makes an error the node's.
func fault(err error) error {
	if err == nil {
		return nil
	}
	return faultError{failure: agent.FailureOf(err)}
}

// RunNode makes one visit of a task, a condition or a timer, and stores what it gives out. Idempotent; an effect is not had twice. That
// a node fails is in the result; an error is trouble of the runtime's.
func (r *Runner) RunNode(ctx context.Context, in NodeInput) (NodeResult, error) {
	return r.visit(ctx, in, func(v *visit) (agent.RunStep, error) {
		switch v.node.Type {
		case agent.WorkflowTask:
			return v.task(ctx)
		case agent.WorkflowCondition:
			return v.condition(ctx)
		case agent.WorkflowTimer:
			in, err := v.inflow(ctx)
			return agent.RunStep{Output: in.output, Ref: in.ref}, err
		default:
			return agent.RunStep{}, agent.Errorf(agent.CodeInternal, "run node", "%q is no task, condition or timer", v.node.Type)
		}
	})
}

// visit does the work of a visit unless it is done already, and stores it.
func (r *Runner) visit(ctx context.Context, in NodeInput, work func(v *visit) (agent.RunStep, error)) (NodeResult, error) {
	step, ok, err := r.Store.Step(ctx, in.RunID, in.Node, in.Visit)
	if err != nil {
		return NodeResult{}, err
	}
	if ok {
		return resultOf(&step), nil
	}
	v, err := r.newVisit(ctx, in)
	if err != nil {
		return NodeResult{}, err
	}
	step, err = work(v)
	if err = v.judge(ctx, &step, err); err != nil {
		return NodeResult{}, err
	}
	if step.Status == agent.RunRunning { // begun, and ended by somebody else
		return NodeResult{}, nil
	}
	out, err := v.save(ctx, step)
	return out, err
}

func (r *Runner) newVisit(ctx context.Context, in NodeInput) (*visit, error) {
	f, err := r.factsOf(ctx, in.RunID)
	if err != nil {
		return nil, err
	}
	n, err := f.node(in.Node)
	if err != nil {
		return nil, err
	}
	c, err := configOf(n)
	if err != nil {
		return nil, err
	}
	return &visit{runner: r, facts: f, node: n, config: c, in: in, started: time.Now()}, nil
}

// judge tells how a visit ended: what is wrong with the node is its step, anything else is Temporal's to retry.
func (v *visit) judge(ctx context.Context, step *agent.RunStep, err error) error {
	failed, isFault := errors.AsType[faultError](err)
	switch {
	case err == nil && step.Status == "":
		step.Status = agent.RunCompleted
		return nil
	case err == nil:
		return nil
	case isFault:
		step.Status, step.Error = agent.RunFailed, clipped(failed.failure)
		return nil
	case ctx.Err() != nil && wasCancelled(ctx):
		return ErrCancelled
	default:
		return err
	}
}

// save stores a visit that has ended; the first stands.
func (v *visit) save(ctx context.Context, step agent.RunStep) (NodeResult, error) {
	if len(step.Output) > maxGivenBytes {
		step.Status, step.Outcome, step.Ref = agent.RunFailed, "", ""
		step.Error = &agent.Failure{
			Type: string(agent.CodeOverflow), Message: fmt.Sprintf("gives out %d bytes, at most %d", len(step.Output), maxGivenBytes),
		}
		step.Output = nil
	}
	now := time.Now()
	step.NodeID, step.Visit, step.Type = v.node.ID, v.in.Visit, v.node.Type
	step.StartedAt, step.FinishedAt = v.started, &now
	if step.Error != nil {
		step.Error.Step = v.node.ID
	}
	// What was done is stored also when somebody cancels meanwhile.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer stop()
	stored, err := v.runner.Store.SaveStep(ctx, v.facts.run.Tenant, v.in.RunID, step)
	if err != nil {
		return NodeResult{}, fmt.Errorf("store node %s: %w", v.node.ID, err)
	}
	return resultOf(&stored), nil
}

func resultOf(s *agent.RunStep) NodeResult {
	return NodeResult{Outcome: s.Outcome, Failure: s.Error, Cancelled: s.Status == agent.RunCancelled}
}

// EndNode ends a visit that cannot say so itself. Idempotent: what a visit has stored stands.
func (r *Runner) EndNode(ctx context.Context, in EndNodeInput) (NodeResult, error) {
	return r.visit(ctx, in.NodeInput, func(v *visit) (agent.RunStep, error) {
		s := agent.RunStep{Status: agent.RunFailed, Error: clipped(in.Failure)}
		if in.Cancelled {
			s.Status, s.Error = agent.RunCancelled, nil
		}
		if v.node.Type != agent.WorkflowTask {
			return s, nil
		}
		before, err := r.Store.Attempt(ctx, in.RunID, in.Node, in.Visit)
		if before {
			s.Error = unknown("it was cut off while it was at work")
		}
		return s, err
	})
}

// task does what the action says.
func (v *visit) task(ctx context.Context) (agent.RunStep, error) {
	in, err := v.inflow(ctx)
	if err != nil {
		return agent.RunStep{}, err
	}
	var out any
	var step agent.RunStep
	switch v.config.Action {
	case actionEmail:
		out, err = v.email(ctx, in)
	case actionWebhook:
		out, err = v.webhook(ctx, in)
	case actionPipeline:
		var rows rowsOutput
		rows, err = v.pipeline(ctx, in)
		out, step.Ref = rows, rows.Ref
	default:
		err = fault(agent.Invalid("config.action", "is %.40q, want email, webhook or pipeline", v.config.Action))
	}
	if err != nil {
		return agent.RunStep{}, err
	}
	step.Output, err = json.Marshal(out)
	return step, err
}
