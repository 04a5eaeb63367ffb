package turns

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// requestBinding is the name of the binding for the client-side tools in a request.
const requestBinding = "request"

// clientTool is a tool that runs at the caller. Call returns the result that the caller provided.
type clientTool struct {
	spec     agent.ToolSpec
	provided *agent.Approval // nil if no result was provided
}

// Spec implements [agent.Tool].
func (t clientTool) Spec() agent.ToolSpec { return t.spec }

// EffectFree implements [agent.EffectFree]: returning the provided result has no effect.
func (clientTool) EffectFree(json.RawMessage) bool { return true }

// Call implements [agent.Tool].
func (t clientTool) Call(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	switch {
	case t.provided == nil:
		return failureResult(&agent.Failure{Type: agent.ClientToolFailed, Tool: t.spec.Name, Message: "no result was provided"}), nil
	case len(t.provided.DecidedArgs) == 0:
		return failureResult(&agent.Failure{Type: agent.ClientToolFailed, Tool: t.spec.Name, Message: t.provided.Message}), nil
	}
	return agent.ToolResult{Output: t.provided.DecidedArgs}, nil
}

// providedTool returns a client-side tool that answers one call with its provided result.
func (ts *Turns) providedTool(ctx context.Context, granted *agent.PlanTool, in CallToolInput) (agent.Tool, error) {
	waits, err := ts.Store.Approvals(ctx, in.TurnID)
	t := clientTool{spec: granted.Spec}
	for i := range waits {
		if p := &waits[i]; p.Kind == agent.WaitClientTool && p.Step == in.Step && p.CallID == in.CallID && p.Decision == agent.DecisionProvide {
			t.provided = p
		}
	}
	return t, err
}

// checkClientTools returns an error if the plan has a tool with the name of a client-side tool, or if the schema of one is invalid.
func (ts *Turns) checkClientTools(plan *agent.Plan, tools []agent.ClientTool) error {
	for i := range tools {
		t, field := &tools[i], fmt.Sprintf("client_tools[%d]", i)
		if _, isTaken := plan.Tool(t.Name); isTaken {
			return agent.Invalid(field+".name", "agent %q has a tool %q of its own: choose another name", plan.Agent, t.Name)
		}
		if len(t.Parameters) == 0 {
			continue
		}
		if err := ts.Schemas.CheckSchema(field+".parameters", t.Parameters); err != nil {
			return err
		}
	}
	return nil
}

// newClientCall returns the approval that records a call of a client-side tool, with its arguments and the time at which it expires.
func (ts *Turns) newClientCall(ctx context.Context, e *executor, t *facts, step int, b *agent.Block) (agent.Approval, error) {
	plan, err := ts.toolset(ctx, e, t, step+1)
	if err != nil {
		return agent.Approval{}, err
	}
	granted, _ := plan.Tool(b.Name)
	call := agent.CallID(b.ID)
	args, err := ts.editedArgs(ctx, agent.StepKey{TurnID: t.TurnID, Step: step, CallID: call})
	if err != nil {
		return agent.Approval{}, err
	}
	if len(args) == 0 {
		args = b.Args
	}
	expires := time.Now().Add(time.Duration(max(granted.ExpiresSec, 1)) * time.Second)
	return agent.Approval{
		Kind: agent.WaitClientTool, ApprovalID: approvalID(t.TurnID, step, call) + ".result", TurnID: t.TurnID, CallID: call, Step: step,
		ToolName: b.Name, Args: args, ExpiresAt: &expires, OnExpiry: agent.ExpiryReject,
	}, nil
}

// Provide stores the result of a call of a client-side tool. It returns a verdict for the core, or a refusal for the client. It is idempotent.
func (ts *Turns) Provide(ctx context.Context, in ProvideInput) (DecideResult, error) {
	ctx, done := ts.watch(ctx, "Provide", in.TurnID, 0)
	out, err := ts.provide(ctx, in)
	done(err)
	return decideResult(out, err)
}

func (ts *Turns) provide(ctx context.Context, in ProvideInput) (DecideResult, error) {
	r := &in.Provided
	if err := r.Check(); err != nil {
		return DecideResult{}, err
	}
	if len(r.Result) > 0 && !json.Valid(r.Result) {
		return DecideResult{}, agent.Invalid("result", "is not JSON")
	}
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return DecideResult{}, err
	}
	waits, err := ts.Store.Approvals(ctx, in.TurnID)
	if err != nil {
		return DecideResult{}, err
	}
	p := findClientCall(waits, r.ToolCallID)
	switch {
	case p == nil:
		return DecideResult{}, agent.FieldErrorf(agent.CodeConflict, "tool_call_id", "nothing waits for a result of call %q", r.ToolCallID)
	case !r.Empty():
		return ts.storeOutcome(ctx, &turn, p, agent.Decision{
			ApprovalID: p.ApprovalID, Decision: agent.DecisionProvide, Args: r.Result, Message: r.Error,
		})
	case p.Decision == "":
		return DecideResult{}, agent.Invalid("result", "give result or error")
	}
	v, err := ts.recordedVerdict(ctx, &turn, p)
	return DecideResult{Verdict: &v}, err
}

// findClientCall returns the call of a client-side tool with a call id or approval id, or nil if there is none. If several match, it returns the first
// one that waits, or else the last one.
func findClientCall(waits []agent.Approval, id agent.CallID) (found *agent.Approval) {
	for i := range waits {
		p := &waits[i]
		if p.Kind != agent.WaitClientTool || (p.CallID != id && p.ApprovalID != string(id)) {
			continue
		}
		if found = p; p.Decision == "" {
			break
		}
	}
	return found
}
