package jobs

import (
	"cmp"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	metadataTimeout = 30 * time.Second // of reading the metadata of a result
	maxOccupiedWait = time.Minute      // between two attempts to add a dead letter when that key is not a list
)

// resultOf returns the result of a turn from its last event. If the metadata cannot be read within a while, the result has none.
func (s *server) resultOf(ctx context.Context, j *job.Job, end *agent.Event) job.Result {
	var meta agent.ResultMetadata
	if s.cfg.Results != nil {
		var err error
		meta, err = backoff.Retry(ctx, func() (agent.ResultMetadata, error) {
			m, err := s.cfg.Results.ResultMetadata(ctx, cmp.Or(s.cfg.Tenant, agent.DefaultTenant), end.Result.TurnID)
			if err != nil && !isRetryable(err) {
				return m, backoff.Permanent(err)
			}
			return m, err
		}, backoff.WithBackOff(newBackoff(maxWait)), backoff.WithMaxElapsedTime(metadataTimeout))
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			s.logger.Warn("result without metadata", zap.String("job_id", j.JobID), zap.Error(err))
		}
	}
	return job.ResultOf(j, end.Result, meta, end.Meta.Time)
}

// publish sends the result to the producer, which ends the job.
func (s *server) publish(ctx context.Context, m *message, r *job.Result, slot *jobSlot) error {
	raw, err := r.Encode()
	if err != nil {
		failed := job.Failed(m.job.JobID, err, false, time.Now())
		if raw, err = failed.Encode(); err != nil {
			return err
		}
		r = &failed
	}
	var outcome string
	err = s.retry(ctx, "publish result", m.job.JobID, func() (err error) {
		outcome, err = s.queue.publish(ctx, m, r.Status, raw)
		return err
	})
	if err != nil {
		return err
	}
	switch outcome {
	case outcomePublished:
		s.metrics.published.WithLabelValues(string(r.Status)).Inc()
	case outcomeDuplicate:
		s.metrics.duplicates.Inc()
	case outcomeOccupied:
		return s.addDeadLetter(ctx, m.raw, "", agent.Invalid("job_id", "the key of its results is not a list"), slot)
	case outcomeGone:
		s.logger.Info("another bridge has the job", zap.String("job_id", m.job.JobID))
	}
	return nil
}

// addDeadLetter moves a message to the dead letters and sends a failed result to its producer, if jobID is not empty. If the key of the dead letters is
// not a list, it sends the result once and then waits without a slot until the key is free.
func (s *server) addDeadLetter(ctx context.Context, raw, jobID string, cause error, slot *jobSlot) error {
	failure := agent.FailureOf(cause)
	letter := deadLetter{Reason: failure.Message, Field: failure.Field, JobID: jobID, At: time.Now().UTC()}
	var result *job.Result
	if jobID != "" {
		failed := job.Failed(jobID, cause, false, letter.At)
		result = &failed
	}
	for wait := newBackoff(maxOccupiedWait); ; {
		var outcome string
		err := s.retry(ctx, "add dead letter", jobID, func() (err error) {
			outcome, err = s.queue.addDeadLetter(ctx, raw, letter, result)
			return err
		})
		switch {
		case err != nil:
			return err
		case outcome == outcomePublished:
			s.metrics.dead.Inc()
			s.logger.Warn("message moved to the dead letters", zap.String("job_id", jobID), zap.Error(cause))
			return nil
		case outcome == outcomeGone:
			return nil
		}
		s.logger.Error("the key of the dead letters is not a list: the message stays in the bridge's list", zap.String("key", s.queue.dead()),
			zap.String("job_id", jobID), zap.NamedError("reason", cause))
		result = nil // it was sent
		slot.setRunning(false)
		if !pause(ctx, wait.NextBackOff()) {
			return errStopping
		}
	}
}

// retry calls do, which uses Redis, until it succeeds or ctx ends.
func (s *server) retry(ctx context.Context, what, jobID string, do func() error) error {
	wait := newBackoff(5 * time.Second)
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errStopping
		}
		s.logger.Warn(what, zap.String("job_id", jobID), zap.Error(err))
		pause(ctx, wait.NextBackOff())
	}
}
