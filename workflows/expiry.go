package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// expire remembers when the next of the pending approvals expires; 0: none does.
func (t *agentTurn) expire(ctx workflow.Context, inMS int64) {
	t.ExpiresAt = time.Time{}
	if inMS > 0 {
		t.ExpiresAt = workflow.Now(ctx).Add(time.Duration(inMS) * time.Millisecond)
	}
}

// waitForDecision waits until somebody decides, cancels, or is too late: then what the policy says stands for a decision.
func (t *agentTurn) waitForDecision(ctx workflow.Context, step int) {
	decided := func() bool { return len(t.verdicts) > 0 || t.cancelled }
	if t.State.Version >= turn.VersionLooks {
		t.waitAndLook(ctx, step, decided)
		return
	}
	if t.ExpiresAt.IsZero() {
		_ = workflow.Await(ctx, decided) // a disconnected context is never cancelled
		return
	}
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	ok, err := workflow.AwaitWithTimeout(timerCtx, max(t.ExpiresAt.Sub(workflow.Now(ctx)), time.Millisecond), decided)
	if ok || err != nil {
		return
	}
	var out turns.ExpireApprovalsResult
	in := turns.ExpireApprovalsInput{TurnID: t.Turn.TurnID, Step: step}
	if err := runQuick(ctx, "expire approvals", acts.ExpireApprovals, &out, in); err != nil {
		t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.verdicts = append(t.verdicts, out.Verdicts...)
	t.expire(ctx, out.NextInMS)
}

// waitAndLook waits until decided holds, or until it is time to look into the store, once. A decision or a cancel is stored before the
// workflow hears of it: if the worker dies in between, Temporal forgets the update and only the store knows. It returns after each look,
// so that a turn that waits for days can continue as new.
func (t *agentTurn) waitAndLook(ctx workflow.Context, step int, decided func() bool) {
	pause := max(time.Duration(t.LookPauseMS)*time.Millisecond, askAgainFirst)
	wait := pause
	if !t.ExpiresAt.IsZero() {
		wait = min(wait, max(t.ExpiresAt.Sub(workflow.Now(ctx)), time.Millisecond))
	}
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	if ok, err := workflow.AwaitWithTimeout(timerCtx, wait, decided); ok || err != nil {
		return
	}
	if wait == pause {
		t.LookPauseMS = min(2*pause, askAgainMax).Milliseconds()
	}
	in := turns.LookForDecisionsInput{TurnID: t.Turn.TurnID, Step: step}
	for _, p := range t.Pending {
		in.Approvals = append(in.Approvals, p.ApprovalID)
	}
	var out turns.LookForDecisionsResult
	if err := runQuick(ctx, "look for decisions", acts.LookForDecisions, &out, in); err != nil {
		t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.verdicts = append(t.verdicts, out.Verdicts...)
	t.cancelled = t.cancelled || out.Cancelled
	t.expire(ctx, out.NextInMS)
}
