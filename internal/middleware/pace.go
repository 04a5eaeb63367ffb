package middleware

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// jitterShare is how far jitter may change a wait: a quarter, as in LangChain.
const jitterShare = 0.25

// pace is how long model_retry and tool_retry wait between tries: LangChain v1's options of the same names, in seconds.
type pace struct {
	InitialDelay  float64 `json:"initial_delay"`  // default 1
	BackoffFactor float64 `json:"backoff_factor"` // default 2; 0: every wait is initial_delay
	MaxDelay      float64 `json:"max_delay"`      // default 60, before jitter; also the most that a Retry-After is honoured
	Jitter        bool    `json:"jitter"`         // default true
}

func defaultPace() pace { return pace{InitialDelay: 1, BackoffFactor: 2, MaxDelay: 60, Jitter: true} }

func (p pace) check() error {
	const longest = 3600
	switch {
	case p.BackoffFactor != 0 && (p.BackoffFactor < 1 || p.BackoffFactor > 1000):
		return agent.Invalid("backoff_factor", "want 0 or 1 to 1,000")
	case p.InitialDelay < 0:
		return agent.Invalid("initial_delay", "want at least 0 seconds")
	case p.MaxDelay < p.InitialDelay || p.MaxDelay > longest:
		return agent.Invalid("max_delay", "want initial_delay to 3,600 seconds")
	}
	return nil
}

// waits returns the waits of one call.
func (p pace) waits() backoff.BackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = seconds(p.InitialDelay)
	wait.Multiplier = max(p.BackoffFactor, 1)
	wait.MaxInterval = seconds(p.MaxDelay)
	wait.RandomizationFactor = 0
	if p.Jitter {
		wait.RandomizationFactor = jitterShare
	}
	return wait
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// retryError returns what backoff does after an error: it gives up, waits as long as the other side asked, or waits as usual. It is nil
// without an error.
func (p pace) retryError(err error, mayRepeat bool) error {
	after := retryAfter(err)
	switch {
	case err == nil:
		return nil
	case !mayRepeat, after > seconds(p.MaxDelay):
		return backoff.Permanent(err)
	case after > 0:
		return &backoff.RetryAfterError{Duration: after}
	default:
		return err
	}
}

// isRetryError reports whether an error is one that retryError made around another.
func isRetryError(err error) bool {
	if _, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*backoff.RetryAfterError](err)
	return ok
}

// retryAfter returns how long the other side asked to wait, 0 if it did not.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}
