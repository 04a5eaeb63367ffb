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
	metadataTime = 30 * time.Second // to read what a result says besides its output
	maxWait      = 15 * time.Second // between two attempts at the inbox
	maxRefusals  = 10               // to submit, in a row, of a kind that waiting may not mend
	maxBreaks    = 100              // likewise, to follow a turn that runs: to give up on one costs more
	quiet        = 10 * time.Second // a turn that has said nothing yet waits for its session
	secondLook   = time.Second / 4  // for the attempt before a retry
	maxBlocked   = time.Minute      // between two attempts at a list of dead letters that is none
)

// errLeaving says that the bridge leaves, and the job stays in its list.
var errLeaving = errors.New("the bridge leaves")

// work brings one message to its end: a published result, a dead letter, or, when ctx ends, nothing yet.
func (s *session) work(ctx context.Context, m *message, p *place) error {
	if m.bad != nil {
		id, _ := job.JobIDOf([]byte(m.raw))
		return s.bury(ctx, m.raw, id, m.bad, p)
	}
	if m.doubt && pause(ctx, secondLook) { // another bridge may have taken it and not marked it yet
		if over, err := s.mark(ctx, ctx, m); err != nil || over {
			return err
		}
	}
	result, err := s.answer(ctx, m, p)
	if err != nil {
		return err
	}
	return s.publish(ctx, m.raw, &m.job, &result, p)
}

// answer runs the job. An earlier attempt that completes answers a retry.
func (s *session) answer(ctx context.Context, m *message, p *place) (job.Result, error) {
	j, paused := &m.job, &pauses{message: m}
	for _, n := range m.earlier {
		before := *j
		before.RetryCount = n
		out, err := s.turn(ctx, &before, p, paused)
		if err != nil && ctx.Err() != nil {
			return job.Result{}, err
		}
		if err != nil || out.Status != agent.TurnCompleted {
			continue
		}
		if r := s.resultOf(ctx, j, out); r.Status == job.StatusCompleted {
			return r, nil
		}
	}
	out, err := s.turn(ctx, j, p, paused)
	switch {
	case err == nil:
		r := s.resultOf(ctx, j, out)
		if r.Error != nil && r.Error.Type == string(agent.StopApprovalRequired) { // of the turn, or of one that it waited for
			r.Approvals = paused.asked
		}
		return r, nil
	case ctx.Err() != nil:
		return job.Result{}, err
	default:
		s.logger.Warn("job refused", zap.String("job_id", j.JobID), zap.Error(err))
		return job.Failed(j.JobID, err, retryable(err), time.Now()), nil
	}
}

// turn submits the job and follows its turn to the end. An error, while ctx lives, says that there is no turn, or none that can be followed.
func (s *session) turn(ctx context.Context, j *job.Job, p *place, paused *pauses) (*agent.AgentStepOutput, error) {
	envelope := j.Envelope(s.cfg.Tenant)
	envelope.Request.Approvals = s.cfg.Approvals
	paused.asked = nil
	wait := patience(maxWait)
	after := int64(0)
	var receipt agent.Receipt
	for failures := 0; ; {
		var out *agent.AgentStepOutput
		before := after
		err := s.submit(ctx, envelope, &receipt)
		if err == nil {
			out, err = s.follow(ctx, receipt.TurnID, &after, p, paused)
		}
		switch {
		case out != nil:
			return out, nil
		case ctx.Err() != nil:
			return nil, errLeaving
		}
		if after > before {
			failures = 0
			wait.Reset()
		}
		if !retryable(err) {
			return nil, err
		}
		if code := agent.CodeOf(err); code == agent.CodeInternal || code == agent.CodeCancelled { // of which nobody knows whether it will pass
			most := maxRefusals
			if receipt.TurnID != "" {
				most = maxBreaks
			}
			if failures++; failures >= most {
				return nil, err
			}
		}
		s.logger.Warn("job waits", zap.String("job_id", j.JobID), zap.Error(err))
		full := j.Context.SessionID != "" && agent.CodeOf(err) == agent.CodeRateLimited // its session has all the turns it can queue
		if full {
			p.run(false)
		}
		pause(ctx, max(wait.NextBackOff(), asked(err)))
		if full {
			p.run(true)
		}
	}
}

// submit submits the job, unless it has been already.
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

// follow reads a turn's events until the last and says meanwhile whether the turn runs, and
// which approvals it asks for. after is how far it has read.
func (s *session) follow(ctx context.Context, id agent.TurnID, after *int64, p *place, paused *pauses) (*agent.AgentStepOutput, error) {
	p.run(true)
	silent := time.AfterFunc(quiet, func() { p.run(false) })
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
			return e.Result, nil
		}
		switch e.Type { //nolint:exhaustive // the others say nothing of waiting
		case agent.EventApprovalRequested:
			paused.add(e.Approval, id, s.cfg.Approvals)
		case agent.EventStatus:
			p.run(e.Status == agent.StatusRunning)
			if e.Reason == awaitingApproval {
				if err := s.publishWaiting(ctx, paused); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", id)
}

// retryable reports whether the same again may go well.
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

// asked is how long the other side asked to wait, within reason.
func asked(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return min(e.RetryAfter, maxWait)
	}
	return 0
}

// resultOf makes the result of a turn that has ended. What is known besides its output is worth a while of waiting, and not more.
func (s *session) resultOf(ctx context.Context, j *job.Job, out *agent.AgentStepOutput) job.Result {
	var meta agent.ResultMetadata
	if s.cfg.Results != nil {
		var err error
		meta, err = backoff.Retry(ctx, func() (agent.ResultMetadata, error) {
			m, err := s.cfg.Results.ResultMetadata(ctx, cmp.Or(s.cfg.Tenant, agent.DefaultTenant), out.TurnID)
			if err != nil && !retryable(err) {
				return m, backoff.Permanent(err)
			}
			return m, err
		}, backoff.WithBackOff(patience(maxWait)), backoff.WithMaxElapsedTime(metadataTime))
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			s.logger.Warn("result without metadata", zap.String("job_id", j.JobID), zap.Error(err))
		}
	}
	return job.ResultOf(j, out, meta, time.Now())
}

// publish hands the result to the producer, and so ends the job.
func (s *session) publish(ctx context.Context, raw string, j *job.Job, r *job.Result, p *place) error {
	message, err := r.Encode()
	if err != nil {
		failed := job.Failed(j.JobID, err, false, time.Now())
		if message, err = failed.Encode(); err != nil {
			return err
		}
		r = &failed
	}
	var how string
	err = s.insist(ctx, "publish result", j, func() (err error) {
		how, err = s.queue.publish(ctx, raw, j, r.Status, message)
		return err
	})
	if err != nil {
		return err
	}
	switch how {
	case published:
		s.metrics.published.WithLabelValues(string(r.Status)).Inc()
	case duplicate:
		s.metrics.duplicates.Inc()
	case occupied:
		return s.bury(ctx, raw, "", agent.Invalid("job_id", "the key of its results holds no list"), p)
	case gone:
		s.logger.Info("another bridge has the job", zap.String("job_id", j.JobID))
	}
	return nil
}

// bury puts a message among the dead, and tells its producer, where the message names one. Where the dead belong lies something else: the
// producer is told once, and the message stays the bridge's, without a place, until there is room for it.
func (s *session) bury(ctx context.Context, raw, jobID string, why error, p *place) error {
	f := agent.FailureOf(why)
	l := letter{Reason: f.Message, Field: f.Field, JobID: jobID, At: time.Now().UTC()}
	var r *job.Result
	if jobID != "" {
		failed := job.Failed(jobID, why, false, l.At)
		r = &failed
	}
	for wait := patience(maxBlocked); ; {
		var how string
		err := s.insist(ctx, "bury message", &job.Job{JobID: jobID}, func() (err error) {
			how, err = s.queue.bury(ctx, raw, l, r)
			return err
		})
		switch {
		case err != nil:
			return err
		case how == buried:
			s.metrics.dead.Inc()
			s.logger.Warn("message is no job", zap.String("job_id", jobID), zap.Error(why))
			return nil
		case how == gone:
			return nil
		}
		s.logger.Error("the key of the dead letters holds no list: the message is kept", zap.String("key", s.queue.dead()),
			zap.String("job_id", jobID), zap.NamedError("reason", why))
		r = nil
		p.run(false)
		if !pause(ctx, wait.NextBackOff()) {
			return errLeaving
		}
	}
}

// insist does something with Redis until it is done or ctx ends.
func (s *session) insist(ctx context.Context, what string, j *job.Job, do func() error) error {
	wait := patience(5 * time.Second)
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errLeaving
		}
		s.logger.Warn(what, zap.String("job_id", j.JobID), zap.Error(err))
		pause(ctx, wait.NextBackOff())
	}
}
