package jobs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// giveBackTime bounds the time to give jobs back after the drain.
const giveBackTime = 2 * time.Second

// Bridge is the channel of jobs.
type Bridge struct {
	cfg     Config
	metrics *metrics
}

var _ agent.Channel = (*Bridge)(nil)

// New returns a bridge that connects when it serves. Its error names the setting.
func New(cfg Config) (*Bridge, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := connect(cfg.URL, cfg.Redis)
	if err != nil {
		return nil, err
	}
	if err := client.Close(); err != nil { // it only checked the settings
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Bridge{cfg: cfg, metrics: m}, nil
}

// Serve processes jobs until ctx ends. Then it takes no more jobs, waits for the running ones up to the drain time, gives back the rest, and
// returns nil. While Redis is unavailable, it waits.
func (b *Bridge) Serve(ctx context.Context, in agent.Inbox) error {
	client, err := connect(b.cfg.URL, b.cfg.Redis)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	s := &session{
		cfg: &b.cfg, metrics: b.metrics, inbox: in, logger: b.cfg.Logger.With(zap.String("bridge", id)),
		queue: &queue{
			client: client, bridge: id, name: b.cfg.Queue, results: b.cfg.ResultPrefix, resultTTL: b.cfg.ResultTTL, lease: b.cfg.Lease,
		},
		slots: newSlots(b.cfg.Concurrency, b.cfg.MaxHeld, maxHeldBytes), lines: newLines(), holds: map[string]int{}, start: time.Now(),
	}
	s.serve(ctx)
	return client.Close()
}

// session is one run of a bridge, with an id of its own.
type session struct {
	cfg     *Config
	metrics *metrics
	inbox   agent.Inbox
	logger  *zap.Logger
	queue   *queue
	slots   *slots
	lines   *lines

	jobs          sync.WaitGroup
	start         time.Time
	renewedAt     atomic.Int64 // when the lease was last renewed, since start; 0: never
	needsRecovery atomic.Bool  // an answer was lost: Redis may hold jobs for us that we have not started

	mu    sync.Mutex
	holds map[string]int // how often each message is in progress
}

func (s *session) serve(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		s.keepLease(working)
	}()
	s.logger.Info("taking jobs", zap.String("queue", s.cfg.Queue))

	var taking sync.WaitGroup
	taking.Go(func() { s.takeJobs(ctx, working) })
	<-ctx.Done()
	draining, enough := context.WithTimeout(working, s.cfg.Drain)
	taking.Wait()
	s.slots.waitUntilIdle(draining)
	enough()
	stop()
	s.jobs.Wait()
	<-renewing
	s.giveBackJobs(context.WithoutCancel(ctx), giveBackTime)
}

// giveBackJobs returns the remaining jobs to the queue. Other bridges adopt those that it cannot return, after the lease.
func (s *session) giveBackJobs(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := backoff.Retry(ctx, func() (int, error) { return s.queue.giveBack(ctx, s.queue.bridge) }, backoff.WithBackOff(newBackoff(within/4)))
	s.metrics.returned.Add(float64(n))
	if err != nil {
		s.logger.Warn("jobs not given back: other bridges adopt them", zap.Error(err))
		return
	}
	s.logger.Info("bridge stopped", zap.Int("jobs_given_back", n))
}

// keepLease renews the lease and adopts jobs of dead bridges, at once and then regularly until ctx ends.
func (s *session) keepLease(ctx context.Context) {
	every := time.NewTicker(s.cfg.Lease / 3)
	defer every.Stop()
	for {
		if err := s.renewLease(ctx); err == nil {
			s.adoptJobs(ctx)
		} else if ctx.Err() == nil {
			s.logger.Warn("lease not renewed", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (s *session) adoptJobs(ctx context.Context) {
	n, err := s.queue.adopt(ctx)
	if n > 0 {
		s.metrics.adopted.Add(float64(n))
		s.logger.Info("gave back jobs of dead bridges", zap.Int("jobs", n))
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("adopt jobs of dead bridges", zap.Error(err))
	}
}

func (s *session) renewLease(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, max(s.cfg.Lease/3, time.Second))
	defer cancel()
	if err := s.queue.renewLease(bounded); err != nil {
		s.needsRecovery.Store(true)
		return err
	}
	s.renewedAt.Store(int64(time.Since(s.start)))
	return nil
}

func (s *session) leaseAge() time.Duration {
	renewed := s.renewedAt.Load()
	if renewed == 0 {
		return s.cfg.Lease
	}
	return time.Since(s.start) - time.Duration(renewed)
}

// newBackoff returns pauses that grow from 100 ms to maxPause.
func newBackoff(maxPause time.Duration) *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = min(100*time.Millisecond, maxPause), maxPause
	return wait
}

// pause waits for d, and reports whether it did so before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
