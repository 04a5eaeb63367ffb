package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// RequestApproval records that calls of a step wait for a person, and emits the events that say so. It is idempotent.
func (ts *Turns) RequestApproval(ctx context.Context, in RequestApprovalInput) (out RequestApprovalResult, err error) {
	ctx, done := ts.watch(ctx, "RequestApproval", in.TurnID, in.Step)
	defer func() { done(err) }()
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return out, err
	}
	saved, err := ts.saveApprovals(ctx, &turn, &in)
	if err != nil {
		return out, err
	}
	var events []agent.Event
	for i := range saved {
		p := &saved[i]
		out.Pending = append(out.Pending, agent.PendingApproval{ApprovalID: p.ApprovalID, CallID: p.CallID, ToolName: p.ToolName, Kind: p.Kind})
		if p.ExpiresAt != nil {
			expiresInMS := max(time.Until(*p.ExpiresAt).Milliseconds(), 1)
			if out.ExpiresInMS == 0 || expiresInMS < out.ExpiresInMS {
				out.ExpiresInMS = expiresInMS
			}
		}
		events = append(events, agent.Event{Type: requestedEvent(in.Kind), Approval: p, ToolCallID: p.CallID, ToolName: p.ToolName})
	}
	producer, reason := fmt.Sprintf("approval/%d", in.Step), "awaiting_approval"
	if in.Kind != "" {
		producer, reason = fmt.Sprintf("%s/%d", in.Kind, in.Step), "awaiting_"+string(in.Kind)
	}
	events = append(events, agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: reason})
	if err := ts.announceUpwards(ctx, &turn, producer, events); err != nil || in.StreamTo == nil || in.Kind != "" {
		return out, err
	}
	batch := agent.TokenBatch{TurnID: in.TurnID, Step: in.Step, Pending: out.Pending}
	if err := ts.Runs.Tokens(ctx, *in.StreamTo, batch); err != nil {
		ts.log(ctx).Warn("signalling a pause", zap.String("workflow", in.StreamTo.WorkflowID), zap.Error(err))
	}
	return out, nil
}

// saveApprovals stores and returns an approval for each waiting call. The calls wait for a person or, if in.Kind is [agent.WaitClientTool], for
// results from the caller.
func (ts *Turns) saveApprovals(ctx context.Context, t *facts, in *RequestApprovalInput) ([]agent.Approval, error) {
	reply, ok, err := ts.Store.ModelStep(ctx, agent.StepKey{TurnID: in.TurnID, Step: in.Step})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, missingReply("request approval", in.TurnID, in.Step)
	}
	exec, err := ts.executor(ctx, t.PlanHash)
	if err != nil {
		return nil, err
	}
	saved := make([]agent.Approval, len(in.Calls))
	for i, c := range in.Calls {
		block, err := callOf(reply.Blocks, c.ID)
		if err != nil {
			return nil, err
		}
		if in.Kind == agent.WaitClientTool {
			saved[i], err = ts.newClientCall(ctx, exec, t, in.Step, &block)
		} else {
			saved[i], err = ts.approvalOf(ctx, exec, t, in.Step, &block, c.Rule)
		}
		if err != nil {
			return nil, err
		}
		if err := ts.Store.SaveApproval(ctx, t.Tenant, saved[i]); err != nil {
			return nil, err
		}
	}
	return saved, nil
}

func requestedEvent(kind agent.WaitKind) agent.EventType {
	if kind != "" {
		return agent.EventInputRequested
	}
	return agent.EventApprovalRequested
}

// resolvedEvent returns the event for the end of a wait. It omits the result of a client-side tool: the tool_end event of the call has that
// result, after the middleware.
func resolvedEvent(p *agent.Approval) agent.Event {
	e := agent.Event{Type: agent.EventApprovalResolved, Approval: p, ToolCallID: p.CallID, ToolName: p.ToolName}
	if p.Kind != "" {
		shown := *p
		if p.Decision == agent.DecisionProvide {
			shown.DecidedArgs, shown.Message = nil, ""
		}
		e.Type, e.Approval = agent.EventInputResolved, &shown
	}
	return e
}

// approvalOf returns the approval to request for a call: what a person is shown, and which decisions are allowed.
func (ts *Turns) approvalOf(ctx context.Context, e *executor, t *facts, step int, b *agent.Block, rule string) (agent.Approval, error) {
	plan, err := ts.toolset(ctx, e, t, step+1)
	if err != nil {
		return agent.Approval{}, err
	}
	granted, tool, ok, err := ts.findGranted(ctx, &plan, t.Tenant, b.Name)
	noEffects := ok && err == nil && isEffectFree(tool, b.Args)
	v, err := callGate(&granted, e.chain, t, b.Args, noEffects)
	if err != nil {
		return agent.Approval{}, err
	}
	call := agent.CallID(b.ID)
	p := agent.Approval{
		ApprovalID: approvalID(t.TurnID, step, call), TurnID: t.TurnID, CallID: call, Step: step, ToolName: b.Name, Args: b.Args, Rule: rule,
		Description: v.Description, Allowed: v.Allowed, OnExpiry: v.OnExpiry, Remember: cmp.Or(v.Remember, agent.RememberCall),
		ArgsHash: argsHash(b.Args),
	}
	if v.ExpiresSec > 0 {
		at := time.Now().Add(time.Duration(v.ExpiresSec) * time.Second)
		p.ExpiresAt = &at
		p.OnExpiry = cmp.Or(p.OnExpiry, agent.ExpiryReject)
	}
	return p, nil
}

// maxAncestors bounds the turns above a child turn that are told of its pause. Plans never delegate in a cycle, and chains are shorter.
const maxAncestors = 16

// announceUpwards writes events to a turn's stream and to the streams of the turns that wait for it, because viewers of all these streams may
// decide. It skips streams that have ended.
func (ts *Turns) announceUpwards(ctx context.Context, t *facts, producer string, events []agent.Event) error {
	if err := ts.emit(ctx, t.TurnRef, producer, events...); err != nil {
		return err
	}
	child := t
	for range maxAncestors {
		if child.parent == "" {
			return nil
		}
		parent, err := ts.turn(ctx, child.parent)
		if err != nil {
			return err
		}
		if events, err = ts.filterChildEvents(ctx, &parent, events); err != nil {
			return err
		}
		err = ts.emit(ctx, parent.TurnRef, "child/"+string(t.TurnID)+"/"+producer, slices.Clone(events)...)
		if err != nil && !errors.Is(err, agent.ErrStreamClosed) {
			return err
		}
		child = &parent
	}
	return nil
}

// approvalID returns the readable id of a call's approval.
func approvalID(t agent.TurnID, step int, call agent.CallID) string {
	return fmt.Sprintf("%s.%d.%s", t, step, call)
}

// ExpireApprovals decides the approvals that have expired. It is idempotent.
func (ts *Turns) ExpireApprovals(ctx context.Context, in ExpireApprovalsInput) (out ExpireApprovalsResult, err error) {
	ctx, done := ts.watch(ctx, "ExpireApprovals", in.TurnID, in.Step)
	defer func() { done(err) }()
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return out, err
	}
	expired, next, err := ts.Store.ExpireApprovals(ctx, in.TurnID, in.Step)
	if err != nil {
		return out, err
	}
	for i := range expired {
		v, err := ts.finishDecision(ctx, &turn, &expired[i])
		if err != nil {
			return out, err
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	if next > 0 {
		out.NextInMS = max(next.Milliseconds(), 1)
	}
	return out, nil
}

// storeAnswer stores a person's answer or rejection as the result of a call that will not run.
func (ts *Turns) storeAnswer(ctx context.Context, t TurnRef, p *agent.Approval) error {
	block := agent.Block{Type: agent.BlockToolResult, ToolCallID: p.CallID, Name: p.ToolName, Status: agent.ResultSuccess}
	content := any(p.Message)
	if p.Decision == agent.DecisionReject {
		reason := p.Message
		if reason == "" {
			reason = "a person rejected this call"
		}
		block.Status = agent.ResultError
		code := string(agent.CodeDenied)
		if p.Kind != "" {
			code = agent.ClientToolFailed
		}
		content = map[string]agent.Failure{"error": {Type: code, Message: reason, Tool: p.ToolName}}
	}
	output, err := json.Marshal(content)
	if err != nil {
		return err
	}
	block.Output = output
	key := agent.StepKey{TurnID: t.TurnID, Step: p.Step, CallID: p.CallID}
	return ts.Store.SaveToolStep(ctx, agent.ToolStep{
		Key: key, Fence: agent.Fence{StreamID: string(t.TurnID), Producer: "decision/" + p.ApprovalID, Epoch: 1}, Tenant: t.Tenant,
		Name: p.ToolName, Args: p.Args, Result: block,
		Verdict: agent.ToolVerdict{ID: p.CallID, Failed: block.Status == agent.ResultError},
	})
}

// MarkCancelled marks the streams of a turn and of all its unfinished descendants as cancelled, which ends their model calls within a second.
// BeginChild marks children that begin later.
func (ts *Turns) MarkCancelled(ctx context.Context, id agent.TurnID) error {
	if err := ts.Log.Cancel(ctx, string(id)); err != nil {
		return err
	}
	children, err := ts.Store.UnfinishedChildren(ctx, id)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := ts.Log.Cancel(ctx, string(child)); err != nil {
			return err
		}
	}
	return nil
}
