package definitions

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// channelWorkflow is the channel of turns that are nodes.
const channelWorkflow = "workflow"

// BeginAgentNode queues the turn that an agent node is, so that its words are in the store and not in history. A node that cannot become
// a turn has ended. Idempotent.
func (r *Runner) BeginAgentNode(ctx context.Context, in NodeInput) (BeginAgentNodeResult, error) {
	var begun BeginAgentNodeResult
	done, err := r.visit(ctx, in, func(v *visit) (agent.RunStep, error) {
		req, err := v.turn(ctx)
		if err != nil {
			return agent.RunStep{}, err
		}
		if err := v.runner.Turns.BeginTurn(ctx, req); err != nil {
			if agent.CodeOf(err).Retryable() && agent.CodeOf(err) != agent.CodeRateLimited {
				return agent.RunStep{}, err
			}
			return agent.RunStep{}, fault(err)
		}
		begun.Turn, begun.Tenant = req.TurnID, v.facts.run.Tenant
		return agent.RunStep{Status: agent.RunRunning}, nil
	})
	if err != nil || begun.Turn != "" {
		return begun, err
	}
	return BeginAgentNodeResult{Done: &done}, nil
}

// turn is the request of an agent node.
func (v *visit) turn(ctx context.Context) (agent.TurnRequest, error) {
	if v.runner.Turns == nil {
		return agent.TurnRequest{}, fault(agent.Invalid("type", "this runtime runs no agent nodes"))
	}
	in, err := v.inflow(ctx)
	if err != nil {
		return agent.TurnRequest{}, err
	}
	data, err := v.data(ctx, in, v.config.Message, v.config.Session)
	if err != nil {
		return agent.TurnRequest{}, err
	}
	run := &v.facts.run
	req := agent.TurnRequest{
		TurnID: agent.TurnID(v.key()), Agent: v.config.Agent, OutputSchema: v.config.OutputSchema, Channel: channelWorkflow,
		Context: agent.InvocationContext{Tenant: run.Tenant, UserID: run.UserID},
	}
	if req.Message, err = v.render(ctx, "message", v.config.Message, data); err != nil {
		return req, err
	}
	session, err := v.render(ctx, "session", v.config.Session, data)
	req.SessionID = agent.SessionID(session)
	if v.config.TimeoutSec > 0 {
		req.Limits = &agent.Limits{WallTimeSec: v.config.TimeoutSec}
	}
	return req, err
}

// turnOutput is what the nodes behind an agent node are given.
type turnOutput struct {
	Agent      string          `json:"agent"`
	Output     string          `json:"output"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Ref        string          `json:"ref,omitempty"`
	Preview    json.RawMessage `json:"preview,omitempty"`
	TurnID     agent.TurnID    `json:"turn_id"`
}

// StoreAgentNode makes what the turn of an agent node came to the node's. Idempotent.
func (r *Runner) StoreAgentNode(ctx context.Context, in NodeInput) (NodeResult, error) {
	return r.visit(ctx, in, func(v *visit) (agent.RunStep, error) {
		id := agent.TurnID(v.key())
		step := agent.RunStep{TurnID: id}
		if v.runner.Turns == nil {
			return step, fault(agent.Invalid("type", "this runtime runs no agent nodes"))
		}
		out, err := v.runner.Turns.Turn(ctx, id)
		if err != nil {
			return step, err
		}
		switch out.Status {
		case agent.TurnCompleted:
		case agent.TurnCancelled:
			step.Status = agent.RunCancelled
			return step, nil
		default:
			step.Status = agent.RunFailed
			step.Error = &agent.Failure{Type: string(out.StopReason), Message: "the turn of agent " + out.Agent + " failed"}
			if out.Error != nil {
				step.Error = clipped(out.Error)
			}
			return step, nil
		}
		given := turnOutput{Agent: out.Agent, Output: out.Output, Structured: out.Structured, TurnID: id}
		if len(out.ResultPreview) > 0 && string(out.ResultPreview) != "null" {
			given.Ref, given.Preview, step.Ref = out.ResultRef, out.ResultPreview, out.ResultRef
		}
		if string(given.Structured) == "null" {
			given.Structured = nil
		}
		step.Output, err = json.Marshal(given)
		return step, err
	})
}
