package turns

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Decide checks and stores a decision. It returns a verdict for the core, or a refusal for the person. If the call will not run, Decide also stores
// its result for the model. A decision about a call of a child turn is passed to the child.
func (ts *Turns) Decide(ctx context.Context, in DecideInput) (DecideResult, error) {
	ctx, done := ts.watch(ctx, "Decide", in.TurnID, 0)
	out, err := ts.decide(ctx, in)
	done(err)
	return decideResult(out, err)
}

// decideResult turns a permanent error into a refusal for the person or client that sent the decision or result.
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

// storeOutcome stores the decision that ends a wait and returns its verdict. If another decision ended the wait before, it returns a refusal with
// the earlier verdict.
func (ts *Turns) storeOutcome(ctx context.Context, turn *facts, asked *agent.Approval, d agent.Decision) (DecideResult, error) {
	p, err := ts.Store.ResolveApproval(ctx, turn.TurnID, d)
	if agent.CodeOf(err) == agent.CodeConflict { // the turn may not know the earlier decision yet
		if earlier, readErr := ts.Store.Approval(ctx, turn.Tenant, d.ApprovalID); readErr == nil && earlier.Decision != "" {
			return ts.refuseDecided(ctx, turn, &earlier, err)
		}
	}
	if err != nil {
		return DecideResult{}, err
	}
	resolve := ts.finishDecision
	if asked.Decision != "" { // decided before, perhaps by an attempt that was cut off
		resolve = ts.recordedVerdict
	}
	v, err := resolve(ctx, turn, &p)
	return DecideResult{Verdict: &v}, err
}

// refuseDecided returns the refusal of a second decision together with the verdict of the first.
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
// the call's result and the events; then recordedVerdict stores them.
func (ts *Turns) recordedVerdict(ctx context.Context, t *facts, p *agent.Approval) (agent.DecisionVerdict, error) {
	announced, err := ts.isAnnounced(ctx, t.TurnID, p.ApprovalID)
	if err != nil || announced {
		return verdictOf(p), err
	}
	return ts.finishDecision(ctx, t, p)
}

// awaitAnnounced waits until a concurrent call has written the events of a decision. That call may have died, so the wait is short. It ends with
// [agent.CodeUnavailable], so that the caller is retried and writes the events itself.
func (ts *Turns) awaitAnnounced(ctx context.Context, id agent.TurnID, approval string) error {
	for pause := 10 * time.Millisecond; pause < time.Second; pause *= 2 {
		announced, err := ts.isAnnounced(ctx, id, approval)
		if err != nil || announced {
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

// verdictOf returns the verdict of a decided approval.
func verdictOf(p *agent.Approval) agent.DecisionVerdict {
	return agent.DecisionVerdict{
		ApprovalID: p.ApprovalID, CallID: p.CallID, Decision: p.Decision, By: p.By,
		Run:    slices.Contains([]agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit, agent.DecisionProvide}, p.Decision),
		Client: p.Kind == agent.WaitClientTool,
		End:    p.By == agent.ExpiredBy && p.OnExpiry == agent.ExpiryEnd,
	}
}

// finishDecision announces a decision. If the call will not run, it first stores the call's result.
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
	if errors.Is(err, agent.ErrFenced) { // a concurrent call writes the events of the same decision
		return v, ts.awaitAnnounced(ctx, t.TurnID, p.ApprovalID)
	}
	if err == nil && p.Kind == "" {
		ts.Observer.Decided(ctx, t.observed, p)
	}
	return v, err
}

// decideBelow passes a decision to the descendant turn that asked for it.
func (ts *Turns) decideBelow(ctx context.Context, t *facts, asked *agent.Approval, d agent.Decision) (DecideResult, error) {
	child, err := ts.Store.Turn(ctx, asked.TurnID)
	if err != nil {
		return DecideResult{}, err
	}
	ancestor := child.Record.Parent
	for range maxAncestors {
		if ancestor == "" || ancestor == t.TurnID {
			break
		}
		f, err := ts.turn(ctx, ancestor)
		if err != nil {
			return DecideResult{}, err
		}
		ancestor = f.parent
	}
	if ancestor != t.TurnID {
		return DecideResult{}, agent.FieldErrorf(agent.CodeNotFound, "approval_id", "turn %s has no approval %q", t.TurnID, asked.ApprovalID)
	}
	v, err := ts.Runs.Decide(ctx, child.Record.WorkflowID, d)
	return DecideResult{Verdict: &v, Elsewhere: true}, err
}

// checkArgs returns an error if edited arguments do not satisfy the tool's schema.
func (ts *Turns) checkArgs(ctx context.Context, t *facts, p *agent.Approval, args json.RawMessage) error {
	exec, err := ts.executor(ctx, t.PlanHash)
	if err != nil {
		return err
	}
	plan, err := ts.toolset(ctx, exec, t, p.Step+1)
	if err != nil {
		return err
	}
	granted, ok := plan.Tool(p.ToolName)
	if !ok || len(granted.Spec.Parameters) == 0 {
		return nil // CallTool refuses a tool that the turn does not have
	}
	return ts.Schemas.Check("args", granted.Spec.Parameters, args)
}

func checkDecision(d *agent.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	if d.Decision != agent.DecisionEdit {
		return nil
	}
	var args map[string]json.RawMessage // Check only looks at the first character
	if err := json.Unmarshal(d.Args, &args); err != nil || args == nil {
		return agent.Invalid("args", "decision edit needs the new arguments as an object")
	}
	return nil
}
