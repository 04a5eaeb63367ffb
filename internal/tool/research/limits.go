package research

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
)

// pace is the rate at which requests may be sent to a host.
type pace struct {
	every time.Duration // the average time between requests
	burst int           // requests at once after a pause
}

func perSecond(n float64) pace { return pace{every: time.Duration(float64(time.Second) / n), burst: 1} }

// maxLimiters is the maximum number of limiters. The one that was unused for longest is dropped first.
const maxLimiters = 1024

// limits delays the requests of all calls of the process. There is one limiter per host, or per API key if requests carry one, because
// services count requests that way.
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

// wait waits until a request may be sent. It fails without waiting if that would take longer than maxWait ([agent.CodeRateLimited]) or longer
// than the context lasts (deadlineError).
func (l *limits) wait(ctx context.Context, key string, p pace, maxWait time.Duration) error {
	limiter := rate.NewLimiter(rate.Every(p.every), p.burst)
	if existing, ok, _ := l.byKey.PeekOrAdd(key, limiter); ok {
		limiter = existing
		l.byKey.Get(key) // marks it as used
	}
	reservation := limiter.Reserve()
	delay := reservation.Delay()
	switch {
	case delay > maxWait:
		reservation.Cancel()
		return agent.Errorf(agent.CodeRateLimited, "", "too many searches at once: the next may begin in %s", delay.Round(time.Second))
	case !endsInTime(ctx, delay):
		reservation.Cancel()
		return deadlineError(ctx)
	}
	if err := sleep(ctx, delay); err != nil {
		reservation.Cancel()
		return err
	}
	return nil
}

// endsInTime reports whether a delay ends before the context's deadline.
func endsInTime(ctx context.Context, delay time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > delay
}

// deadlineError returns the error of a call whose deadline is too early. A call with more time may succeed.
func deadlineError(ctx context.Context) error {
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
