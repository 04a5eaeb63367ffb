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
	t.expiresAt = time.Time{}
	if inMS > 0 {
		t.expiresAt = workflow.Now(ctx).Add(time.Duration(inMS) * time.Millisecond)
	}
}

// waitForDecision waits until somebody decides, cancels, or is too late: then what the policy says stands for a decision.
func (t *agentTurn) waitForDecision(ctx workflow.Context, step int) {
	decided := func() bool { return len(t.verdicts) > 0 || t.cancelled }
	if t.state.Version >= turn.VersionLooks {
		t.waitAndLook(ctx, step, decided)
		return
	}
	if t.expiresAt.IsZero() {
		_ = workflow.Await(ctx, decided) // a disconnected context is never cancelled
		return
	}
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	ok, err := workflow.AwaitWithTimeout(timerCtx, max(t.expiresAt.Sub(workflow.Now(ctx)), time.Millisecond), decided)
	if ok || err != nil {
		return
	}
	var out turns.ExpireApprovalsResult
	in := turns.ExpireApprovalsInput{TurnID: t.ref.TurnID, Step: step}
	if err := runQuick(ctx, "expire approvals", acts.ExpireApprovals, &out, in); err != nil {
		t.state = t.state.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.verdicts = append(t.verdicts, out.Verdicts...)
	t.expire(ctx, out.NextInMS)
}

// waitAndLook waits until decided holds, or until it is time to look into the store, once. A decision or a cancel is stored before the
// workflow hears of it: if the worker dies in between, Temporal forgets the update and only the store knows. It returns after each look,
// so that a turn that waits for days can continue as new.
func (t *agentTurn) waitAndLook(ctx workflow.Context, step int, decided func() bool) {
	pause := max(t.lookPause, askAgainFirst)
	wait := pause
	if !t.expiresAt.IsZero() {
		wait = min(wait, max(t.expiresAt.Sub(workflow.Now(ctx)), time.Millisecond))
	}
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	if ok, err := workflow.AwaitWithTimeout(timerCtx, wait, decided); ok || err != nil {
		return
	}
	if wait == pause {
		t.lookPause = min(2*pause, askAgainMax)
	}
	in := turns.LookForDecisionsInput{TurnID: t.ref.TurnID, Step: step}
	for _, p := range t.pending {
		in.Approvals = append(in.Approvals, p.ApprovalID)
	}
	var out turns.LookForDecisionsResult
	if err := runQuick(ctx, "look for decisions", acts.LookForDecisions, &out, in); err != nil {
		t.state = t.state.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.verdicts = append(t.verdicts, out.Verdicts...)
	t.cancelled = t.cancelled || out.Cancelled
	t.expire(ctx, out.NextInMS)
}
