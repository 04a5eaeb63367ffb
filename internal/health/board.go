package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// State is the state of a dependency.
type State string

// The states. Only Down keeps turns from running.
const (
	OK       State = "ok"
	Degraded State = "degraded"
	Down     State = "down"
)

// severity returns 0 for OK, 1 for Degraded and 2 for Down.
func (s State) severity() int {
	return max(0, slices.Index([]State{OK, Degraded, Down}, s))
}

// Finding is the answer of a probe.
type Finding struct {
	State  State
	Detail string // for operators: numbers, addresses, errors
	Hint   string // what to do: one public line; empty if State is OK
}

// Probe checks one dependency.
type Probe struct {
	Name    string
	Timeout time.Duration // default 1.5 s
	Every   time.Duration // how long an answer is valid; default 1 s
	Late    State         // the state after an error, or without an answer within Timeout; default Down
	// Ask is called by one goroutine at a time. An error becomes a finding in the state Late with the hint for that error.
	Ask func(ctx context.Context) (Finding, error)
}

// Reading is the newest answer of a probe.
type Reading struct {
	Finding

	Name  string
	Since time.Time     // when State last changed
	Took  time.Duration // how long the last call took
}

const (
	defaultTimeout = 1500 * time.Millisecond
	defaultEvery   = time.Second
	maxDetail      = 1000 // bytes
)

// Config is the configuration of [New].
type Config struct {
	Probes []Probe // in the order of the readings, with different names
	Logger *zap.Logger
	// Redact removes more secrets from details. What looks like a secret is always removed. Nil: nothing more.
	Redact func(string) string
}

// Board calls probes and keeps their answers. It is safe for concurrent use.
type Board struct {
	slots  []*slot
	logger *zap.Logger
}

// New returns a board that has not called its probes yet.
func New(c Config) *Board {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	b := &Board{logger: c.Logger}
	hideSecrets := redactor(c.Redact)
	for _, p := range c.Probes {
		if p.Timeout <= 0 {
			p.Timeout = defaultTimeout
		}
		if p.Every <= 0 {
			p.Every = defaultEvery
		}
		if p.Late == "" {
			p.Late = Down
		}
		b.slots = append(b.slots, &slot{Probe: p, redact: hideSecrets, logger: c.Logger})
	}
	return b
}

// Read returns a valid reading of each probe, in their order. It takes at most the longest Timeout, and ends with ctx: a probe that has not
// answered by then is late.
func (b *Board) Read(ctx context.Context) []Reading {
	out := make([]Reading, len(b.slots))
	var asking sync.WaitGroup
	for i, s := range b.slots {
		if r, fresh := s.fresh(); fresh {
			out[i] = r
			continue
		}
		asking.Go(func() { out[i] = s.read(ctx) })
	}
	asking.Wait()
	return out
}

// Worst returns the worst state of the readings.
func Worst(readings []Reading) State {
	worst := OK
	for i := range readings {
		if readings[i].State.severity() > worst.severity() {
			worst = readings[i].State
		}
	}
	return worst
}

// slot is a probe with its newest reading and the call in progress.
type slot struct {
	Probe

	redact func(string) string
	logger *zap.Logger

	mu    sync.Mutex
	last  Reading
	until time.Time     // last is valid until then; zero: never called
	call  chan struct{} // closed when the call in progress ends; nil: none
	began time.Time     // when the call began
}

// fresh returns the last reading and whether it is still valid.
func (s *slot) fresh() (Reading, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, time.Now().Before(s.until)
}

// read calls the probe, or waits for the call in progress.
func (s *slot) read(ctx context.Context) Reading {
	s.mu.Lock()
	if time.Now().Before(s.until) {
		defer s.mu.Unlock()
		return s.last
	}
	if s.call == nil {
		s.call, s.began = make(chan struct{}), time.Now()
		go s.ask(context.WithoutCancel(ctx), s.call, s.began) // not cancelled with the caller: others wait for it too
	}
	call, left := s.call, s.Timeout-time.Since(s.began)
	s.mu.Unlock()

	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-call:
	case <-timer.C:
		s.noteLate(call)
	case <-ctx.Done():
		return s.lastKnown()
	}
	r, _ := s.fresh()
	return r
}

// ask makes one call. A probe that does not return keeps its call in progress, so a probe has one goroutine at most.
func (s *slot) ask(ctx context.Context, call chan struct{}, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout-s.Timeout/10) // so that its error arrives before it counts as late
	defer cancel()
	f, err := s.askSafely(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		f = s.unanswered()
	case err != nil:
		f = Finding{State: s.Late, Detail: err.Error(), Hint: hintOf(s.Name, err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setReading(f, time.Since(began))
	s.call = nil
	close(call)
}

// askSafely calls the probe and converts a panic to an error.
func (s *slot) askSafely(ctx context.Context) (f Finding, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("a probe panicked", zap.String("dependency", s.Name), zap.Any("panic", p), zap.Stack("stack"))
			err = agent.Errorf(agent.CodeInternal, "", "the probe panicked; the log has more")
		}
	}()
	return s.Ask(ctx)
}

// noteLate records that a call has not ended in time, unless it just has.
func (s *slot) noteLate(call chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call == call && !time.Now().Before(s.until) {
		s.setReading(s.unanswered(), time.Since(s.began))
	}
}

// lastKnown returns the last reading, even if it is no longer valid, for a caller whose context ends.
func (s *slot) lastKnown() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.IsZero() {
		return s.last
	}
	return Reading{Name: s.Name, Finding: s.unanswered(), Since: s.began, Took: time.Since(s.began)}
}

func (s *slot) unanswered() Finding {
	return Finding{State: s.Late, Detail: "no answer within " + s.Timeout.String(), Hint: hintOf(s.Name, context.DeadlineExceeded)}
}

// setReading makes a finding the newest reading. The lock is held.
func (s *slot) setReading(f Finding, took time.Duration) {
	if f.State == OK {
		f.Hint = ""
	}
	f.Detail, f.Hint = clean(f.Detail, s.redact), clean(f.Hint, s.redact)
	now := time.Now()
	next := Reading{Name: s.Name, Finding: f, Since: s.last.Since, Took: took}
	if before := s.last.State; before != f.State {
		next.Since = now
		s.logChange(before, &next)
	}
	s.last, s.until = next, now.Add(s.Every)
}

// logChange logs a change of state once, so that an operator later sees when and why it happened.
func (s *slot) logChange(before State, r *Reading) {
	fields := []zap.Field{
		zap.String("dependency", r.Name), zap.String("state", string(r.State)), zap.String("before", string(before)), zap.String("detail", r.Detail),
	}
	switch {
	case r.State == OK && before == "":
	case r.State == OK:
		s.logger.Info("a dependency has recovered", fields...)
	default:
		s.logger.Warn("a dependency has a problem", append(fields, zap.String("hint", r.Hint))...)
	}
}
