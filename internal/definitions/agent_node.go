package definitions

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// channelWorkflow is the channel of the turns of agent nodes.
const channelWorkflow = "workflow"

// BeginAgentNode records the turn of an agent node before its workflow starts, so that the message is in the store and not in history. If the
// turn is refused, the visit has failed and Done in the result has the failure. BeginAgentNode is idempotent.
func (r *Runner) BeginAgentNode(ctx context.Context, in NodeInput) (BeginAgentNodeResult, error) {
	var begun BeginAgentNodeResult
	done, err := r.visit(ctx, in, func(v *nodeVisit) (agent.RunStep, error) {
		req, err := v.turnRequest(ctx)
		if err != nil {
			return agent.RunStep{}, err
		}
		if err := v.runner.Turns.BeginTurn(ctx, req); err != nil {
			if agent.CodeOf(err).Retryable() && agent.CodeOf(err) != agent.CodeRateLimited {
				return agent.RunStep{}, err
			}
			return agent.RunStep{}, asNodeError(err)
		}
		begun.Turn, begun.Tenant = req.TurnID, v.facts.run.Tenant
		return agent.RunStep{Status: agent.RunRunning}, nil
	})
	if err != nil || begun.Turn != "" {
		return begun, err
	}
	return BeginAgentNodeResult{Done: &done}, nil
}

// turnRequest returns the request for the turn of an agent node.
func (v *nodeVisit) turnRequest(ctx context.Context) (agent.TurnRequest, error) {
	if v.runner.Turns == nil {
		return agent.TurnRequest{}, asNodeError(agent.Invalid("type", "this runtime runs no agent nodes"))
	}
	in, err := v.loadInput(ctx)
	if err != nil {
		return agent.TurnRequest{}, err
	}
	data, err := v.loadData(ctx, in, v.config.Message, v.config.Session)
	if err != nil {
		return agent.TurnRequest{}, err
	}
	run := &v.facts.run
	request := agent.TurnRequest{
		TurnID: agent.TurnID(v.idempotencyKey()), Agent: v.config.Agent, OutputSchema: v.config.OutputSchema, Channel: channelWorkflow,
		Context: agent.InvocationContext{Tenant: run.Tenant, UserID: run.UserID},
	}
	if request.Message, err = v.render(ctx, "message", v.config.Message, data); err != nil {
		return request, err
	}
	session, err := v.render(ctx, "session", v.config.Session, data)
	request.SessionID = agent.SessionID(session)
	if v.config.TimeoutSec > 0 {
		request.Limits = &agent.Limits{WallTimeSec: v.config.TimeoutSec}
	}
	return request, err
}

// turnOutput is the output of an agent node.
type turnOutput struct {
	Agent      string          `json:"agent"`
	Output     string          `json:"output"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Ref        string          `json:"ref,omitempty"`
	Preview    json.RawMessage `json:"preview,omitempty"`
	TurnID     agent.TurnID    `json:"turn_id"`
}

// StoreAgentNode stores the outcome of a turn as the outcome of its agent node. It is idempotent.
func (r *Runner) StoreAgentNode(ctx context.Context, in NodeInput) (NodeResult, error) {
	return r.visit(ctx, in, func(v *nodeVisit) (agent.RunStep, error) {
		id := agent.TurnID(v.idempotencyKey())
		step := agent.RunStep{TurnID: id}
		if v.runner.Turns == nil {
			return step, asNodeError(agent.Invalid("type", "this runtime runs no agent nodes"))
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
				step.Error = truncateFailure(out.Error)
			}
			return step, nil
		}
		output := turnOutput{Agent: out.Agent, Output: out.Output, Structured: out.Structured, TurnID: id}
		if len(out.ResultPreview) > 0 && string(out.ResultPreview) != "null" {
			output.Ref, output.Preview, step.Ref = out.ResultRef, out.ResultPreview, out.ResultRef
		}
		if string(output.Structured) == "null" {
			output.Structured = nil
		}
		step.Output, err = json.Marshal(output)
		return step, err
	})
}
