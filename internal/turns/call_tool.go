package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxToolEpochs is the number of attempts at an unreachable tool before the model gets the error as the result.
const maxToolEpochs = 3

// CallTool runs one tool call of a step and stores its result. A tool's failure is a result for the model. An unreachable tool is an error, so that
// the call is retried, up to maxToolEpochs attempts. A call whose result is stored does not run again.
func (ts *Turns) CallTool(ctx context.Context, in CallToolInput) (v agent.ToolVerdict, err error) {
	ctx, done := ts.watch(ctx, "CallTool", in.TurnID, in.Step)
	defer func() { done(err) }()
	run, verdict, err := ts.newToolRun(ctx, in)
	if run == nil {
		return verdict, err
	}
	p, work, err := ts.startProducer(ctx, run.turn.TurnRef, toolProducer(in.Step, in.CallID), run.isStored)
	switch {
	case errors.Is(err, errStored): // by another attempt, meanwhile
		return ts.storedVerdict(ctx, run.key)
	case errors.Is(err, errCancelled):
		return agent.ToolVerdict{ID: in.CallID, Cancelled: true}, nil
	case err != nil:
		return agent.ToolVerdict{}, err
	}
	started := time.Now()
	observed, answered := ts.Observer.Tool(work, run.observation(p.fence.Epoch))
	result, err := run.call(observed, p)
	answered(agent.ToolOutcome{Result: &result, Refused: run.tool == nil, Cached: result.CacheHit, Err: err})
	cause := context.Cause(work)
	switch {
	case ctx.Err() != nil:
		_ = p.close(context.WithoutCancel(ctx)) // viewers get the events of the attempt that was cut off
		return agent.ToolVerdict{}, context.Cause(ctx)
	case errors.Is(cause, errCancelled):
		return agent.ToolVerdict{ID: in.CallID, Cancelled: true}, p.close(ctx)
	case cause != nil:
		_ = p.close(ctx) // cause is the better error
		return agent.ToolVerdict{}, cause
	case err != nil:
		if closeErr := p.close(ctx); closeErr != nil {
			return agent.ToolVerdict{}, closeErr
		}
		return agent.ToolVerdict{}, err
	}
	step, err := run.newStep(ctx, p.fence, result, time.Since(started))
	if err != nil {
		_ = p.close(ctx) // err is the better error
		return agent.ToolVerdict{}, err
	}
	end := run.event(agent.EventToolEnd)
	end.Output, end.Ref, end.Failed = step.Result.Output, step.Result.Ref, step.Verdict.Failed
	_ = p.emit(work, end) // end returns the error, and a cancelled stream accepts the event
	if err := p.end(ctx); err != nil {
		return agent.ToolVerdict{}, err
	}
	return step.Verdict, run.saveStep(ctx, step)
}

// toolProducer returns the name of the producer of a call's events.
func toolProducer(step int, call agent.CallID) string { return fmt.Sprintf("tool/%d/%s", step, call) }

// missingReply returns the permanent error for a step whose stored model reply no longer exists.
func missingReply(op string, id agent.TurnID, step int) error {
	return agent.Errorf(agent.CodeNotFound, op,
		"step %d of turn %q has no model reply: it was deleted, or the database was restored from an older backup", step, id)
}

func callOf(blocks []agent.Block, id agent.CallID) (agent.Block, error) {
	for i := range blocks {
		if blocks[i].Type == agent.BlockToolCall && blocks[i].ID == string(id) {
			return blocks[i], nil
		}
	}
	return agent.Block{}, agent.Errorf(agent.CodeInternal, "call tool", "the reply has no call %q", id)
}

// editedArgs returns the arguments that a person gave in place of the model's, or nil if nobody edited the call.
func (ts *Turns) editedArgs(ctx context.Context, call agent.StepKey) (args json.RawMessage, err error) {
	approvals, err := ts.Store.Approvals(ctx, call.TurnID)
	for i := range approvals {
		p := &approvals[i]
		if p.Step == call.Step && p.CallID == call.CallID && p.Decision == agent.DecisionEdit {
			args = p.DecidedArgs
		}
	}
	return args, err
}

// call runs the tool and streams its progress.
func (r *toolRun) call(ctx context.Context, p *producer) (agent.ToolResult, error) {
	start := r.event(agent.EventToolStart)
	start.Input = r.block.Args
	if !r.isOnlyCall || r.tool != nil && !r.repeatable() {
		// A later attempt must know of this one: the call may have taken effect, or viewers may have seen it among others.
		if err := p.sync(ctx); err != nil {
			return agent.ToolResult{}, err
		}
	}
	if err := p.emit(ctx, start); err != nil {
		return agent.ToolResult{}, err
	}
	if r.tool == nil {
		r.refusal.Tool = r.block.Name
		return failureResult(r.refusal), nil
	}
	inv := r.invocation(p.fence.Epoch, func(message string) {
		progress := r.event(agent.EventToolProgress)
		progress.Text = clip.Bytes(message, 1000)
		_ = p.emit(ctx, progress) // an error also cancels ctx
	})
	if p.fence.Epoch > 1 && !inv.Repeatable {
		return failureResult(&agent.Failure{
			Type: agent.OutcomeUnknown, Tool: r.block.Name,
			Message: "an earlier attempt of this call was cut off and may have taken effect; it was not repeated",
		}), nil
	}
	timeout, late := r.ts.ToolTimeout, fmt.Sprintf("the call took longer than %s and was stopped", r.ts.ToolTimeout)
	if budget := time.Duration(r.in.BudgetMS) * time.Millisecond; budget > 0 && budget < timeout {
		timeout, late = budget, "the turn's time was over and the call was stopped"
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := r.wrap(r.tool.Call)(bounded, inv, r.toolCall())
	switch {
	case err == nil, ctx.Err() != nil:
		return result, err
	case bounded.Err() != nil && !inv.Repeatable:
		return failureResult(&agent.Failure{Type: agent.OutcomeUnknown, Tool: r.block.Name, Message: late + "; it may have taken effect"}), nil
	case bounded.Err() != nil:
		return failureResult(&agent.Failure{
			Type: string(agent.CodeUnavailable), Tool: r.block.Name, Retryable: true, Message: late,
		}), nil
	}
	return r.errorResult(ctx, p.fence.Epoch, err)
}

// errorResult returns the result that tells the model of a call's error. If another attempt may help, it returns the error instead.
func (r *toolRun) errorResult(ctx context.Context, epoch agent.Epoch, err error) (agent.ToolResult, error) {
	if agent.CodeOf(err).Retryable() && epoch < maxToolEpochs {
		return agent.ToolResult{}, err
	}
	f := agent.FailureOf(err)
	f.Tool = r.block.Name
	r.ts.log(ctx).Warn("tool call", zap.String("tool", r.block.Name), zap.Error(err))
	return failureResult(f), nil
}

func failureResult(f *agent.Failure) agent.ToolResult { return agent.ToolResult{Failure: f} }
