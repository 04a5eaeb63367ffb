package research

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
)

// pace bounds how often a host is asked.
type pace struct {
	every time.Duration // between requests, on average
	burst int           // at once, after a pause
}

func perSecond(n float64) pace { return pace{every: time.Duration(float64(time.Second) / n), burst: 1} }

// maxLimiters bounds how many hosts and keys have a limiter. Those unused for longest begin again.
const maxLimiters = 1024

// limits delays requests, for all calls of the process together. Services count by address, or by key if there is one.
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

// wait returns when a request may be sent. The error comes at once: [agent.CodeRateLimited] if that takes longer than maxWait, and that of
// timeTooShort if the context ends before.
func (l *limits) wait(ctx context.Context, key string, p pace, maxWait time.Duration) error {
	limiter := rate.NewLimiter(rate.Every(p.every), p.burst)
	if known, ok, _ := l.byKey.PeekOrAdd(key, limiter); ok {
		limiter = known
		l.byKey.Get(key) // used just now
	}
	place := limiter.Reserve()
	delay := place.Delay()
	switch {
	case delay > maxWait:
		place.Cancel()
		return agent.Errorf(agent.CodeRateLimited, "", "too many searches at once: the next may begin in %s", delay.Round(time.Second))
	case !endsInTime(ctx, delay):
		place.Cancel()
		return timeTooShort(ctx)
	}
	if err := sleep(ctx, delay); err != nil {
		place.Cancel()
		return err
	}
	return nil
}

// endsInTime reports whether a delay ends before ctx does.
func endsInTime(ctx context.Context, delay time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > delay
}

// timeTooShort returns the error of a call that has too little time to wait. A call with more time may succeed.
func timeTooShort(ctx context.Context) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	return &agent.Error{Code: agent.CodeUnavailable, Op: opSearch, Err: context.DeadlineExceeded}
}

func sleep(ctx context.Context, d time.Duration) error {
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
