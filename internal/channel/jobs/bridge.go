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

// giveBackTime is how long giving back may take after the drain.
const giveBackTime = 2 * time.Second

// Bridge is the channel that jobs come in by.
type Bridge struct {
	cfg     Config
	metrics *metrics
}

var _ agent.Channel = (*Bridge)(nil)

// New returns a bridge that connects when it serves. Its error names the setting.
func New(cfg Config) (*Bridge, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	client, err := connect(cfg.URL, cfg.Redis)
	if err != nil {
		return nil, err
	}
	if err := client.Close(); err != nil { // it was for the settings' sake
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Bridge{cfg: cfg, metrics: m}, nil
}

// Serve moves jobs until ctx ends. Then it takes no more, waits for those that run, gives back those that still do before the drain time is
// over, and returns nil. Redis that is away is waited for.
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

// session is one bridge from its start to its end, as the others see it: under one id.
type session struct {
	cfg     *Config
	metrics *metrics
	inbox   agent.Inbox
	logger  *zap.Logger
	queue   *queue
	slots   *slots
	lines   *lines

	jobs    sync.WaitGroup
	start   time.Time
	beaten  atomic.Int64 // when the lease was renewed last, since start
	suspect atomic.Bool  // an answer was lost: Redis may hold jobs of ours that we do not know

	mu    sync.Mutex
	holds map[string]int // messages that are worked on, with how often
}

func (s *session) serve(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		s.keepBeating(working)
	}()
	s.logger.Info("taking jobs", zap.String("queue", s.cfg.Queue))

	var taking sync.WaitGroup
	taking.Go(func() { s.takeJobs(ctx, working) })
	<-ctx.Done()
	draining, enough := context.WithTimeout(working, s.cfg.Drain)
	taking.Wait()
	s.slots.idle(draining)
	enough()
	stop()
	s.jobs.Wait()
	<-beating
	s.leave(context.WithoutCancel(ctx), giveBackTime)
}

// leave gives back what is left. What cannot be given back is adopted when the lease has run out.
func (s *session) leave(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := backoff.Retry(ctx, func() (int, error) { return s.queue.giveBack(ctx, s.queue.bridge) }, backoff.WithBackOff(patience(within/4)))
	s.metrics.returned.Add(float64(n))
	if err != nil {
		s.logger.Warn("jobs are left for other bridges", zap.Error(err))
		return
	}
	s.logger.Info("left", zap.Int("jobs_given_back", n))
}

// keepBeating renews the lease and looks after the dead, at once and then until ctx ends.
func (s *session) keepBeating(ctx context.Context) {
	every := time.NewTicker(s.cfg.Lease / 3)
	defer every.Stop()
	for {
		if err := s.beat(ctx); err == nil {
			s.adopt(ctx)
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

func (s *session) adopt(ctx context.Context) {
	n, err := s.queue.adopt(ctx)
	if n > 0 {
		s.metrics.adopted.Add(float64(n))
		s.logger.Info("gave back jobs of dead bridges", zap.Int("jobs", n))
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("looking after dead bridges", zap.Error(err))
	}
}

func (s *session) beat(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, max(s.cfg.Lease/3, time.Second))
	defer cancel()
	if err := s.queue.beat(bounded); err != nil {
		s.suspect.Store(true)
		return err
	}
	s.beaten.Store(int64(time.Since(s.start)))
	return nil
}

func (s *session) sinceBeat() time.Duration {
	at := s.beaten.Load()
	if at == 0 {
		return s.cfg.Lease // never
	}
	return time.Since(s.start) - time.Duration(at)
}

// patience grows from a tenth of a second to most.
func patience(most time.Duration) *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = min(100*time.Millisecond, most), most
	return wait
}

// pause waits, and reports whether it waited to the end.
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
