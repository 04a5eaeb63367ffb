package turns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	// maxAttempts bounds the earlier attempts at a job whose decisions are read.
	maxAttempts = 10
	// unavailableAfter is how long reads of decisions are retried before the store counts as unavailable.
	unavailableAfter = 2 * time.Second
)

// refuseApprovals returns the failure that ends a turn whose calls need approvals, if the turn does not wait for approvals; otherwise it returns nil. It
// records the approvals, because a later decision applies to the next attempt.
func (r *modelRun) refuseApprovals(ctx context.Context, blocks []agent.Block, verdicts []agent.CallVerdict) (*agent.Failure, error) {
	if r.turn.policy.Waits() {
		return nil, nil //nolint:nilnil // nothing is refused
	}
	exec, err := r.ts.executor(ctx, r.turn.PlanHash)
	if err != nil {
		return nil, err
	}
	var refused []agent.Approval
	var events []agent.Event
	for i := range verdicts {
		v := &verdicts[i]
		if v.Gate != agent.GateApproval {
			continue
		}
		block, err := callOf(blocks, v.ID)
		if err != nil {
			return nil, err
		}
		p, err := r.ts.approvalOf(ctx, exec, &r.turn, r.in.Step, &block, v.Rule)
		if err != nil {
			return nil, err
		}
		r.ts.allowLaterDecision(&r.turn, &p)
		if err := r.ts.Store.SaveApproval(ctx, r.turn.Tenant, p); err != nil {
			return nil, err
		}
		refused = append(refused, p)
		events = append(events, agent.Event{Type: agent.EventApprovalRequested, Approval: &p, ToolCallID: v.ID, ToolName: v.Name})
	}
	if len(refused) == 0 {
		return nil, nil //nolint:nilnil // nothing is refused
	}
	err = r.ts.announceUpwards(ctx, &r.turn, "approval/"+strconv.Itoa(r.in.Step), events)
	return approvalRequired(refused), err
}

// allowLaterDecision lets an approval be decided after its turn has failed, if the tool's policy allows decisions to be remembered and a later attempt
// can find the decision. A child turn has no later attempt.
func (*Turns) allowLaterDecision(t *facts, p *agent.Approval) {
	useful := []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject}
	if len(p.Allowed) > 0 {
		useful = slices.DeleteFunc(useful, func(d agent.DecisionKind) bool { return !slices.Contains(p.Allowed, d) })
	}
	if t.parent != "" || p.Remember == agent.RememberOff || len(useful) == 0 {
		return
	}
	p.Refused, p.Allowed = true, useful
	p.OnExpiry = ""
	if p.ExpiresAt != nil {
		p.OnExpiry = agent.ExpiryReject
	}
}

// approvalRequired returns the failure that lists the missing approvals and the commands that decide them.
func approvalRequired(refused []agent.Approval) *agent.Failure {
	var b strings.Builder
	for i := range refused {
		p := &refused[i]
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "the tool %s needs the approval %s, and this turn waits for nobody", p.ToolName, p.ApprovalID)
		if p.Refused {
			fmt.Fprintf(&b, ". To decide: %s. The decision stands for the next attempt", p.DecideCommand())
		}
	}
	return &agent.Failure{
		Type: string(agent.StopApprovalRequired), Tool: refused[0].ToolName, Step: strconv.Itoa(refused[0].Step), Message: clip.Bytes(b.String(), maxJobErrorText),
	}
}

// loadRemembered returns the remembered decisions for calls of the turn: those of its session and, for a repeated attempt at a job without a session, those
// of the earlier attempts. While the store does not answer, it retries for up to unavailableAfter.
func (ts *Turns) loadRemembered(ctx context.Context, t *facts, keys []agent.RememberKey) ([]agent.Remembered, error) {
	var out []agent.Remembered
	for _, session := range sessionsOfAttempts(t) {
		found, err := backoff.Retry(ctx, func() ([]agent.Remembered, error) {
			found, err := ts.Store.Remembered(ctx, t.Tenant, session, keys)
			if err != nil && !agent.CodeOf(err).Retryable() {
				err = backoff.Permanent(err)
			}
			return found, err
		}, backoff.WithMaxElapsedTime(unavailableAfter))
		if err != nil {
			return nil, fmt.Errorf("load remembered decisions: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// sessionsOfAttempts returns the sessions whose decisions apply to a turn, beginning with its own. Each attempt at a job without a session has a session
// that is named after its turn: job-<id>, and job-<id>-r<n> for retry n.
func sessionsOfAttempts(t *facts) []agent.SessionID {
	sessions := []agent.SessionID{t.SessionID}
	first, ok := strings.CutSuffix(string(t.TurnID), "-r"+strconv.Itoa(t.job.retry))
	if t.policy.Waits() || t.job.retry < 1 || !ok || string(t.SessionID) != string(t.TurnID) {
		return sessions
	}
	for n := t.job.retry - 1; n >= 0 && len(sessions) <= maxAttempts; n-- {
		id := first
		if n > 0 {
			id += "-r" + strconv.Itoa(n)
		}
		sessions = append(sessions, agent.SessionID(id))
	}
	return sessions
}

// approvalsUnavailable changes the verdicts on gated calls while the store of approvals does not answer. It returns cause, so that the step is retried,
// if the calls have to wait. A call that a policy explicitly gates never runs without an approval.
func (r *modelRun) approvalsUnavailable(ctx context.Context, verdicts []agent.CallVerdict, cause error) error {
	if !agent.CodeOf(cause).Retryable() || ctx.Err() != nil || errors.Is(cause, errCancelled) {
		return cause
	}
	onUnavailable := cmp.Or(r.ts.OnUnavailable, agent.UnavailableWait)
	for _, v := range verdicts {
		mustWait := onUnavailable == agent.UnavailableWait || onUnavailable == agent.UnavailableRun && v.Rule != ruleNotSafe
		if v.Gate == agent.GateApproval && mustWait {
			return cause
		}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Gate != agent.GateApproval {
			continue
		}
		v.Gate, v.Rule = agent.GateDenied, "approvals cannot be reached at present: the call was not made"
		if onUnavailable == agent.UnavailableRun {
			v.Gate, v.Rule = agent.GateNone, "approvals cannot be reached: the call runs without one"
		}
		r.ts.log(ctx).Warn("approvals cannot be reached", zap.String("tool", v.Name), zap.String("call", string(v.ID)),
			zap.String("on_unavailable", string(onUnavailable)), zap.Error(cause))
	}
	return nil
}
