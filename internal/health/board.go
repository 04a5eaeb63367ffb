package health

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// State is how a dependency is.
type State string

// The states. Only Down keeps turns from running.
const (
	OK       State = "ok"
	Degraded State = "degraded"
	Down     State = "down"
)

// worse reports whether a state is worse than another.
func (s State) worse(than State) bool { return s.rank() > than.rank() }

func (s State) rank() int {
	switch s {
	case OK:
		return 0
	case Degraded:
		return 1
	default:
		return 2
	}
}

// Finding is what a probe found.
type Finding struct {
	State  State
	Detail string // for those who run the system: numbers, addresses, errors
	Hint   string // what to do, one line without anything internal; empty where State is OK
}

// Probe asks one thing.
type Probe struct {
	Name    string
	Timeout time.Duration // default 1.5 s
	Every   time.Duration // how long an answer holds; default 1 s
	Late    State         // what no answer within Timeout means, and an error; default Down
	// Ask must not be asked twice at a time and is not. An error is a finding in the state Late with the hint for such an error.
	Ask func(ctx context.Context) (Finding, error)
}

// Reading is the newest answer of a probe.
type Reading struct {
	Finding

	Name  string
	Since time.Time     // when State became what it is
	Took  time.Duration // the last time that it was asked
}

const (
	defaultTimeout = 1500 * time.Millisecond
	defaultEvery   = time.Second
	maxDetail      = 1000 // bytes
	maxProbes      = 64
)

// Config is what a [Board] needs.
type Config struct {
	Probes []Probe // in the order of the answer; names differ
	Logger *zap.Logger
	// Redact takes secrets out of details, besides what looks like one, which goes anyway. Nil: nothing more.
	Redact func(string) string
}

// Board asks its probes. It is safe for concurrent use.
type Board struct {
	slots  []*slot
	logger *zap.Logger
}

// New checks the probes; it asks none.
func New(c Config) (*Board, error) {
	if len(c.Probes) > maxProbes {
		return nil, agent.Invalid("probes", "are %d, more than %d", len(c.Probes), maxProbes)
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	b := &Board{logger: c.Logger}
	hideSecrets := redactor(c.Redact)
	names := map[string]bool{}
	for _, p := range c.Probes {
		if p.Name == "" || p.Ask == nil || names[p.Name] {
			return nil, agent.Invalid("probes", "%q: has no name or nothing to ask, or is there twice", p.Name)
		}
		names[p.Name] = true
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
	return b, nil
}

// Read returns the answers of all probes, none older than it may be, in their order. It takes no longer than the longest Timeout, nor than
// ctx: what has not answered by then is late.
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

// Worst is the state of the whole: that of the reading that is worst.
func Worst(readings []Reading) State {
	worst := OK
	for i := range readings {
		if readings[i].State.worse(worst) {
			worst = readings[i].State
		}
	}
	return worst
}

// slot is a probe with its newest answer, and the flight of whoever asks it just now.
type slot struct {
	Probe

	redact func(string) string
	logger *zap.Logger

	mu     sync.Mutex
	last   Reading
	until  time.Time     // last holds until then; zero: never asked
	flight chan struct{} // closed when the answer is there; nil: nobody asks
	began  time.Time     // of the flight
}

// fresh returns the last answer, and whether it still holds.
func (s *slot) fresh() (Reading, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, time.Now().Before(s.until)
}

// read asks, or joins who is asking already.
func (s *slot) read(ctx context.Context) Reading {
	s.mu.Lock()
	if time.Now().Before(s.until) {
		defer s.mu.Unlock()
		return s.last
	}
	if s.flight == nil {
		s.flight, s.began = make(chan struct{}), time.Now()
		go s.ask(context.WithoutCancel(ctx), s.flight, s.began) // not the caller's: others wait for it too
	}
	flight, left := s.flight, s.Timeout-time.Since(s.began)
	s.mu.Unlock()

	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-flight:
	case <-timer.C:
		s.late(flight)
	case <-ctx.Done():
		return s.impatient()
	}
	r, _ := s.fresh()
	return r
}

// ask is one flight. A probe that does not come back keeps its flight: nobody asks beside it, so there is one goroutine at most.
func (s *slot) ask(ctx context.Context, flight chan struct{}, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout-s.Timeout/10) // so that it can say what it waited for before it is late
	defer cancel()
	f, err := s.safely(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		f = s.unanswered()
	case err != nil:
		f = Finding{State: s.Late, Detail: err.Error(), Hint: hintOf(s.Name, err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(f, time.Since(began))
	s.flight = nil
	close(flight)
}

// safely asks; a probe that panics must not take the process along that it is to watch.
func (s *slot) safely(ctx context.Context) (f Finding, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("a probe panicked", zap.String("dependency", s.Name), zap.Any("panic", p), zap.Stack("stack"))
			err = agent.Errorf(agent.CodeInternal, "", "the probe panicked; the log has more")
		}
	}()
	return s.Ask(ctx)
}

// late notes that a flight has not come back in time; unless it just has.
func (s *slot) late(flight chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == flight && !time.Now().Before(s.until) {
		s.keep(s.unanswered(), time.Since(s.began))
	}
}

// impatient is the answer for a caller who cannot wait: the last one that there was, or none. It is not kept.
func (s *slot) impatient() Reading {
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

// keep makes a finding the newest reading. The lock is held.
func (s *slot) keep(f Finding, took time.Duration) {
	if f.State == OK {
		f.Hint = ""
	}
	f.Detail, f.Hint = clean(f.Detail, s.redact), clean(f.Hint, s.redact)
	now := time.Now()
	next := Reading{Name: s.Name, Finding: f, Since: s.last.Since, Took: took}
	if before := s.last.State; before != f.State {
		next.Since = now
		s.report(before, &next)
	}
	s.last, s.until = next, now.Add(s.Every)
}

// report writes a change of state to the log, once: an operator who reads it later sees when and why.
func (s *slot) report(before State, r *Reading) {
	fields := []zap.Field{
		zap.String("dependency", r.Name), zap.String("state", string(r.State)), zap.String("before", string(before)), zap.String("detail", r.Detail),
	}
	switch {
	case r.State == OK && before == "":
	case r.State == OK:
		s.logger.Info("a dependency is well again", fields...)
	default:
		s.logger.Warn("a dependency is not well", append(fields, zap.String("hint", r.Hint))...)
	}
}
