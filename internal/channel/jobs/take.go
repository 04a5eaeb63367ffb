package jobs

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	takeGrace = 3 * time.Second // added to the timeout of a pop
	beginTime = 5 * time.Second // to mark an attempt
)

// message is a message that the bridge has taken.
type message struct {
	raw      string
	job      job.Job
	parseErr error // not nil if the message is no job
	earlier  []int // attempts before this one that run or have completed, the latest first
	hadEnded bool  // the attempt had ended before: its result is published again
	unsure   bool  // the attempt right before this one has no mark
}

// takeJobs takes jobs while there is room, until ctx ends. The jobs run until working ends.
func (s *session) takeJobs(ctx, working context.Context) {
	wait := newBackoff(5 * time.Second)
	for s.slots.waitForRoom(ctx) == nil {
		raw, ok, err := s.takeNext(ctx, working)
		switch {
		case err != nil:
			s.needsRecovery.Store(true)
			s.logger.Warn("take job", zap.Error(err))
			pause(ctx, wait.NextBackOff())
			continue
		case ok:
			s.metrics.taken.Inc()
			s.startMessage(ctx, working, raw)
		}
		wait.Reset()
	}
}

// takeNext takes one job. It first renews an old lease, so that other bridges can find the job, and starts jobs whose arrival was lost. The end
// of ctx does not interrupt it, because then the outcome in Redis would be unknown.
func (s *session) takeNext(ctx, working context.Context) (raw string, ok bool, err error) {
	if s.leaseAge() > s.cfg.Lease/2 {
		if err := s.renewLease(working); err != nil {
			return "", false, err
		}
	}
	if s.needsRecovery.Load() {
		if err := s.startLost(ctx, working); err != nil {
			return "", false, err
		}
	}
	bounded, cancel := context.WithTimeout(working, popTimeout+takeGrace)
	defer cancel()
	return s.queue.take(bounded)
}

// startLost starts the jobs that Redis moved to this bridge although the answer was lost.
func (s *session) startLost(ctx, working context.Context) error {
	s.needsRecovery.Store(false)
	started := s.heldMessages() // before the list is read, so that jobs that end meanwhile count as started
	list, err := s.queue.held(working)
	if err != nil {
		return err
	}
	for _, raw := range list {
		if started[raw] > 0 {
			started[raw]--
			continue
		}
		s.logger.Info("starting a job whose arrival was lost")
		s.metrics.taken.Inc()
		s.startMessage(ctx, working, raw)
	}
	return nil
}

func (s *session) heldMessages() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.holds)
}

// startMessage processes a message in a new goroutine. Before that it marks the attempt and joins the session's line, which must happen in the
// order of arrival. When ctx ends first, the message stays in Redis and is given back.
func (s *session) startMessage(ctx, working context.Context, raw string) {
	m := message{raw: raw}
	m.job, m.parseErr = job.Parse([]byte(raw))
	if m.parseErr == nil {
		if over, err := s.markRunning(ctx, working, &m); err != nil || over {
			return
		}
	}
	before, leave := s.lines.join(m.job.Context.SessionID)
	s.mu.Lock()
	s.holds[raw]++
	s.mu.Unlock()
	p := s.slots.enter(len(raw), before == nil)
	s.metrics.inFlight.Inc()
	s.jobs.Go(func() {
		defer func() {
			s.mu.Lock()
			if s.holds[raw]--; s.holds[raw] == 0 {
				delete(s.holds, raw)
			}
			s.mu.Unlock()
			p.leave()
			leave()
			s.metrics.inFlight.Dec()
		}()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // a bridge that stops starts nothing
				return
			}
			p.setRunning(true)
		}
		if err := s.process(working, &m, p); err != nil && working.Err() == nil {
			s.logger.Error("process job", zap.Error(err))
		}
	})
}

// markRunning marks the message's attempt and reads the earlier ones. over means that the attempt has ended, its result waits to be taken, and the
// message was dropped.
func (s *session) markRunning(ctx, working context.Context, m *message) (over bool, err error) {
	err = s.retry(ctx, "begin job", &m.job, func() (err error) {
		bounded, cancel := context.WithTimeout(working, beginTime)
		defer cancel()
		over, err = s.queue.begin(bounded, m)
		return err
	})
	if over {
		s.metrics.duplicates.Inc()
		s.logger.Info("job has its result already", zap.String("job_id", m.job.JobID), zap.Int("retry_count", m.job.RetryCount))
	}
	return over, err
}
