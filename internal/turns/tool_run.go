package turns

import (
	"context"
	"fmt"
	"io"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// toolRun is one attempt at a tool call.
type toolRun struct {
	ts         *Turns
	in         CallToolInput
	key        agent.StepKey
	turn       facts
	block      agent.Block // the call
	isOnlyCall bool        // whether the reply has no other call
	noEffects  bool        // whether the call was judged to have no effects
	grant      agent.PlanTool
	tool       agent.Tool // nil if the call is refused
	refusal    *agent.Failure
	chain      []agent.Middleware

	delegates []string // the agents that the agent may delegate to
	tools     []agent.PlanTool
}

// newToolRun loads what a tool call needs. If the call's result is already stored, the run is nil and the verdict is the stored one.
func (ts *Turns) newToolRun(ctx context.Context, in CallToolInput) (*toolRun, agent.ToolVerdict, error) {
	r := &toolRun{ts: ts, in: in, key: agent.StepKey{TurnID: in.TurnID, Step: in.Step, CallID: in.CallID}}
	reply, stored, err := ts.Store.CallSteps(ctx, r.key)
	switch {
	case err != nil:
		return nil, agent.ToolVerdict{}, err
	case stored != nil:
		return nil, stored.Verdict, nil
	case reply == nil:
		return nil, agent.ToolVerdict{}, missingReply("call tool", in.TurnID, in.Step)
	}
	if err := r.load(ctx, reply); err != nil {
		return nil, agent.ToolVerdict{}, err
	}
	return r, agent.ToolVerdict{}, nil
}

// isStored reports whether the result of the call is stored.
func (r *toolRun) isStored(ctx context.Context) (bool, error) {
	_, ok, err := r.ts.Store.ToolStep(ctx, r.key)
	return ok, err
}

// storedVerdict returns the verdict of a call whose result is stored.
func (ts *Turns) storedVerdict(ctx context.Context, key agent.StepKey) (agent.ToolVerdict, error) {
	step, _, err := ts.Store.ToolStep(ctx, key)
	return step.Verdict, err
}

// load finds the call in the reply and loads what the call needs of the turn and the plan.
func (r *toolRun) load(ctx context.Context, reply *agent.ModelStep) (err error) {
	if r.turn, err = r.ts.turn(ctx, r.in.TurnID); err != nil {
		return err
	}
	if r.block, err = callOf(reply.Blocks, r.in.CallID); err != nil {
		return err
	}
	r.isOnlyCall = len(reply.Verdict.Calls) == 1
	r.noEffects = slices.ContainsFunc(reply.Verdict.Calls, func(v agent.CallVerdict) bool { return v.ID == r.in.CallID && v.Local })
	if r.in.Decided {
		if err := r.useEditedArgs(ctx); err != nil {
			return err
		}
	}
	exec, err := r.ts.executor(ctx, r.turn.PlanHash)
	if err != nil {
		return err
	}
	plan, err := r.ts.toolset(ctx, exec, &r.turn, r.in.Step+1) // the tools are stored by now
	if err != nil {
		return err
	}
	r.tools, r.chain, r.delegates = plan.Tools, exec.chain, plan.Delegates
	return r.findTool(ctx, &plan)
}

// findTool sets the tool, or the reason why the call is refused.
func (r *toolRun) findTool(ctx context.Context, plan *agent.Plan) error {
	granted, tool, ok, err := r.ts.findGranted(ctx, plan, r.turn.Tenant, r.block.Name)
	switch {
	case r.in.Refused != "":
		r.grant, r.refusal = granted, &agent.Failure{Type: string(agent.CodeDenied), Message: r.in.Refused}
		return nil
	case !ok:
		r.refusal = &agent.Failure{Type: string(agent.CodeDenied), Message: r.block.Name + ": not granted in toolkit"}
		return nil
	case r.block.Error != "":
		r.refusal = &agent.Failure{Type: string(agent.CodeInvalid), Message: r.block.Error, Field: "args"}
		return nil
	case err != nil && agent.CodeOf(err).Retryable():
		return err
	}
	r.grant = granted
	if err != nil {
		r.refusal = agent.FailureOf(err)
		return nil
	}
	r.tool = tool
	if granted.Spec.ClientSide {
		r.tool, err = r.ts.providedTool(ctx, &granted, r.in)
		return err
	}
	if d, ok := r.tool.(agent.Delegator); ok {
		if _, _, err := d.Delegate(r.block.Args, plan.Delegates); err != nil {
			r.tool, r.refusal = nil, agent.FailureOf(err)
		}
	}
	return nil
}

// useEditedArgs replaces the model's arguments by those that a person has given, if there are any.
func (r *toolRun) useEditedArgs(ctx context.Context) error {
	args, err := r.ts.editedArgs(ctx, agent.StepKey{TurnID: r.in.TurnID, Step: r.in.Step, CallID: r.in.CallID})
	if len(args) > 0 {
		r.block.Args, r.noEffects = args, false
	}
	return err
}

func (r *toolRun) toolCall() agent.ToolCall {
	return agent.ToolCall{ID: r.in.CallID, Name: r.block.Name, Args: r.block.Args}
}

// wrap puts the plan's middleware around a call.
func (r *toolRun) wrap(call agent.ToolFunc) agent.ToolFunc {
	for _, v := range slices.Backward(r.chain) {
		call = v.WrapTool(call)
	}
	return r.recoverPanics(call)
}

// recoverPanics returns a call that turns a panic of the tool into an error. In a direct turn, the panic would end the process.
func (r *toolRun) recoverPanics(call agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, c agent.ToolCall) (result agent.ToolResult, err error) {
		defer func() {
			if p := recover(); p != nil {
				r.ts.log(ctx).Error("a tool panicked", zap.String("tool", c.Name), zap.Any("panic", p), zap.Stack("stack"))
				result, err = agent.ToolResult{}, agent.Errorf(agent.CodeInvalid, "", "the tool broke off")
			}
		}()
		return call(ctx, inv, c)
	}
}

// invocation returns what the tool may know of this call, and the functions that it may use.
func (r *toolRun) invocation(epoch agent.Epoch, progress func(message string)) agent.Invocation {
	return agent.Invocation{
		Tenant: r.turn.Tenant, TurnID: r.turn.TurnID, SessionID: r.turn.SessionID, UserID: r.turn.user, UserRole: r.turn.role, Step: r.in.Step,
		Attempt: int64(epoch), IdempotencyKey: fmt.Sprintf("%s/%d/%s", r.in.TurnID, r.in.Step, r.in.CallID),
		Parameters: r.grant.Parameters, Auth: r.grant.Auth, Repeatable: r.repeatable(),
		InlineBytes: r.ts.InlineBytes, Progress: progress, Workflow: r.turn.job.workflow,
		Toolset: func(context.Context) ([]agent.PlanTool, error) { return r.tools, nil },
		Input: func(ctx context.Context) ([]agent.Message, error) {
			t, err := r.ts.Store.Turn(ctx, r.in.TurnID)
			return t.Record.Input, err
		},
		Open: func(ctx context.Context, ref string) (io.ReadCloser, error) {
			return r.ts.Blobs.Open(ctx, r.turn.Tenant, ref)
		},
	}
}

// repeatable reports whether the call may be repeated if the outcome of an attempt is unknown.
func (r *toolRun) repeatable() bool {
	return r.grant.Spec.Idempotent || r.noEffects || isEffectFree(r.tool, r.block.Args)
}

// observation describes an attempt for observers.
func (r *toolRun) observation(epoch agent.Epoch) agent.ToolObservation {
	return agent.ToolObservation{
		Turn: r.turn.observed, Step: r.in.Step, CallID: r.in.CallID, Name: r.block.Name, Description: r.grant.Spec.Description,
		Toolkit: r.grant.SourceNodeName, Args: r.block.Args, Epoch: epoch,
	}
}

// event returns an event of this call that names its tool and the source of the tool.
func (r *toolRun) event(kind agent.EventType) agent.Event {
	return agent.Event{
		Type: kind, ToolCallID: r.in.CallID, ToolName: r.block.Name, SourceNodeName: r.grant.SourceNodeName, IsFromToolkit: r.grant.IsFromToolkit,
	}
}
