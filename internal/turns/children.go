package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// childNamespace is the UUID namespace of the ids of child turns.
var childNamespace = uuid.MustParse("3c1f6d0b-8f0e-5b53-9b0c-0a9f6c1d2e07") //nolint:gochecknoglobals // never changes

// BeginChild queues the turn of another agent that a call asks for, so that the store has its message and the history does not. If the call cannot
// become a turn, the result names no child and CallTool answers the call. BeginChild is idempotent.
func (ts *Turns) BeginChild(ctx context.Context, in BeginChildInput) (out BeginChildResult, err error) {
	ctx, done := ts.watch(ctx, "BeginChild", in.TurnID, in.Step)
	defer func() { done(err) }()
	run, _, err := ts.newToolRun(ctx, CallToolInput{TurnID: in.TurnID, Step: in.Step, CallID: in.CallID, Decided: true})
	if run == nil || run.tool == nil {
		return BeginChildResult{}, err
	}
	d, ok := run.tool.(agent.Delegator)
	if !ok {
		return BeginChildResult{}, nil
	}
	r, ok, err := d.Delegate(run.block.Args, run.delegates)
	if err != nil || !ok {
		return BeginChildResult{}, nil // CallTool tells the model
	}
	asking, err := ts.Store.Turn(ctx, in.TurnID)
	if err != nil {
		return BeginChildResult{}, err
	}
	limits := in.Limits.Lower(r.Limits)
	limits = limits.Lower(&agent.Limits{Tools: run.turn.limits.Tools})
	id := childID(in.TurnID, in.Step, in.CallID)
	req := agent.TurnRequest{
		TurnID: id, Agent: r.Agent, Message: r.Message, Context: asking.Record.Context, Limits: &limits, Channel: "agent",
		Approvals: asking.Record.Approvals,
	}
	begun, err := ts.Begin(ctx, req, BeginTurnInput{
		WorkflowID: id.WorkflowID(), Parent: in.TurnID, Trace: ts.Observer.Delegate(ctx, run.turn.observed, id),
	})
	if err != nil {
		if agent.CodeOf(err).Retryable() {
			return BeginChildResult{}, err
		}
		return BeginChildResult{Refused: clip.Bytes(err.Error(), maxReasonBytes)}, nil
	}
	start := run.event(agent.EventToolStart)
	start.Input, start.Ref = run.block.Args, id.WorkflowID()
	if err := ts.emit(ctx, run.turn.TurnRef, toolProducer(in.Step, in.CallID), start); err != nil {
		return BeginChildResult{}, err
	}
	tail, err := ts.Log.Tail(ctx, string(in.TurnID))
	if err == nil && tail.Cancelled { // MarkCancelled may have run before this child was recorded
		err = ts.Log.Cancel(ctx, string(id))
	}
	if err != nil {
		return BeginChildResult{}, fmt.Errorf("look for a cancel: %w", err)
	}
	return BeginChildResult{Child: id, Tenant: begun.Turn.Tenant}, nil
}

// childID returns the id of the child turn of a call. The same call always has the same id.
func childID(parent agent.TurnID, step int, call agent.CallID) agent.TurnID {
	return agent.TurnID(uuid.NewSHA1(childNamespace, fmt.Appendf(nil, "%s\x00%d\x00%s", parent, step, call)).String())
}

// childAnswer is the result of a delegated call that the model gets.
type childAnswer struct {
	Agent      string           `json:"agent"`
	Status     agent.TurnStatus `json:"status"`
	Output     string           `json:"output"`
	Structured json.RawMessage  `json:"structured,omitempty"`
	TurnID     agent.TurnID     `json:"turn_id"`
	ResultRef  string           `json:"result_ref,omitempty"`
}

// StoreChild stores the result of a child turn as the result of the call that asked for it. It is idempotent.
func (ts *Turns) StoreChild(ctx context.Context, in StoreChildInput) (v agent.ToolVerdict, err error) {
	ctx, done := ts.watch(ctx, "StoreChild", in.TurnID, in.Step)
	defer func() { done(err) }()
	call := CallToolInput{TurnID: in.TurnID, Step: in.Step, CallID: in.CallID, Decided: true}
	run, verdict, err := ts.newToolRun(ctx, call)
	if run == nil {
		return verdict, err
	}
	child, err := ts.Ended(ctx, in.Child)
	if err != nil {
		return agent.ToolVerdict{}, err
	}
	out := child.Output
	fence, err := ts.beginProducer(ctx, run.turn.TurnRef, toolProducer(in.Step, in.CallID)+"/end", run.isStored)
	if errors.Is(err, errStored) { // by another attempt, meanwhile
		return ts.storedVerdict(ctx, run.key)
	}
	if err != nil {
		return agent.ToolVerdict{}, err
	}
	result, err := run.childResult(ctx, fence.Epoch, out)
	if err != nil {
		return agent.ToolVerdict{}, err
	}
	step, err := run.newStep(ctx, fence, result, time.Duration(out.ExecutionTimeMS)*time.Millisecond)
	if err != nil {
		return agent.ToolVerdict{}, err
	}
	counts, err := ts.Store.CallCounts(ctx, child.Record.Tenant, child.Record.SessionID)
	if err != nil {
		return agent.ToolVerdict{}, err
	}
	step.Verdict.Usage, step.Verdict.ModelCalls = out.Usage, counts.Model
	for _, t := range counts.Tools {
		step.Verdict.ToolCalls += t.Calls
	}
	end := run.event(agent.EventToolEnd)
	end.Output, end.Ref, end.Failed = step.Result.Output, step.Result.Ref, step.Verdict.Failed
	if err := ts.appendEvents(ctx, run.turn.TurnRef, fence, []agent.Event{end}); err != nil {
		return agent.ToolVerdict{}, err
	}
	if err := run.saveStep(ctx, step); err != nil {
		return agent.ToolVerdict{}, err
	}
	o := run.observation(fence.Epoch)
	o.Child, o.Started = in.Child, child.StartedAt
	_, answered := ts.Observer.Tool(ctx, o)
	answered(agent.ToolOutcome{Result: &result})
	return step.Verdict, nil
}

// Ended returns a turn whose workflow has ended, with its Output. If the workflow has stored none, Ended first ends the turn as failed.
func (ts *Turns) Ended(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	t, err := ts.Store.Turn(ctx, id)
	if err != nil || t.Output != nil {
		return t, err
	}
	if err := ts.Terminate(ctx, id); err != nil {
		return t, err
	}
	if t, err = ts.Store.Turn(ctx, id); err == nil && t.Output == nil {
		err = agent.Errorf(agent.CodeUnavailable, "end turn", "turn %s has no result yet", id)
	}
	return t, err
}

// childResult returns the output of a child turn as the result of the call that asked for it. The result goes through the middleware like every tool
// result, but middleware cannot make the child run again.
func (r *toolRun) childResult(ctx context.Context, epoch agent.Epoch, out *agent.AgentStepOutput) (agent.ToolResult, error) {
	output, err := json.Marshal(childAnswer{
		Agent: out.Agent, Status: out.Status, Output: out.Output, Structured: out.Structured, TurnID: out.TurnID, ResultRef: out.ResultRef,
	})
	if err != nil {
		return agent.ToolResult{}, err
	}
	result := agent.ToolResult{Output: output, Preview: out.ResultPreview}
	if out.Status != agent.TurnCompleted {
		f := agent.Failure{Type: string(out.StopReason), Message: "the turn of agent " + out.Agent + " was cancelled"}
		if out.Error != nil {
			f = *out.Error
		}
		f.Tool = r.block.Name
		result = failureResult(&f)
	}
	inv := r.invocation(epoch, nil)
	inv.Settled = true
	call := r.wrap(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) { return result, nil })
	wrapped, err := call(ctx, inv, r.toolCall())
	if err == nil || ctx.Err() != nil {
		return wrapped, err
	}
	return r.errorResult(ctx, epoch, err)
}

// filterChildEvents returns the events of a child turn for the stream of a turn that waits for it. The texts of their approvals have been through the
// middleware of the waiting turn, like tool results.
func (ts *Turns) filterChildEvents(ctx context.Context, parent *facts, events []agent.Event) ([]agent.Event, error) {
	exec, err := ts.executor(ctx, parent.PlanHash)
	if err != nil {
		return nil, err
	}
	run := &toolRun{ts: ts, turn: *parent, chain: exec.chain}
	events = slices.Clone(events)
	for i := range events {
		if p := events[i].Approval; p != nil && len(run.chain) > 0 {
			if events[i].Approval, err = run.filterApproval(ctx, *p); err != nil {
				return nil, err
			}
		}
	}
	return events, nil
}

// filterApproval returns an approval whose texts have been through the middleware. If the middleware refuses them, the approval has no texts but the
// reason, as its description.
func (r *toolRun) filterApproval(ctx context.Context, p agent.Approval) (*agent.Approval, error) {
	raw, err := json.Marshal(approvalTexts{p.Args, p.DecidedArgs, p.Description, p.Message})
	if err != nil {
		return nil, err
	}
	call := r.wrap(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: raw}, nil
	})
	inv := agent.Invocation{
		Tenant: r.turn.Tenant, TurnID: r.turn.TurnID, SessionID: r.turn.SessionID, UserID: r.turn.user, UserRole: r.turn.role, Settled: true,
	}
	result, err := call(ctx, inv, agent.ToolCall{ID: p.CallID, Name: p.ToolName, Args: p.Args})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && result.Failure != nil {
		err = result.Failure.AsError()
	}
	var words approvalTexts
	if err == nil {
		err = json.Unmarshal(result.Output, &words)
	}
	if err != nil {
		words = approvalTexts{Description: clip.Bytes(err.Error(), maxReasonBytes)}
	}
	p.Args, p.DecidedArgs, p.Description, p.Message = words.Args, words.DecidedArgs, words.Description, words.Message
	return &p, nil
}

// approvalTexts are the parts of an approval that people or models have written.
type approvalTexts struct {
	Args        json.RawMessage `json:"args,omitempty"`
	DecidedArgs json.RawMessage `json:"decided_args,omitempty"`
	Description string          `json:"description,omitempty"`
	Message     string          `json:"message,omitempty"`
}
