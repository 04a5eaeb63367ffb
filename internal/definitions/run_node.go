package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// saveTimeout bounds the time to store the outcome of a visit.
const saveTimeout = 10 * time.Second

// nodeVisit is a visit of a node while it runs.
type nodeVisit struct {
	runner  *Runner
	facts   *runFacts
	node    *agent.WorkflowNode
	config  nodeConfig
	in      NodeInput
	started time.Time
}

// nodeError is an error of the node itself. It fails the visit and the run. Any other error is an error of the runtime and is retried.
type nodeError struct{ failure *agent.Failure }

func (e nodeError) Error() string { return e.failure.Message }

// asNodeError returns err as an error of the node, nil for nil.
func asNodeError(err error) error {
	if err == nil {
		return nil
	}
	return nodeError{failure: agent.FailureOf(err)}
}

// RunNode makes one visit of a task, a condition or a timer, and stores its output. It is idempotent, and no effect happens twice. A failure of the
// node is in the result; an error means that the visit may be retried.
func (r *Runner) RunNode(ctx context.Context, in NodeInput) (NodeResult, error) {
	return r.visit(ctx, in, func(v *nodeVisit) (agent.RunStep, error) {
		switch v.node.Type {
		case agent.WorkflowTask:
			return v.runTask(ctx)
		case agent.WorkflowCondition:
			return v.runCondition(ctx)
		case agent.WorkflowTimer:
			in, err := v.loadInput(ctx)
			return agent.RunStep{Output: in.value, Ref: in.rowsRef}, err
		default:
			return agent.RunStep{}, agent.Errorf(agent.CodeInternal, "run node", "%q is no task, condition or timer", v.node.Type)
		}
	})
}

// visit calls work and stores the outcome, unless the visit already has an outcome.
func (r *Runner) visit(ctx context.Context, in NodeInput, work func(v *nodeVisit) (agent.RunStep, error)) (NodeResult, error) {
	step, ok, err := r.Store.Step(ctx, in.RunID, in.Node, in.Visit)
	if err != nil {
		return NodeResult{}, err
	}
	if ok {
		return nodeResult(&step), nil
	}
	v, err := r.newVisit(ctx, in)
	if err != nil {
		return NodeResult{}, err
	}
	step, err = work(v)
	if err = v.recordOutcome(ctx, &step, err); err != nil {
		return NodeResult{}, err
	}
	if step.Status == agent.RunRunning { // an agent node: StoreAgentNode stores its outcome
		return NodeResult{}, nil
	}
	return v.save(ctx, step)
}

func (r *Runner) newVisit(ctx context.Context, in NodeInput) (*nodeVisit, error) {
	f, err := r.findRun(ctx, in.RunID)
	if err != nil {
		return nil, err
	}
	n, err := f.node(in.Node)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(n)
	if err != nil {
		return nil, err
	}
	return &nodeVisit{runner: r, facts: f, node: n, config: c, in: in, started: time.Now()}, nil
}

// recordOutcome sets the status of a step from the error of its work. It returns errors other than those of the node, and [ErrCancelled].
func (v *nodeVisit) recordOutcome(ctx context.Context, step *agent.RunStep, err error) error {
	failed, isNodeError := errors.AsType[nodeError](err)
	switch {
	case err == nil && step.Status == "":
		step.Status = agent.RunCompleted
		return nil
	case err == nil:
		return nil
	case isNodeError:
		step.Status, step.Error = agent.RunFailed, truncateFailure(failed.failure)
		return nil
	case ctx.Err() != nil && isCancelled(ctx):
		return ErrCancelled
	default:
		return err
	}
}

// save stores the outcome of a visit and returns the stored one, because the first outcome is kept.
func (v *nodeVisit) save(ctx context.Context, step agent.RunStep) (NodeResult, error) {
	if len(step.Output) > maxOutputBytes {
		step.Status, step.Outcome, step.Ref = agent.RunFailed, "", ""
		step.Error = &agent.Failure{
			Type: string(agent.CodeOverflow), Message: fmt.Sprintf("gives out %d bytes, at most %d", len(step.Output), maxOutputBytes),
		}
		step.Output = nil
	}
	now := time.Now()
	step.NodeID, step.Visit, step.Type = v.node.ID, v.in.Visit, v.node.Type
	step.StartedAt, step.FinishedAt = v.started, &now
	if step.Error != nil {
		step.Error.Step = v.node.ID
	}
	// The outcome is stored even if the visit is cancelled in the meantime.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer stop()
	stored, err := v.runner.Store.SaveStep(ctx, v.facts.run.Tenant, v.in.RunID, step)
	if err != nil {
		return NodeResult{}, fmt.Errorf("store node %s: %w", v.node.ID, err)
	}
	return nodeResult(&stored), nil
}

func nodeResult(s *agent.RunStep) NodeResult {
	return NodeResult{Outcome: s.Outcome, Failure: s.Error, Cancelled: s.Status == agent.RunCancelled}
}

// EndNode stores the outcome of a visit whose activity has not stored one. It is idempotent: an existing outcome is kept.
func (r *Runner) EndNode(ctx context.Context, in EndNodeInput) (NodeResult, error) {
	return r.visit(ctx, in.NodeInput, func(v *nodeVisit) (agent.RunStep, error) {
		s := agent.RunStep{Status: agent.RunFailed, Error: truncateFailure(in.Failure)}
		if in.Cancelled {
			s.Status, s.Error = agent.RunCancelled, nil
		}
		if v.node.Type != agent.WorkflowTask {
			return s, nil
		}
		marked, err := r.Store.Attempt(ctx, in.RunID, in.Node, in.Visit)
		if marked {
			s.Error = unknownOutcome("it was cut off while it was at work")
		}
		return s, err
	})
}

// runTask runs the action of a task.
func (v *nodeVisit) runTask(ctx context.Context) (agent.RunStep, error) {
	in, err := v.loadInput(ctx)
	if err != nil {
		return agent.RunStep{}, err
	}
	var out any
	var step agent.RunStep
	switch v.config.Action {
	case ActionEmail:
		out, err = v.sendEmail(ctx, in)
	case ActionWebhook:
		out, err = v.sendWebhook(ctx, in)
	case ActionPipeline:
		var rows rowsOutput
		rows, err = v.runPipeline(ctx, in)
		out, step.Ref = rows, rows.Ref
	default:
		err = asNodeError(agent.Invalid("config.action", "is %.40q, want email, webhook or pipeline", v.config.Action))
	}
	if err != nil {
		return agent.RunStep{}, err
	}
	step.Output, err = json.Marshal(out)
	return step, err
}
