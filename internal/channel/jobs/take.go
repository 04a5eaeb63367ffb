package jobs

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	takeGrace    = 3 * time.Second // added to the timeout of a pop
	beginTimeout = 5 * time.Second // of marking an attempt
)

// message is a message that the bridge has taken.
type message struct {
	raw              string
	job              job.Job
	parseErr         error // not nil if the message is not a job
	earlier          []int // retry counts of earlier attempts that run or have completed, the latest first
	hadEnded         bool  // whether the attempt had ended when it was marked; then its result is published again
	previousUnmarked bool  // whether the previous attempt has no mark
}

// takeJobs takes jobs while there is room, until ctx ends. The jobs run until working ends.
func (s *server) takeJobs(ctx, working context.Context) {
	wait := newBackoff(5 * time.Second)
	for s.slots.waitForRoom(ctx) == nil {
		raw, ok, err := s.takeNext(ctx, working)
		if err != nil {
			s.needsRecovery.Store(true)
			s.logger.Warn("take job", zap.Error(err))
			pause(ctx, wait.NextBackOff())
			continue
		}
		if ok {
			s.metrics.taken.Inc()
			s.startMessage(ctx, working, raw)
		}
		wait.Reset()
	}
}

// takeNext takes one job. Before that it renews an old lease, so that other bridges can find the job if this one dies, and starts jobs that an
// earlier take has moved without a reply. The end of ctx does not interrupt it, because then it would be unknown whether Redis has moved a job.
func (s *server) takeNext(ctx, working context.Context) (raw string, ok bool, err error) {
	if s.leaseAge() > s.cfg.Lease/2 {
		if err := s.renewLease(working); err != nil {
			return "", false, err
		}
	}
	if s.needsRecovery.Load() {
		if err := s.startUnstarted(ctx, working); err != nil {
			return "", false, err
		}
	}
	bounded, cancel := context.WithTimeout(working, popTimeout+takeGrace)
	defer cancel()
	return s.queue.take(bounded)
}

// startUnstarted starts the jobs that are in the processing list but were not started, because Redis's reply was lost.
func (s *server) startUnstarted(ctx, working context.Context) error {
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

func (s *server) heldMessages() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// addHeld counts a message as in progress (1) or no longer (-1).
func (s *server) addHeld(raw string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[raw] += n; s.held[raw] == 0 {
		delete(s.held, raw)
	}
}

// startMessage processes a message in a new goroutine. Before that it marks the attempt and joins the queue of its session, both of which must happen
// in the order of arrival. If ctx ends first, the message stays in Redis and is given back.
func (s *server) startMessage(ctx, working context.Context, raw string) {
	m := message{raw: raw}
	m.job, m.parseErr = job.Parse([]byte(raw))
	if m.parseErr == nil {
		if isAnswered, err := s.markRunning(ctx, working, &m); err != nil || isAnswered {
			return
		}
	}
	ready, leaveSession := s.sessions.join(m.job.Context.SessionID)
	s.addHeld(raw, 1)
	slot := s.slots.acquire(len(raw), ready == nil)
	s.metrics.inFlight.Inc()
	s.jobs.Go(func() {
		defer func() {
			s.addHeld(raw, -1)
			slot.release()
			leaveSession()
			s.metrics.inFlight.Dec()
		}()
		if ready != nil {
			select {
			case <-ready:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // a bridge that stops starts nothing
				return
			}
			slot.setRunning(true)
		}
		if err := s.process(working, &m, slot); err != nil && working.Err() == nil {
			s.logger.Error("process job", zap.Error(err))
		}
	})
}

// markRunning marks the message's attempt and sets m's fields about it, with retries until ctx ends. isAnswered is as for [queue.begin].
func (s *server) markRunning(ctx, working context.Context, m *message) (isAnswered bool, err error) {
	err = s.retry(ctx, "begin job", m.job.JobID, func() (err error) {
		bounded, cancel := context.WithTimeout(working, beginTimeout)
		defer cancel()
		isAnswered, err = s.queue.begin(bounded, m)
		return err
	})
	if isAnswered {
		s.metrics.duplicates.Inc()
		s.logger.Info("job has its result already", zap.String("job_id", m.job.JobID), zap.Int("retry_count", m.job.RetryCount))
	}
	return isAnswered, err
}
