package jobs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	submitTime   = 30 * time.Second // of one submission
	metadataTime = 30 * time.Second // to read the metadata of a result
	maxWait      = 15 * time.Second // between two attempts at the inbox
	maxRefusals  = 10               // of a job in a row, with errors that may be permanent
	maxBreaks    = 100              // likewise while following a running turn, which is worth more tries
	quiet        = 10 * time.Second // a turn without an event for so long waits for its session
	secondLook   = time.Second / 4  // at the attempt before a retry
	maxBlocked   = time.Minute      // between two attempts at a key of dead letters that holds no list
)

// errStopping means that the bridge stops and the job stays in its list.
var errStopping = errors.New("the bridge stops")

// process ends a message with a published result or a dead letter. When ctx ends first, the message stays.
func (s *session) process(ctx context.Context, m *message, p *place) error {
	if m.parseErr != nil {
		id, _ := job.JobIDOf([]byte(m.raw))
		return s.addDeadLetter(ctx, m.raw, id, m.parseErr, p)
	}
	if m.unsure && pause(ctx, secondLook) { // another bridge may have taken that one and not marked it yet
		if over, err := s.markRunning(ctx, ctx, m); err != nil || over {
			return err
		}
	}
	result, err := s.answer(ctx, m, p)
	if err != nil {
		return err
	}
	return s.publish(ctx, m, &result, p)
}

// answer runs the job and returns its result. An earlier attempt that completes answers a retry.
func (s *session) answer(ctx context.Context, m *message, p *place) (job.Result, error) {
	j, requests := &m.job, &approvalRequests{message: m}
	for _, n := range m.earlier {
		before := *j
		before.RetryCount = n
		end, err := s.runTurn(ctx, &before, p, requests)
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
	end, err := s.runTurn(ctx, j, p, requests)
	switch {
	case err == nil:
		r := s.resultOf(ctx, j, end)
		if r.Error != nil && r.Error.Type == string(agent.StopApprovalRequired) { // of the turn, or of one that it waited for
			r.Approvals = requests.asked
		}
		return r, nil
	case ctx.Err() != nil:
		return job.Result{}, err
	default:
		s.logger.Warn("job refused", zap.String("job_id", j.JobID), zap.Error(err))
		return job.Failed(j.JobID, err, retryable(err), time.Now()), nil
	}
}

// runTurn submits the job, follows its turn to the end, and returns its last event, which has the result. An error while ctx lives means that
// there is no turn, or that it cannot be followed.
func (s *session) runTurn(ctx context.Context, j *job.Job, p *place, requests *approvalRequests) (*agent.Event, error) {
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
			end, err = s.follow(ctx, receipt.TurnID, &after, p, requests)
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
		if !retryable(err) {
			return nil, err
		}
		if code := agent.CodeOf(err); code == agent.CodeInternal || code == agent.CodeCancelled { // errors that may be permanent
			limit := maxRefusals
			if receipt.TurnID != "" {
				limit = maxBreaks
			}
			if failures++; failures >= limit {
				return nil, err
			}
		}
		s.logger.Warn("job is retried", zap.String("job_id", j.JobID), zap.Error(err))
		full := j.Context.SessionID != "" && agent.CodeOf(err) == agent.CodeRateLimited // its session has all the turns it can queue
		if full {
			p.setRunning(false)
		}
		pause(ctx, max(wait.NextBackOff(), retryAfter(err)))
		if full {
			p.setRunning(true)
		}
	}
}

// submit submits the job, unless receipt is that of an earlier call.
func (s *session) submit(ctx context.Context, e agent.Envelope, receipt *agent.Receipt) error {
	if receipt.TurnID != "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	r, err := s.inbox.Submit(bounded, e)
	if err != nil {
		if late := agent.Interrupted(bounded, "submit job"); late != nil {
			return late
		}
		return err
	}
	*receipt = r
	return nil
}

// follow reads a turn's events to the last and returns that one. Meanwhile it tracks whether the turn runs and which approvals it asks for. after
// is the index of the last event that was read.
func (s *session) follow(ctx context.Context, id agent.TurnID, after *int64, p *place, requests *approvalRequests) (*agent.Event, error) {
	p.setRunning(true)
	silent := time.AfterFunc(quiet, func() { p.setRunning(false) })
	defer silent.Stop()
	for e, err := range s.inbox.Follow(ctx, id, *after) {
		if err != nil {
			return nil, err
		}
		silent.Stop()
		*after = e.Meta.EventIndex
		if e.Terminal() {
			if e.Result == nil {
				return nil, agent.Errorf(agent.CodeNotFound, "follow turn", "turn %s ended without a result", id)
			}
			return &e, nil
		}
		switch e.Type { //nolint:exhaustive // the others do not concern waiting
		case agent.EventApprovalRequested:
			requests.add(e.Approval, id, s.cfg.Approvals)
		case agent.EventStatus:
			p.setRunning(e.Status == agent.StatusRunning)
			if e.Reason == awaitingApproval {
				if err := s.publishWaiting(ctx, requests); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", id)
}

// retryable reports whether a retry may help.
func retryable(err error) bool {
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

// retryAfter returns the pause that the other side asked for, at most maxWait.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return min(e.RetryAfter, maxWait)
	}
	return 0
}

// resultOf returns the result of a turn by its last event. It retries reading the metadata for a while, then goes on without.
func (s *session) resultOf(ctx context.Context, j *job.Job, end *agent.Event) job.Result {
	var meta agent.ResultMetadata
	if s.cfg.Results != nil {
		var err error
		meta, err = backoff.Retry(ctx, func() (agent.ResultMetadata, error) {
			m, err := s.cfg.Results.ResultMetadata(ctx, cmp.Or(s.cfg.Tenant, agent.DefaultTenant), end.Result.TurnID)
			if err != nil && !retryable(err) {
				return m, backoff.Permanent(err)
			}
			return m, err
		}, backoff.WithBackOff(newBackoff(maxWait)), backoff.WithMaxElapsedTime(metadataTime))
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			s.logger.Warn("result without metadata", zap.String("job_id", j.JobID), zap.Error(err))
		}
	}
	return job.ResultOf(j, end.Result, meta, end.Meta.Time)
}

// publish sends the result to the producer, which ends the job.
func (s *session) publish(ctx context.Context, m *message, r *job.Result, p *place) error {
	message, err := r.Encode()
	if err != nil {
		failed := job.Failed(m.job.JobID, err, false, time.Now())
		if message, err = failed.Encode(); err != nil {
			return err
		}
		r = &failed
	}
	var outcome string
	err = s.retry(ctx, "publish result", &m.job, func() (err error) {
		outcome, err = s.queue.publish(ctx, m, r.Status, message)
		return err
	})
	if err != nil {
		return err
	}
	switch outcome {
	case published:
		s.metrics.published.WithLabelValues(string(r.Status)).Inc()
	case duplicate:
		s.metrics.duplicates.Inc()
	case occupied:
		return s.addDeadLetter(ctx, m.raw, "", agent.Invalid("job_id", "the key of its results holds no list"), p)
	case gone:
		s.logger.Info("another bridge has the job", zap.String("job_id", m.job.JobID))
	}
	return nil
}

// addDeadLetter moves a message to the dead letters, and tells its producer if the message has a job id. If the key of the dead letters holds no
// list, the producer is told once, and the message stays with the bridge, without a place, until the key is free.
func (s *session) addDeadLetter(ctx context.Context, raw, jobID string, cause error, p *place) error {
	f := agent.FailureOf(cause)
	l := deadLetter{Reason: f.Message, Field: f.Field, JobID: jobID, At: time.Now().UTC()}
	var r *job.Result
	if jobID != "" {
		failed := job.Failed(jobID, cause, false, l.At)
		r = &failed
	}
	for wait := newBackoff(maxBlocked); ; {
		var outcome string
		err := s.retry(ctx, "bury message", &job.Job{JobID: jobID}, func() (err error) {
			outcome, err = s.queue.addDeadLetter(ctx, raw, l, r)
			return err
		})
		switch {
		case err != nil:
			return err
		case outcome == buried:
			s.metrics.dead.Inc()
			s.logger.Warn("message is no job", zap.String("job_id", jobID), zap.Error(cause))
			return nil
		case outcome == gone:
			return nil
		}
		s.logger.Error("the key of the dead letters holds no list: the message is kept", zap.String("key", s.queue.dead()),
			zap.String("job_id", jobID), zap.NamedError("reason", cause))
		r = nil
		p.setRunning(false)
		if !pause(ctx, wait.NextBackOff()) {
			return errStopping
		}
	}
}

// retry calls do, which uses Redis, until it succeeds or ctx ends.
func (s *session) retry(ctx context.Context, what string, j *job.Job, do func() error) error {
	wait := newBackoff(5 * time.Second)
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errStopping
		}
		s.logger.Warn(what, zap.String("job_id", j.JobID), zap.Error(err))
		pause(ctx, wait.NextBackOff())
	}
}
