package research

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
)

// pace is how often a host may be asked.
type pace struct {
	every time.Duration // between requests, on average
	burst int           // at once, after a pause
}

func perSecond(n float64) pace { return pace{every: time.Duration(float64(time.Second) / n), burst: 1} }

// maxLimiters bounds how many hosts and keys are told apart; those not asked for longest begin anew.
const maxLimiters = 1024

// limits holds back requests, for all calls of the process together: services count by address, or by key where there is one.
type limits struct {
	byKey *lru.Cache[string, *rate.Limiter]
}

func newLimits() (*limits, error) {
	byKey, err := lru.New[string, *rate.Limiter](maxLimiters)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "make limits", "%w", err)
	}
	return &limits{byKey: byKey}, nil
}

// wait returns when a request may be sent. When that takes longer than patience it is [agent.CodeRateLimited] at once, and a hurry when
// the caller's own time is too short.
func (l *limits) wait(ctx context.Context, key string, p pace, patience time.Duration) error {
	limiter := rate.NewLimiter(rate.Every(p.every), p.burst)
	if known, ok, _ := l.byKey.PeekOrAdd(key, limiter); ok {
		limiter = known
		l.byKey.Get(key) // used just now
	}
	place := limiter.Reserve()
	delay := place.Delay()
	switch {
	case delay > patience:
		place.Cancel()
		return agent.Errorf(agent.CodeRateLimited, "", "too many searches at once: the next may begin in %s", delay.Round(time.Second))
	case !fits(ctx, delay):
		place.Cancel()
		return hurry(ctx)
	}
	if err := pause(ctx, delay); err != nil {
		place.Cancel()
		return err
	}
	return nil
}

// fits reports whether a delay ends before ctx does.
func fits(ctx context.Context, delay time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > delay
}

// hurry is the error of a call whose time is too short for what it has to wait for: one with more time may succeed.
func hurry(ctx context.Context) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	return &agent.Error{Code: agent.CodeUnavailable, Op: opSearch, Err: context.DeadlineExceeded}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return interrupted(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return interrupted(ctx)
	}
}

const opSearch = "search"

func interrupted(ctx context.Context) error { return agent.Interrupted(ctx, opSearch) }
