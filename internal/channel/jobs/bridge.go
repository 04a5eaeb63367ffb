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

// giveBackTimeout is how long giving jobs back after the drain may take.
const giveBackTimeout = 2 * time.Second

// Bridge is the channel that takes jobs from Redis and publishes their results there.
type Bridge struct {
	cfg     Config
	metrics *metrics
}

var _ agent.Channel = (*Bridge)(nil)

// New returns a bridge that connects to Redis in [Bridge.Serve]. An error names the invalid setting.
func New(cfg Config) (*Bridge, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := newClient(cfg.URL, cfg.Redis)
	if err != nil {
		return nil, err
	}
	if err := client.Close(); err != nil { // it was made only to check the settings
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Bridge{cfg: cfg, metrics: m}, nil
}

// Serve processes jobs until ctx ends. Then it takes no more jobs, waits up to the drain time for the running ones, gives the others back, and
// returns nil. While Redis is unavailable, it retries.
func (b *Bridge) Serve(ctx context.Context, in agent.Inbox) error {
	client, err := newClient(b.cfg.URL, b.cfg.Redis)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	s := &server{
		cfg: &b.cfg, metrics: b.metrics, inbox: in, logger: b.cfg.Logger.With(zap.String("bridge", id)),
		queue: &queue{
			redis: client, bridge: id, name: b.cfg.Queue, results: b.cfg.ResultPrefix, resultTTL: b.cfg.ResultTTL, lease: b.cfg.Lease,
		},
		slots: newSlots(b.cfg.Concurrency, b.cfg.MaxHeld, maxHeldBytes), sessions: newSessionQueues(), held: map[string]int{}, start: time.Now(),
	}
	s.serve(ctx)
	return client.Close()
}

// server is the state of one call of [Bridge.Serve]. Each has its own id.
type server struct {
	cfg      *Config
	metrics  *metrics
	inbox    agent.Inbox
	logger   *zap.Logger
	queue    *queue
	slots    *slots
	sessions *sessionQueues

	jobs          sync.WaitGroup
	start         time.Time
	renewedAt     atomic.Int64 // when the lease was last renewed, as nanoseconds since start; 0: never
	needsRecovery atomic.Bool  // whether the processing list may have jobs that were not started, because Redis's reply was lost

	mu   sync.Mutex
	held map[string]int // how often each message is in progress
}

func (s *server) serve(ctx context.Context) {
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
	draining, cancelDraining := context.WithTimeout(working, s.cfg.Drain)
	taking.Wait()
	s.slots.waitUntilIdle(draining)
	cancelDraining()
	stop()
	s.jobs.Wait()
	<-renewing
	s.giveBackJobs(context.WithoutCancel(ctx))
}

// giveBackJobs returns the remaining jobs to the queue. If it cannot, other bridges adopt them when the lease has expired.
func (s *server) giveBackJobs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	giveBack := func() (int, error) { return s.queue.giveBack(ctx, s.queue.bridge) }
	n, err := backoff.Retry(ctx, giveBack, backoff.WithBackOff(newBackoff(giveBackTimeout/4)))
	s.metrics.returned.Add(float64(n))
	if err != nil {
		s.logger.Warn("jobs not given back: other bridges adopt them", zap.Error(err))
		return
	}
	s.logger.Info("bridge stopped", zap.Int("jobs_given_back", n))
}

// keepLease renews the lease and adopts jobs of dead bridges, now and then regularly until ctx ends.
func (s *server) keepLease(ctx context.Context) {
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

// adoptJobs gives the jobs of dead bridges back to the queue.
func (s *server) adoptJobs(ctx context.Context) {
	n, err := s.queue.adopt(ctx)
	if n > 0 {
		s.metrics.adopted.Add(float64(n))
		s.logger.Info("gave back jobs of dead bridges", zap.Int("jobs", n))
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("adopt jobs of dead bridges", zap.Error(err))
	}
}

func (s *server) renewLease(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, max(s.cfg.Lease/3, time.Second))
	defer cancel()
	if err := s.queue.renewLease(bounded); err != nil {
		s.needsRecovery.Store(true)
		return err
	}
	s.renewedAt.Store(int64(time.Since(s.start)))
	return nil
}

// leaseAge returns the time since the lease was last renewed.
func (s *server) leaseAge() time.Duration {
	renewed := s.renewedAt.Load()
	if renewed == 0 {
		return s.cfg.Lease
	}
	return time.Since(s.start) - time.Duration(renewed)
}

// newBackoff returns a backoff whose pauses grow from 100 ms to maxPause.
func newBackoff(maxPause time.Duration) *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = min(100*time.Millisecond, maxPause), maxPause
	return wait
}

// pause waits for d. It returns false if ctx ends first.
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
