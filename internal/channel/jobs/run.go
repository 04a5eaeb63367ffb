package jobs

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	submitTimeout     = 30 * time.Second
	maxWait           = 15 * time.Second // between two attempts at the inbox
	maxSubmitFailures = 10               // in a row, of a submission whose errors may be permanent
	maxFollowFailures = 100              // in a row, of following a turn that runs, which is worth more attempts
	maxQuiet          = 10 * time.Second // a turn without an event for this long waits for its session
	secondLookDelay   = time.Second / 4  // before the mark of the previous attempt is read again
)

// errStopping means that the bridge stops and the job stays in its list.
var errStopping = errors.New("the bridge stops")

// process ends a message with a published result or a dead letter. If ctx ends first, the message stays in the processing list.
func (s *server) process(ctx context.Context, m *message, slot *jobSlot) error {
	if m.parseErr != nil {
		id, _ := job.JobIDOf([]byte(m.raw))
		return s.addDeadLetter(ctx, m.raw, id, m.parseErr, slot)
	}
	if m.previousUnmarked && pause(ctx, secondLookDelay) { // another bridge may have taken the previous attempt but not marked it yet
		if isAnswered, err := s.markRunning(ctx, ctx, m); err != nil || isAnswered {
			return err
		}
	}
	result, err := s.runJob(ctx, m, slot)
	if err != nil {
		return err
	}
	return s.publish(ctx, m, &result, slot)
}

// runJob runs the job and returns its result. If an earlier attempt completes, it returns that attempt's result instead.
func (s *server) runJob(ctx context.Context, m *message, slot *jobSlot) (job.Result, error) {
	j, requests := &m.job, &approvalRequests{message: m}
	for _, n := range m.earlier {
		attempt := *j
		attempt.RetryCount = n
		end, err := s.runTurn(ctx, &attempt, slot, requests)
		if err != nil && ctx.Err() != nil {
			return job.Result{}, err
		}
		if err != nil || end.Result.Status != agent.TurnCompleted {
			continue
		}
		if r := s.resultOf(ctx, j, end); r.Status == job.StatusCompleted {
			return r, nil
		}
	}
	end, err := s.runTurn(ctx, j, slot, requests)
	switch {
	case err == nil:
		r := s.resultOf(ctx, j, end)
		if r.Error != nil && r.Error.Type == string(agent.StopApprovalRequired) { // an approval of this turn, or of one that it waited for
			r.Approvals = requests.asked
		}
		return r, nil
	case ctx.Err() != nil:
		return job.Result{}, err
	default:
		s.logger.Warn("job refused", zap.String("job_id", j.JobID), zap.Error(err))
		return job.Failed(j.JobID, err, isRetryable(err), time.Now()), nil
	}
}

// runTurn submits the job, follows its turn, and returns the last event, which has the result. An error before ctx has ended means that the job was not
// accepted as a turn, or that the turn cannot be followed.
func (s *server) runTurn(ctx context.Context, j *job.Job, slot *jobSlot, requests *approvalRequests) (*agent.Event, error) {
	envelope := j.Envelope(s.cfg.Tenant)
	envelope.Request.Approvals = s.cfg.Approvals
	requests.asked = nil
	wait := newBackoff(maxWait)
	after := int64(0)
	var receipt agent.Receipt
	for failures := 0; ; {
		var end *agent.Event
		before := after
		err := s.submit(ctx, envelope, &receipt)
		if err == nil {
			end, err = s.follow(ctx, receipt.TurnID, &after, slot, requests)
		}
		switch {
		case end != nil:
			return end, nil
		case ctx.Err() != nil:
			return nil, errStopping
		}
		if after > before {
			failures = 0
			wait.Reset()
		}
		if !isRetryable(err) {
			return nil, err
		}
		if mayBePermanent(err) {
			limit := maxSubmitFailures
			if receipt.TurnID != "" {
				limit = maxFollowFailures
			}
			if failures++; failures >= limit {
				return nil, err
			}
		}
		s.logger.Warn("job is retried", zap.String("job_id", j.JobID), zap.Error(err))
		isSessionFull := j.Context.SessionID != "" && agent.CodeOf(err) == agent.CodeRateLimited
		if isSessionFull { // the job waits without a slot, as it would behind others of its session
			slot.setRunning(false)
		}
		pause(ctx, max(wait.NextBackOff(), retryAfter(err)))
		if isSessionFull {
			slot.setRunning(true)
		}
	}
}

// submit submits the job and sets receipt. It does nothing if receipt was set by an earlier call.
func (s *server) submit(ctx context.Context, e agent.Envelope, receipt *agent.Receipt) error {
	if receipt.TurnID != "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, submitTimeout)
	defer cancel()
	r, err := s.inbox.Submit(bounded, e)
	if err != nil {
		if interrupted := agent.Interrupted(bounded, "submit job"); interrupted != nil {
			return interrupted
		}
		return err
	}
	*receipt = r
	return nil
}

// follow reads a turn's events and returns the last one. Meanwhile it tracks whether the turn runs and which approvals it asks for. after is the index
// of the last event that was read; follow advances it.
func (s *server) follow(ctx context.Context, id agent.TurnID, after *int64, slot *jobSlot, requests *approvalRequests) (*agent.Event, error) {
	slot.setRunning(true)
	quiet := time.AfterFunc(maxQuiet, func() { slot.setRunning(false) })
	defer quiet.Stop()
	for e, err := range s.inbox.Follow(ctx, id, *after) {
		if err != nil {
			return nil, err
		}
		quiet.Stop()
		*after = e.Meta.EventIndex
		if e.Terminal() {
			if e.Result == nil {
				return nil, agent.Errorf(agent.CodeNotFound, "follow turn", "turn %s ended without a result", id)
			}
			return &e, nil
		}
		switch e.Type { //nolint:exhaustive // other events do not change whether the turn waits
		case agent.EventApprovalRequested:
			requests.add(e.Approval, id, s.cfg.Approvals)
		case agent.EventStatus:
			slot.setRunning(e.Status == agent.StatusRunning)
			if e.Reason == awaitingApproval {
				if err := s.publishWaiting(ctx, requests); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", id)
}

// isRetryable reports whether a retry may help.
func isRetryable(err error) bool {
	if errors.Is(err, agent.ErrGap) {
		return false
	}
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeInternal, agent.CodeCancelled:
		return true
	default:
		return false
	}
}

// mayBePermanent reports whether a retryable error is retried only a limited number of times.
func mayBePermanent(err error) bool {
	code := agent.CodeOf(err)
	return code == agent.CodeInternal || code == agent.CodeCancelled
}

// retryAfter returns the pause that err asks for, at most maxWait, or 0.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return min(e.RetryAfter, maxWait)
	}
	return 0
}
