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

// RequestApproval records that calls of a step wait for a person, and announces it in the log. Idempotent.
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
			left := max(time.Until(*p.ExpiresAt).Milliseconds(), 1)
			if out.ExpiresInMS == 0 || left < out.ExpiresInMS {
				out.ExpiresInMS = left
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

// saveApprovals stores and returns the records of calls that wait: for a person, or for their results from the caller.
func (ts *Turns) saveApprovals(ctx context.Context, t *facts, in *RequestApprovalInput) ([]agent.Approval, error) {
	reply, ok, err := ts.Store.ModelStep(ctx, agent.StepKey{TurnID: in.TurnID, Step: in.Step})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, missingReply("request approval", in.TurnID, in.Step)
	}
	made, err := ts.executor(ctx, t.PlanHash)
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
			saved[i], err = ts.newClientCall(ctx, made, t, in.Step, &block)
		} else {
			saved[i], err = ts.approvalOf(ctx, made, t, in.Step, &block, c.Rule)
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

// resolvedEvent returns the event for the end of a wait. The answer of a client-side tool is left out: its tool_end has it, after the middleware.
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

// approvalOf returns the approval of a call: what a person sees of the call, and which decisions are allowed.
func (ts *Turns) approvalOf(ctx context.Context, e *executor, t *facts, step int, b *agent.Block, rule string) (agent.Approval, error) {
	plan, err := ts.toolset(ctx, e, t, step+1)
	if err != nil {
		return agent.Approval{}, err
	}
	granted, tool, ok, err := ts.findGranted(ctx, &plan, t.Tenant, b.Name)
	free := ok && err == nil && effectFree(tool, b.Args)
	v, err := callGate(&granted, e.chain, t, b.Args, free)
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

// maxAncestors bounds the turns above a child that are told of its pause. Plans delegate in no circle and are not that deep.
const maxAncestors = 16

// announceUpwards writes events to a turn's stream and to the streams of the turns that wait for it, because a viewer of any of them can answer.
// Streams that have ended are skipped.
func (ts *Turns) announceUpwards(ctx context.Context, t *facts, producer string, events []agent.Event) error {
	if err := ts.emit(ctx, t.TurnRef, producer, events...); err != nil {
		return err
	}
	up := t
	for range maxAncestors {
		if up.parent == "" {
			return nil
		}
		parent, err := ts.turn(ctx, up.parent)
		if err != nil {
			return err
		}
		if events, err = ts.cleanChildEvents(ctx, &parent, events); err != nil {
			return err
		}
		err = ts.emit(ctx, parent.TurnRef, "child/"+string(t.TurnID)+"/"+producer, slices.Clone(events)...)
		if err != nil && !errors.Is(err, agent.ErrStreamClosed) {
			return err
		}
		up = &parent
	}
	return nil
}

// approvalID returns a readable id that is the same for the same call.
func approvalID(t agent.TurnID, step int, call agent.CallID) string {
	return fmt.Sprintf("%s.%d.%s", t, step, call)
}

// Decide checks and stores a decision. It returns a verdict for the core, or a refusal for the person. A rejected or answered call gets its
// result here, for the model. A decision about a call of a child turn goes to the child.
func (ts *Turns) Decide(ctx context.Context, in DecideInput) (DecideResult, error) {
	ctx, done := ts.watch(ctx, "Decide", in.TurnID, 0)
	out, err := ts.decide(ctx, in)
	done(err)
	return decideResult(out, err)
}

// decideResult returns an error that retrying cannot help as a refusal for whoever decided or provided.
func decideResult(out DecideResult, err error) (DecideResult, error) {
	switch {
	case err == nil:
		return out, nil
	case agent.CodeOf(err).Retryable():
		return DecideResult{}, err
	default:
		return DecideResult{Refusal: agent.FailureOf(err)}, nil
	}
}

func (ts *Turns) decide(ctx context.Context, in DecideInput) (DecideResult, error) {
	if err := checkDecision(&in.Decision); err != nil {
		return DecideResult{}, err
	}
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return DecideResult{}, err
	}
	asked, err := ts.Store.Approval(ctx, turn.Tenant, in.Decision.ApprovalID)
	if err != nil {
		return DecideResult{}, err
	}
	if asked.TurnID != in.TurnID {
		return ts.decideBelow(ctx, &turn, &asked, in.Decision)
	}
	if in.Decision.Decision == agent.DecisionEdit && asked.Decision == "" {
		if err := ts.checkArgs(ctx, &turn, &asked, in.Decision.Args); err != nil {
			return DecideResult{}, err
		}
	}
	return ts.storeOutcome(ctx, &turn, &asked, in.Decision)
}

// storeOutcome stores how a wait ended and returns the verdict. A wait that ended otherwise before is a refusal with the earlier verdict.
func (ts *Turns) storeOutcome(ctx context.Context, turn *facts, asked *agent.Approval, d agent.Decision) (DecideResult, error) {
	p, err := ts.Store.ResolveApproval(ctx, turn.TurnID, d)
	if agent.CodeOf(err) == agent.CodeConflict { // the turn may not know the earlier decision yet
		if stands, readErr := ts.Store.Approval(ctx, turn.Tenant, d.ApprovalID); readErr == nil && stands.Decision != "" {
			return ts.refuseDecided(ctx, turn, &stands, err)
		}
	}
	if err != nil {
		return DecideResult{}, err
	}
	resolve := ts.finishDecision
	if asked.Decision != "" { // decided before: by an attempt that may have been cut off, or by the same person
		resolve = ts.recordedVerdict
	}
	v, err := resolve(ctx, turn, &p)
	return DecideResult{Verdict: &v}, err
}

// refuseDecided answers a second decision with the refusal and with the verdict of the first.
func (ts *Turns) refuseDecided(ctx context.Context, t *facts, first *agent.Approval, refusal error) (DecideResult, error) {
	v, err := ts.recordedVerdict(ctx, t, first)
	switch {
	case errors.Is(err, agent.ErrFenced), errors.Is(err, agent.ErrStreamClosed): // the turn has ended: its workflow needs no verdict
		return DecideResult{}, refusal
	case err != nil:
		return DecideResult{}, err
	}
	return DecideResult{Refusal: agent.FailureOf(refusal), Stands: &v}, nil
}

// recordedVerdict returns the verdict of an approval that was decided before. The process that stored the decision may have died before it stored
// the answer of a call that will not run and the events; then recordedVerdict stores them.
func (ts *Turns) recordedVerdict(ctx context.Context, t *facts, p *agent.Approval) (agent.DecisionVerdict, error) {
	known, err := ts.isAnnounced(ctx, t.TurnID, p.ApprovalID)
	if err != nil || known {
		return verdictOf(p), err
	}
	return ts.finishDecision(ctx, t, p)
}

// awaitAnnounced waits until another call has written the events of a decision. That call may have died, so the wait is short, and its error
// makes the caller write them.
func (ts *Turns) awaitAnnounced(ctx context.Context, id agent.TurnID, approval string) error {
	for pause := 10 * time.Millisecond; pause < time.Second; pause *= 2 {
		known, err := ts.isAnnounced(ctx, id, approval)
		if err != nil || known {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the events of decision %q are not written yet", approval)
}

// isAnnounced reports whether a turn's stream has the decision about an approval.
func (ts *Turns) isAnnounced(ctx context.Context, id agent.TurnID, approval string) (bool, error) {
	tail, err := ts.Log.Tail(ctx, string(id))
	if err != nil || tail.FirstIndex == 0 {
		return false, err
	}
	for e, err := range ts.Log.Follow(ctx, string(id), tail.FirstIndex-1) {
		if err != nil {
			return false, err
		}
		if (e.Type == agent.EventApprovalResolved || e.Type == agent.EventInputResolved) && e.Approval != nil && e.Approval.ApprovalID == approval {
			return true, nil
		}
		if e.Meta.EventIndex >= tail.LastIndex {
			break
		}
	}
	return false, nil
}

// verdictOf returns a decision in the form of the core.
func verdictOf(p *agent.Approval) agent.DecisionVerdict {
	return agent.DecisionVerdict{
		ApprovalID: p.ApprovalID, CallID: p.CallID, Decision: p.Decision, By: p.By,
		Run:    slices.Contains([]agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit, agent.DecisionProvide}, p.Decision),
		Client: p.Kind == agent.WaitClientTool,
		End:    p.By == agent.ExpiredBy && p.OnExpiry == agent.ExpiryEnd,
	}
}

// finishDecision stores the answer of a call that will not run, and announces the decision.
func (ts *Turns) finishDecision(ctx context.Context, t *facts, p *agent.Approval) (agent.DecisionVerdict, error) {
	v := verdictOf(p)
	if !v.Run {
		if err := ts.storeAnswer(ctx, t.TurnRef, p); err != nil {
			return v, err
		}
	}
	err := ts.announceUpwards(ctx, t, "decision/"+p.ApprovalID, []agent.Event{
		resolvedEvent(p),
		{Type: agent.EventStatus, Status: agent.StatusRunning},
	})
	if errors.Is(err, agent.ErrFenced) { // the same decision came at the same time, and writes the same events
		return v, ts.awaitAnnounced(ctx, t.TurnID, p.ApprovalID)
	}
	if err == nil && p.Kind == "" {
		ts.Observer.Decided(ctx, t.seen, p)
	}
	return v, err
}

// decideBelow passes a decision on to the child turn that asked for it.
func (ts *Turns) decideBelow(ctx context.Context, t *facts, asked *agent.Approval, d agent.Decision) (DecideResult, error) {
	child, err := ts.Store.Turn(ctx, asked.TurnID)
	if err != nil {
		return DecideResult{}, err
	}
	up := child.Record.Parent
	for range maxAncestors {
		if up == "" || up == t.TurnID {
			break
		}
		f, err := ts.turn(ctx, up)
		if err != nil {
			return DecideResult{}, err
		}
		up = f.parent
	}
	if up != t.TurnID {
		return DecideResult{}, agent.FieldErrorf(agent.CodeNotFound, "approval_id", "turn %s has no approval %q", t.TurnID, asked.ApprovalID)
	}
	v, err := ts.Runs.Decide(ctx, child.Record.WorkflowID, d)
	return DecideResult{Verdict: &v, Elsewhere: true}, err
}

// checkArgs refuses edited arguments that do not satisfy the tool's schema.
func (ts *Turns) checkArgs(ctx context.Context, t *facts, p *agent.Approval, args json.RawMessage) error {
	made, err := ts.executor(ctx, t.PlanHash)
	if err != nil {
		return err
	}
	plan, err := ts.toolset(ctx, made, t, p.Step+1)
	if err != nil {
		return err
	}
	granted, ok := plan.Tool(p.ToolName)
	if !ok || len(granted.Spec.Parameters) == 0 {
		return nil // the call itself is refused then
	}
	return ts.Schemas.Check("args", granted.Spec.Parameters, args)
}

// ExpireApprovals decides the approvals whose time is over. Idempotent.
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

func checkDecision(d *agent.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	if d.Decision != agent.DecisionEdit {
		return nil
	}
	var args map[string]json.RawMessage // how they begin has been looked at: the rest may still be no JSON
	if err := json.Unmarshal(d.Args, &args); err != nil || args == nil {
		return agent.Invalid("args", "decision edit needs the new arguments as an object")
	}
	return nil
}

// storeAnswer stores a person's message as the result of a call that will not run.
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

// MarkCancelled marks the streams of a turn and of all child turns below it, which ends their model calls within a second. BeginChild marks a
// child that begins afterwards.
func (ts *Turns) MarkCancelled(ctx context.Context, id agent.TurnID) error {
	if err := ts.Log.Cancel(ctx, string(id)); err != nil {
		return err
	}
	children, err := ts.Store.ChildrenAtWork(ctx, id)
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
