package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
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
	var out activities.ExpireApprovalsResult
	in := activities.ExpireApprovalsInput{TurnID: t.ref.TurnID, Step: step}
	if err := quick(ctx, "expire approvals", acts.ExpireApprovals, &out, in); err != nil {
		t.state = t.state.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.verdicts = append(t.verdicts, out.Verdicts...)
	t.expire(ctx, out.NextInMS)
}
