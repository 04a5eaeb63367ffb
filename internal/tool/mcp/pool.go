package mcp

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// poolTimes holds the times of a [pool]; tests shorten them.
type poolTimes struct {
	dial     time.Duration // for a session to open
	idle     time.Duration // until an unused session is closed
	fresh    time.Duration // after a longer pause a session is pinged before its use
	ping     time.Duration // for the answer to a ping
	backoff  time.Duration // after the first failure; it doubles
	maxPause time.Duration
}

func defaultPoolTimes() poolTimes {
	return poolTimes{
		dial: 30 * time.Second, idle: 10 * time.Minute, fresh: time.Minute, ping: 5 * time.Second, backoff: 5 * time.Second, maxPause: time.Minute,
	}
}

// maxSessions bounds the sessions of a process.
const maxSessions = 64

// pool keeps one session per key. It is safe for concurrent use.
type pool struct {
	times       poolTimes
	maxSessions int
	logger      *zap.Logger

	ctx    context.Context // ends with close, and then the attempts to open sessions end
	cancel context.CancelFunc
	work   sync.WaitGroup // sessions that open, live or close

	mu     sync.Mutex
	slots  map[string]*slot
	closed bool
}

// slot is the state of one key. The pool's lock guards it.
type slot struct {
	session  *session      // nil: none is open
	dialling chan struct{} // closed when the current attempt has ended; nil: there is none
	failures int           // in a row
	retryAt  time.Time     // no attempt before
	err      error         // of the last attempt
	users    int           // that hold the session or wait for it
	released time.Time     // when the last user released it
	idle     *time.Timer   // closes the unused session
}

func newPool(times poolTimes, logger *zap.Logger) *pool {
	p := &pool{times: times, maxSessions: maxSessions, logger: logger, slots: map[string]*slot{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// opener opens a session.
type opener func(ctx context.Context) (*session, error)

// acquire returns the session of a key, and opens it if there is none; release gives it back. Errors are [agent.Error]: unavailable
// during the pause after a failure, else those of [opener].
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
		s, stale, err := p.sessionOf(held)
		switch {
		case err != nil:
			release()
			return nil, nil, err
		case s == nil: // it has ended since hold
			release()
			continue
		case stale && !p.pingSession(ctx, s):
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

// hold adds a user to a slot, and starts to open its session if there is none. wait is closed when the session is open or cannot be opened; it
// is nil if nothing is being opened.
func (p *pool) hold(key string, open opener) (held *slot, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, agent.Errorf(agent.CodeUnavailable, "open MCP session", "the process is shutting down")
	}
	held = p.slots[key]
	if held == nil {
		if !p.makeRoom() {
			return nil, nil, agent.Errorf(agent.CodeUnavailable, "open MCP session", "all %d sessions are in use", p.maxSessions)
		}
		held = &slot{}
		p.slots[key] = held
	}
	if held.session != nil && !held.session.isAlive() {
		held.clearEnded(&p.times)
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

// makeRoom drops the slot that was unused for longest if there are too many. It reports whether there is room. The lock is held.
func (p *pool) makeRoom() bool {
	if len(p.slots) < p.maxSessions {
		return true
	}
	var oldest string
	for key, s := range p.slots {
		if s.users == 0 && s.dialling == nil && (oldest == "" || s.released.Before(p.slots[oldest].released)) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	p.drop(oldest)
	return true
}

// drop removes a slot and closes its session in the background. The lock is held.
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

// open tries once to open a session. If it succeeds, it returns when the session has ended.
func (p *pool) open(key string, held *slot, open opener) {
	ctx, cancel := context.WithTimeout(p.ctx, p.times.dial)
	s, err := open(ctx)
	cancel()
	p.mu.Lock()
	close(held.dialling)
	held.dialling = nil
	held.session, held.err = s, err
	if err != nil {
		held.delayRetry(&p.times)
		failures := held.failures
		p.mu.Unlock()
		p.logger.Warn("open MCP session", zap.Int("failures", failures), zap.Error(err))
		return
	}
	p.mu.Unlock()
	select {
	case <-s.ended:
	case <-p.ctx.Done():
		s.close()
	}
	p.sessionEnded(key, held, s)
}

// sessionEnded clears a slot whose session has ended.
func (p *pool) sessionEnded(key string, held *slot, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.session != s {
		return
	}
	held.clearEnded(&p.times)
	if held.users == 0 && held.failures == 0 && p.slots[key] == held {
		p.drop(key)
	}
}

// clearEnded removes an ended session from its slot. A session that never answered counts as a failure. The lock is held.
func (s *slot) clearEnded(times *poolTimes) {
	if s.session.proven.Load() {
		s.failures, s.retryAt = 0, time.Time{}
	} else {
		s.err = agent.Errorf(agent.CodeUnavailable, "open MCP session", "the last session ended before it had answered anything")
		if refusal := s.session.refusal.Load(); refusal != nil {
			s.err = refusal
		}
		s.delayRetry(times)
	}
	s.session = nil
}

// delayRetry sets the pause before the next attempt. The lock is held.
func (s *slot) delayRetry(times *poolTimes) {
	pause := min(times.backoff<<min(s.failures, 16), times.maxPause)
	s.failures++
	s.retryAt = time.Now().Add(pause)
}

// sessionOf returns the session of a held slot, nil if it has ended. stale reports whether it was unused for long.
func (p *pool) sessionOf(held *slot) (s *session, stale bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.session == nil {
		if held.err != nil && time.Now().Before(held.retryAt) {
			return nil, false, held.err
		}
		return nil, false, nil
	}
	if !held.session.isAlive() {
		return nil, false, nil
	}
	stale = !held.released.IsZero() && time.Since(held.released) > p.times.fresh
	return held.session, stale, nil
}

// pingSession reports whether a session still answers.
func (p *pool) pingSession(ctx context.Context, s *session) bool {
	ctx, cancel := s.withTimeout(ctx, p.times.ping)
	defer cancel()
	return s.ping(ctx) == nil
}

func (p *pool) release(key string, held *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held.users--
	held.released = time.Now()
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

// peek returns the open session of a key without holding it, nil if there is none.
func (p *pool) peek(key string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[key]; s != nil {
		return s.session
	}
	return nil
}

// close ends all sessions and waits for them. It returns [agent.CodeUnavailable] if some do not end in time.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for key := range p.slots {
		p.drop(key)
	}
	p.mu.Unlock()
	p.cancel()
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(3 * closeTimeout):
		return agent.Errorf(agent.CodeUnavailable, "close MCP sessions", "some do not end")
	}
}
