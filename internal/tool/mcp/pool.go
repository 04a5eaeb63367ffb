package mcp

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// patience are the times of a [pool]; tests shorten them.
type patience struct {
	dial     time.Duration // for a session to open
	idle     time.Duration // until an unused session is closed
	fresh    time.Duration // after a longer pause a session is asked for a sign of life
	ping     time.Duration // for that
	backoff  time.Duration // after the first failure; it doubles
	maxPause time.Duration
}

func defaultPatience() patience {
	return patience{
		dial: 30 * time.Second, idle: 10 * time.Minute, fresh: time.Minute, ping: 5 * time.Second, backoff: 5 * time.Second, maxPause: time.Minute,
	}
}

// maxSessions bounds the sessions of a process.
const maxSessions = 64

// pool keeps one session per key. It is safe for concurrent use.
type pool struct {
	times  patience
	most   int
	logger *zap.Logger

	life context.Context // ends with close: what is being opened is given up
	end  context.CancelFunc
	work sync.WaitGroup // sessions that open, live or close

	mu     sync.Mutex
	slots  map[string]*slot
	closed bool
}

// slot is what is known of one key. The pool's lock guards it.
type slot struct {
	session  *session      // nil: none is open
	dialling chan struct{} // closed when the attempt under way has ended; nil: there is none
	failures int           // in a row
	retryAt  time.Time     // no attempt before
	err      error         // of the last attempt
	users    int           // who holds the session or waits for it
	used     time.Time     // when the last one left
	idle     *time.Timer   // closes the session
}

func newPool(times patience, logger *zap.Logger) *pool {
	p := &pool{times: times, most: maxSessions, logger: logger, slots: map[string]*slot{}}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// opener opens a session.
type opener func(ctx context.Context) (*session, error)

// acquire returns the session of a key, opened if need be; release gives it back. Errors are [agent.Error]: unavailable while the server
// is left alone after a failure, what [opener] says otherwise.
func (p *pool) acquire(ctx context.Context, key string, open opener) (s *session, release func(), err error) {
	for {
		held, wait, err := p.hold(key, open)
		if err != nil {
			return nil, nil, err
		}
		release := func() { p.release(key, held) }
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
				release()
				return nil, nil, agent.Interrupted(ctx, "open MCP session")
			}
		}
		s, stale, err := p.look(held)
		switch {
		case err != nil:
			release()
			return nil, nil, err
		case s == nil: // lost meanwhile
			release()
			continue
		case stale && !p.answers(ctx, s):
			release()
			if ctx.Err() != nil {
				return nil, nil, agent.Interrupted(ctx, "open MCP session")
			}
			s.close()
			continue
		}
		return s, release, nil
	}
}

// hold marks a slot as used and starts to open its session when there is none. wait is closed when that has ended.
func (p *pool) hold(key string, open opener) (held *slot, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, agent.Errorf(agent.CodeUnavailable, "open MCP session", "the process is shutting down")
	}
	held = p.slots[key]
	if held == nil {
		if !p.makeRoom() {
			return nil, nil, agent.Errorf(agent.CodeUnavailable, "open MCP session", "all %d sessions are in use", p.most)
		}
		held = &slot{}
		p.slots[key] = held
	}
	if held.session != nil && !held.session.alive() {
		held.settle(&p.times)
	}
	if held.session == nil && held.dialling == nil {
		if pause := time.Until(held.retryAt); pause > 0 {
			e := agent.Errorf(agent.CodeUnavailable, "open MCP session", "it failed and is not tried again for %s: %w", pause.Round(time.Second), held.err)
			e.RetryAfter = pause
			return nil, nil, e
		}
		held.dialling = make(chan struct{})
		p.work.Go(func() { p.open(key, held, open) })
	}
	held.users++
	if held.idle != nil {
		held.idle.Stop()
	}
	return held, held.dialling, nil
}

// makeRoom forgets the slot that was unused for longest when there are too many. The lock is held.
func (p *pool) makeRoom() bool {
	if len(p.slots) < p.most {
		return true
	}
	var oldest string
	for key, s := range p.slots {
		if s.users == 0 && s.dialling == nil && (oldest == "" || s.used.Before(p.slots[oldest].used)) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	p.drop(oldest)
	return true
}

// drop forgets a slot and closes its session behind the caller's back. The lock is held.
func (p *pool) drop(key string) {
	s := p.slots[key]
	delete(p.slots, key)
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.session != nil {
		p.work.Go(s.session.close)
		s.session = nil
	}
}

// open makes one attempt and stays until its session has ended.
func (p *pool) open(key string, held *slot, open opener) {
	ctx, cancel := context.WithTimeout(p.life, p.times.dial)
	s, err := open(ctx)
	cancel()
	p.mu.Lock()
	close(held.dialling)
	held.dialling = nil
	held.session, held.err = s, err
	if err != nil {
		held.failed(&p.times)
		failures := held.failures
		p.mu.Unlock()
		p.logger.Warn("open MCP session", zap.Int("failures", failures), zap.Error(err))
		return
	}
	p.mu.Unlock()
	select {
	case <-s.ended:
	case <-p.life.Done():
		s.close()
	}
	p.lost(key, held, s)
}

// lost clears a slot whose session has ended.
func (p *pool) lost(key string, held *slot, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.session != s {
		return
	}
	held.settle(&p.times)
	if held.users == 0 && held.failures == 0 && p.slots[key] == held {
		p.drop(key)
	}
}

// settle takes a session that has ended out of its slot. One that had never answered anything counts as a failure. The lock is held.
func (s *slot) settle(times *patience) {
	if s.session.proven.Load() {
		s.failures, s.retryAt = 0, time.Time{}
	} else {
		s.err = agent.Errorf(agent.CodeUnavailable, "open MCP session", "the last session ended before it had answered anything")
		if refusal := s.session.refusal.Load(); refusal != nil {
			s.err = refusal
		}
		s.failed(times)
	}
	s.session = nil
}

// failed sets the pause before the next attempt. The lock is held.
func (s *slot) failed(times *patience) {
	pause := min(times.backoff<<min(s.failures, 16), times.maxPause)
	s.failures++
	s.retryAt = time.Now().Add(pause)
}

// look says what a slot has after the wait for it.
func (p *pool) look(held *slot) (s *session, stale bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.session == nil {
		if held.err != nil && time.Now().Before(held.retryAt) {
			return nil, false, held.err
		}
		return nil, false, nil
	}
	if !held.session.alive() {
		return nil, false, nil
	}
	stale = !held.used.IsZero() && time.Since(held.used) > p.times.fresh
	return held.session, stale, nil
}

// answers reports whether a session that was not used for a while still works.
func (p *pool) answers(ctx context.Context, s *session) bool {
	ctx, cancel := s.within(ctx, p.times.ping)
	defer cancel()
	return s.ping(ctx) == nil
}

func (p *pool) release(key string, held *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held.users--
	held.used = time.Now()
	if held.users > 0 || p.closed || p.slots[key] != held {
		return
	}
	held.idle = time.AfterFunc(p.times.idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if held.users == 0 && held.dialling == nil && p.slots[key] == held {
			p.drop(key)
		}
	})
}

// peek returns the session of a key that is open already, nil when there is none. It is not held.
func (p *pool) peek(key string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[key]; s != nil {
		return s.session
	}
	return nil
}

// close ends all sessions and waits for them, for a bounded time. [agent.CodeUnavailable] when some do not end.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for key := range p.slots {
		p.drop(key)
	}
	p.mu.Unlock()
	p.end()
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(3 * closePatience):
		return agent.Errorf(agent.CodeUnavailable, "close MCP sessions", "some do not end")
	}
}
