package middleware

import (
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// jitterShare is how far a wait with jitter may be from the wait without: a quarter, as LangChain has it.
const jitterShare = 0.25

// pace is how model_retry and tool_retry wait between tries: LangChain v1's options of the same names, in seconds.
type pace struct {
	InitialDelay  float64 `json:"initial_delay"`  // default 1
	BackoffFactor float64 `json:"backoff_factor"` // default 2; 0: every wait is initial_delay
	MaxDelay      float64 `json:"max_delay"`      // default 60, before jitter; also the most that a Retry-After is honoured
	Jitter        bool    `json:"jitter"`         // default true
}

func usualPace() pace { return pace{InitialDelay: 1, BackoffFactor: 2, MaxDelay: 60, Jitter: true} }

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

// waits makes the waits of one call.
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
