package jobs

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	takeGrace = 3 * time.Second // how much longer than it should Redis may take to say that there is no job
	beginTime = 5 * time.Second // to mark an attempt
)

// message is one that the bridge has taken, and what is known of it.
type message struct {
	raw     string
	job     job.Job
	bad     error // why it is no job; the rest is empty then
	earlier []int // attempts before this one that run or have completed, the latest first
	doubt   bool  // of the attempt right before this one nothing is known
}

// takeJobs takes jobs while there is room, until ctx ends; they live as long as working does.
func (s *session) takeJobs(ctx, working context.Context) {
	wait := patience(5 * time.Second)
	for s.slots.room(ctx) == nil {
		raw, ok, err := s.next(ctx, working)
		switch {
		case err != nil:
			s.suspect.Store(true)
			s.logger.Warn("no word from Redis", zap.Error(err))
			pause(ctx, wait.NextBackOff())
			continue
		case ok:
			s.metrics.taken.Inc()
			s.begin(ctx, working, raw)
		}
		wait.Reset()
	}
}

// next takes one job. It takes none without a lease, under which the others would look for it, and none before it knows all it has. Once
// begun it is not cut short, for then nobody would know what Redis did.
func (s *session) next(ctx, working context.Context) (raw string, ok bool, err error) {
	if s.sinceBeat() > s.cfg.Lease/2 {
		if err := s.beat(working); err != nil {
			return "", false, err
		}
	}
	if s.suspect.Load() {
		if err := s.recover(ctx, working); err != nil {
			return "", false, err
		}
	}
	bounded, cancel := context.WithTimeout(working, block+takeGrace)
	defer cancel()
	return s.queue.take(bounded)
}

// recover begins what Redis holds for this bridge without its knowledge: the answer to its taking was lost.
func (s *session) recover(ctx, working context.Context) error {
	s.suspect.Store(false)
	known := s.known() // before the list is read: what ends meanwhile is known too
	list, err := s.queue.held(working)
	if err != nil {
		return err
	}
	for _, raw := range list {
		if known[raw] > 0 {
			known[raw]--
			continue
		}
		s.logger.Info("a job was taken whose arrival was not heard of")
		s.metrics.taken.Inc()
		s.begin(ctx, working, raw)
	}
	return nil
}

func (s *session) known() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.holds)
}

// begin works on a message in a goroutine of its own. What depends on the order in which messages were taken is done before: its attempt is
// marked, and it stands in its session's line. When ctx ends first, the message stays where it is, and is given back.
func (s *session) begin(ctx, working context.Context, raw string) {
	m := message{raw: raw}
	m.job, m.bad = job.Parse([]byte(raw))
	if m.bad == nil {
		if over, err := s.mark(ctx, working, &m); err != nil || over {
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
			if ctx.Err() != nil { // whoever leaves starts nothing
				return
			}
			p.run(true)
		}
		if err := s.work(working, &m, p); err != nil && working.Err() == nil {
			s.logger.Error("job", zap.Error(err))
		}
	})
}

// mark marks the message's attempt as running, and learns of those before it. over says that it has ended already, and the message is gone.
func (s *session) mark(ctx, working context.Context, m *message) (over bool, err error) {
	err = s.insist(ctx, "begin job", &m.job, func() error {
		bounded, cancel := context.WithTimeout(working, beginTime)
		defer cancel()
		var err error
		m.earlier, m.doubt, over, err = s.queue.begin(bounded, m.raw, &m.job)
		return err
	})
	if over {
		s.metrics.duplicates.Inc()
		s.logger.Info("job has its result already", zap.String("job_id", m.job.JobID), zap.Int("retry_count", m.job.RetryCount))
	}
	return over, err
}
