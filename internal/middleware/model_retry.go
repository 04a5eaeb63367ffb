package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// modelRetry repeats a model call that the provider may answer a little later: rate limits and outages, never refusals. It is the
// only retry of provider errors there is (DESIGN §6). Waiting is cenkalti/backoff's.
type modelRetry struct {
	agent.Pass
	options modelRetryOptions
}

// modelRetryOptions are LangChain v1's of the same names; durations in seconds.
type modelRetryOptions struct {
	MaxRetries    *int    `json:"max_retries"`    // default as the configuration says
	InitialDelay  float64 `json:"initial_delay"`  // default 1
	BackoffFactor float64 `json:"backoff_factor"` // default 2
	MaxDelay      float64 `json:"max_delay"`      // default 60; also the most that a provider's Retry-After is honoured
}

func newModelRetry(retries int, options json.RawMessage) (agent.Middleware, error) {
	m := &modelRetry{options: modelRetryOptions{MaxRetries: &retries, InitialDelay: 1, BackoffFactor: 2, MaxDelay: 60}}
	if len(options) > 0 {
		if err := strict.Decode(options, &m.options); err != nil {
			return nil, err
		}
	}
	switch o := m.options; {
	case o.MaxRetries == nil || *o.MaxRetries < 0 || *o.MaxRetries > 20:
		return nil, agent.Invalid("max_retries", "want 0 to 20")
	case o.InitialDelay < 0 || o.MaxDelay < o.InitialDelay || o.MaxDelay > 3600:
		return nil, agent.Invalid("max_delay", "want initial_delay to 3,600 seconds")
	case o.BackoffFactor < 1:
		return nil, agent.Invalid("backoff_factor", "want at least 1")
	}
	return m, nil
}

// WrapModel repeats next. A provider that asks for more patience than MaxDelay is given up on: its error says when to come back.
func (m *modelRetry) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		wait := backoff.NewExponentialBackOff()
		wait.InitialInterval = seconds(m.options.InitialDelay)
		wait.Multiplier = m.options.BackoffFactor
		wait.MaxInterval = seconds(m.options.MaxDelay)
		reply, err := backoff.Retry(ctx, func() (agent.ModelReply, error) {
			reply, err := next(ctx, inv, req, emit)
			return reply, m.classify(err)
		}, backoff.WithBackOff(wait), backoff.WithMaxTries(uint(*m.options.MaxRetries)+1), backoff.WithMaxElapsedTime(0))
		return reply, unwrap(err)
	}
}

// classify tells backoff what to do about an error.
func (m *modelRetry) classify(err error) error {
	if err == nil {
		return nil
	}
	code := agent.CodeOf(err)
	if code != agent.CodeRateLimited && code != agent.CodeUnavailable {
		return backoff.Permanent(err)
	}
	var e *agent.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		return err
	}
	if e.RetryAfter > seconds(m.options.MaxDelay) {
		return backoff.Permanent(err)
	}
	return &waitError{cause: err, after: &backoff.RetryAfterError{Duration: e.RetryAfter}}
}

// unwrap takes away what this file put around an error.
func unwrap(err error) error {
	if asked, ok := errors.AsType[*waitError](err); ok {
		return asked.cause
	}
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return permanent.Err
	}
	return err
}

// waitError carries a provider's wish for patience to backoff and its error to the caller.
type waitError struct {
	cause error
	after *backoff.RetryAfterError
}

func (w *waitError) Error() string   { return w.cause.Error() }
func (w *waitError) Unwrap() []error { return []error{w.after, w.cause} }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
