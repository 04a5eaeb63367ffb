package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// RequestApproval records that calls of a step wait for a person and says so in the log. Idempotent.
func (a *Activities) RequestApproval(ctx context.Context, in RequestApprovalInput) (RequestApprovalResult, error) {
	out, err := a.requestApproval(ctx, in)
	return out, temporalError(err)
}

func (a *Activities) requestApproval(ctx context.Context, in RequestApprovalInput) (RequestApprovalResult, error) {
	turn, err := a.turn(ctx, in.TurnID)
	if err != nil {
		return RequestApprovalResult{}, err
	}
	reply, ok, err := a.Store.ModelStep(ctx, agent.StepKey{TurnID: in.TurnID, Step: in.Step})
	if err != nil {
		return RequestApprovalResult{}, err
	}
	if !ok {
		return RequestApprovalResult{}, agent.Errorf(agent.CodeInternal, "request approval", "step %d has no model reply", in.Step)
	}
	var out RequestApprovalResult
	var events []agent.Event
	for _, c := range in.Calls {
		block, err := callOf(reply.Blocks, c.ID)
		if err != nil {
			return RequestApprovalResult{}, err
		}
		p := agent.Approval{
			ApprovalID: approvalID(in.TurnID, in.Step, c.ID), TurnID: in.TurnID, CallID: c.ID, Step: in.Step, ToolName: block.Name,
			Args: block.Args, Rule: c.Rule,
		}
		if err := a.Store.SaveApproval(ctx, turn.Tenant, p); err != nil {
			return RequestApprovalResult{}, err
		}
		out.Pending = append(out.Pending, agent.PendingApproval{ApprovalID: p.ApprovalID, CallID: c.ID, ToolName: block.Name})
		events = append(events, agent.Event{Type: agent.EventApprovalRequested, Approval: &p, ToolCallID: c.ID, ToolName: block.Name})
	}
	events = append(events, agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "awaiting_approval"})
	if err := a.emit(ctx, turn.TurnRef, fmt.Sprintf("approval/%d", in.Step), events...); err != nil || in.StreamTo == nil {
		return out, err
	}
	batch := agent.TokenBatch{TurnID: in.TurnID, Step: in.Step, Pending: out.Pending}
	if err := a.Runs.Tokens(ctx, *in.StreamTo, batch); err != nil {
		a.Logger.Warn("signalling a pause", zap.String("workflow", in.StreamTo.WorkflowID), zap.Error(err))
	}
	return out, nil
}

// approvalID is readable and the same each time it is computed.
func approvalID(t agent.TurnID, step int, call agent.CallID) string {
	return fmt.Sprintf("%s.%d.%s", t, step, call)
}

// Decide judges a decision, stores it, and answers with a verdict for the core or a refusal for the person. Rejected and answered
// calls get their result here, so that the model sees it.
func (a *Activities) Decide(ctx context.Context, in DecideInput) (DecideResult, error) {
	if err := checkDecision(&in.Decision); err != nil {
		return DecideResult{Refusal: agent.FailureOf(err)}, nil
	}
	turn, err := a.turn(ctx, in.TurnID)
	if err != nil {
		return DecideResult{}, temporalError(err)
	}
	p, err := a.Store.ResolveApproval(ctx, in.TurnID, in.Decision)
	if err != nil {
		if !retryable(agent.CodeOf(err)) {
			return DecideResult{Refusal: agent.FailureOf(err)}, nil
		}
		return DecideResult{}, temporalError(err)
	}
	run := in.Decision.Decision == agent.DecisionApprove || in.Decision.Decision == agent.DecisionEdit
	if !run {
		if err := a.answer(ctx, turn.TurnRef, &in.Decision, &p); err != nil {
			return DecideResult{}, temporalError(err)
		}
	}
	err = a.emit(ctx, turn.TurnRef, "decision/"+p.ApprovalID,
		agent.Event{Type: agent.EventApprovalResolved, Approval: &p, ToolCallID: p.CallID, ToolName: p.ToolName},
		agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning})
	if err != nil {
		return DecideResult{}, temporalError(err)
	}
	return DecideResult{Verdict: &agent.DecisionVerdict{
		ApprovalID: p.ApprovalID, CallID: p.CallID, Decision: in.Decision.Decision, Run: run, By: in.Decision.By,
	}}, nil
}

func checkDecision(d *agent.Decision) error {
	switch d.Decision {
	case agent.DecisionApprove, agent.DecisionReject, agent.DecisionRespond:
		if len(d.Args) > 0 {
			return agent.Invalid("args", "go with decision edit only")
		}
	case agent.DecisionEdit:
		var args map[string]json.RawMessage
		if err := json.Unmarshal(d.Args, &args); err != nil || args == nil {
			return agent.Invalid("args", "decision edit needs the new arguments as an object")
		}
	default:
		return agent.Invalid("decision", "want approve, edit, reject or respond, got %q", d.Decision)
	}
	if d.Remember {
		return agent.Invalid("remember", "does not exist yet; leave it out")
	}
	if d.Decision == agent.DecisionRespond && d.Message == "" {
		return agent.Invalid("message", "decision respond needs the answer")
	}
	if d.ApprovalID == "" {
		return agent.Invalid("approval_id", "is empty")
	}
	return nil
}

// answer stores a person's words as the result of a call that will not run.
func (a *Activities) answer(ctx context.Context, t TurnRef, d *agent.Decision, p *agent.Approval) error {
	block := agent.Block{Type: agent.BlockToolResult, ToolCallID: p.CallID, Name: p.ToolName, Status: agent.ResultSuccess}
	content := any(d.Message)
	if d.Decision == agent.DecisionReject {
		reason := d.Message
		if reason == "" {
			reason = "a person rejected this call"
		}
		block.Status = agent.ResultError
		content = map[string]agent.Failure{"error": {Type: string(agent.CodeDenied), Message: reason, Tool: p.ToolName}}
	}
	output, err := json.Marshal(content)
	if err != nil {
		return err
	}
	block.Output = output
	key := agent.StepKey{TurnID: t.TurnID, Step: p.Step, CallID: p.CallID}
	return a.Store.SaveToolStep(ctx, agent.ToolStep{
		Key: key, Fence: agent.Fence{StreamID: string(t.TurnID), Producer: "decision/" + p.ApprovalID, Epoch: 1}, Tenant: t.Tenant,
		Name: p.ToolName, Args: p.Args, Result: block,
		Verdict: agent.ToolVerdict{ID: p.CallID, Failed: block.Status == agent.ResultError},
	})
}

// CancelTurn marks the turn's stream, which ends its model call within a second (DESIGN §4).
func (a *Activities) CancelTurn(ctx context.Context, in CancelTurnInput) error {
	return temporalError(a.Log.Cancel(ctx, string(in.TurnID)))
}
