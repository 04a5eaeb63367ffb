package turns

import (
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
	// maxAttempts is how many earlier attempts at a job are asked for decisions.
	maxAttempts = 10
	// unavailableAfter is how long the store of approvals is tried before it counts as unavailable.
	unavailableAfter = 2 * time.Second
)

// refuseApprovals returns the failure that ends a turn because some of its calls need an approval and it does not wait for one; nil if none does.
// It records the approvals: a later decision holds for the next attempt.
func (r *modelRun) refuseApprovals(ctx context.Context, blocks []agent.Block, verdicts []agent.CallVerdict) (*agent.Failure, error) {
	if r.turn.policy.Waits() {
		return nil, nil //nolint:nilnil // nothing is refused
	}
	made, err := r.ts.executor(ctx, r.turn.PlanHash)
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
		p, err := r.ts.approvalOf(ctx, made, &r.turn, r.in.Step, &block, v.Rule)
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

// allowLaterDecision marks an approval that may be decided after its turn has failed: if the policy of the tool lets an approval be remembered,
// and if a later attempt can find it. No later turn is a child turn of the same id.
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

// approvalRequired returns the failure that lists the missing approvals and how to give them.
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

// remembered returns the decisions that stand for calls of the turn: those of its session and, for another attempt at a job without a
// session, those of the attempts before it. A store that does not answer is tried for a moment.
func (ts *Turns) remembered(ctx context.Context, t *facts, keys []agent.RememberKey) ([]agent.Remembered, error) {
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

// sessionsOfAttempts are the sessions whose decisions a turn goes by, the latest attempt's first. A job without a session has one that is
// named after its turn: job-<id>, and job-<id>-r<n> for retry n.
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

// approvalsUnavailable decides about gated calls while the store of approvals does not answer. It returns cause when they wait: then the step
// is tried again. A call that a policy asks for by name never runs unasked.
func (r *modelRun) approvalsUnavailable(ctx context.Context, verdicts []agent.CallVerdict, cause error) error {
	if !agent.CodeOf(cause).Retryable() || ctx.Err() != nil || errors.Is(cause, errCancelled) {
		return cause
	}
	for _, v := range verdicts {
		if v.Gate == agent.GateApproval && (r.ts.OnUnavailable == "" || r.ts.OnUnavailable == agent.UnavailableWait ||
			r.ts.OnUnavailable == agent.UnavailableRun && v.Rule != ruleNotSafe) {
			return cause
		}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Gate != agent.GateApproval {
			continue
		}
		v.Gate, v.Rule = agent.GateDenied, "approvals cannot be reached at present: the call was not made"
		if r.ts.OnUnavailable == agent.UnavailableRun {
			v.Gate, v.Rule = agent.GateNone, "approvals cannot be reached: the call runs without one"
		}
		r.ts.log(ctx).Warn("approvals cannot be reached", zap.String("tool", v.Name), zap.String("call", string(v.ID)),
			zap.String("on_unavailable", string(r.ts.OnUnavailable)), zap.Error(cause))
	}
	return nil
}
