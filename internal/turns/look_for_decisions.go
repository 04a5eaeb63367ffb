package turns

import (
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// LookForDecisions returns the stored decisions about the approvals of a step, and whether the turn was cancelled, in case the workflow has not received
// them: a decision is stored before the workflow task completes, and Temporal loses an update if the worker dies in between. Approvals that have expired
// are decided first. LookForDecisions is idempotent.
func (ts *Turns) LookForDecisions(ctx context.Context, in LookForDecisionsInput) (out LookForDecisionsResult, err error) {
	ctx, done := ts.watch(ctx, "LookForDecisions", in.TurnID, in.Step)
	defer func() { done(err) }()
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return out, err
	}
	tail, err := ts.Log.Tail(ctx, string(in.TurnID))
	if err != nil {
		return out, err
	}
	out.Cancelled = tail.Cancelled
	_, next, err := ts.Store.ExpireApprovals(ctx, in.TurnID, in.Step)
	if err != nil {
		return out, err
	}
	if next > 0 {
		out.NextInMS = max(next.Milliseconds(), 1)
	}
	approvals, err := ts.Store.Approvals(ctx, in.TurnID)
	if err != nil {
		return out, err
	}
	for _, id := range in.Approvals {
		i := slices.IndexFunc(approvals, func(p agent.Approval) bool { return p.ApprovalID == id })
		if i < 0 { // an older backup was restored, or the records were deleted: the wait would never end
			return out, agent.FieldErrorf(agent.CodeNotFound, "approval_id", "turn %s has no record of approval %q", in.TurnID, id)
		}
		if approvals[i].Decision == "" {
			continue
		}
		v, err := ts.recordedVerdict(ctx, &turn, &approvals[i])
		if err != nil {
			return out, err
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	return out, nil
}
