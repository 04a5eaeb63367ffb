package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// jitterShare is how far a wait with jitter may be from the wait without: a quarter, as LangChain has it.
const jitterShare = 0.25

// The two values of on_failure.
const (
	onFailureContinue = "continue"
	onFailureError    = "error"
)

// toolRetry repeats a tool call that may go well a little later. Waiting is cenkalti/backoff's.
//
// Only what may be repeated is: a call that is repeatable, because its tool is idempotent or it has no effects, and the calls of the
// tools that the option tools names. Of any other a failure is repeated only when the tool marked it as retryable, or when the error
// is rate_limited, which says that the call was turned away: the rest may have come after the call took effect (DESIGN §7).
type toolRetry struct {
	agent.Pass
	options toolRetryOptions
}

// toolRetryOptions are LangChain v1's of the same names; durations in seconds. Exceptions are failure types here.
type toolRetryOptions struct {
	MaxRetries    int      `json:"max_retries"`    // after the first try; default 2
	Tools         []string `json:"tools"`          // whose calls may be repeated; default: see toolRetry
	RetryOn       []string `json:"retry_on"`       // types of failure; default unavailable, rate_limited
	OnFailure     string   `json:"on_failure"`     // after the last try: continue (default) tells the model, error the runtime
	BackoffFactor float64  `json:"backoff_factor"` // default 2; 0: every wait is initial_delay
	InitialDelay  float64  `json:"initial_delay"`  // default 1
	MaxDelay      float64  `json:"max_delay"`      // default 60, before jitter; also the most that a Retry-After is honoured
	Jitter        bool     `json:"jitter"`         // default true
}

func newToolRetry(options json.RawMessage) (agent.Middleware, error) {
	m := &toolRetry{options: toolRetryOptions{
		MaxRetries: 2, RetryOn: []string{string(agent.CodeUnavailable), string(agent.CodeRateLimited)}, OnFailure: onFailureContinue,
		BackoffFactor: 2, InitialDelay: 1, MaxDelay: 60, Jitter: true,
	}}
	if len(options) > 0 {
		if err := strict.Decode(options, &m.options); err != nil {
			return nil, err
		}
	}
	if err := m.options.check(); err != nil {
		return nil, err
	}
	if m.options.BackoffFactor == 0 {
		m.options.BackoffFactor = 1
	}
	return m, nil
}

func (o *toolRetryOptions) check() error {
	switch {
	case o.MaxRetries < 0 || o.MaxRetries > 20:
		return agent.Invalid("max_retries", "want 0 to 20")
	case o.OnFailure != onFailureContinue && o.OnFailure != onFailureError:
		return agent.Invalid("on_failure", "want continue or error, got %.50q", o.OnFailure)
	case o.BackoffFactor != 0 && o.BackoffFactor < 1:
		return agent.Invalid("backoff_factor", "want 0 or at least 1")
	case o.InitialDelay < 0:
		return agent.Invalid("initial_delay", "want at least 0 seconds")
	case o.MaxDelay < o.InitialDelay || o.MaxDelay > 3600:
		return agent.Invalid("max_delay", "want initial_delay to 3,600 seconds")
	case len(o.RetryOn) == 0:
		return agent.Invalid("retry_on", "want at least one type of failure")
	}
	if i := slices.Index(o.RetryOn, string(agent.CodeCancelled)); i >= 0 {
		return agent.Invalid(fmt.Sprintf("retry_on[%d]", i), "a cancelled call is never repeated")
	}
	if err := checkNames("retry_on", o.RetryOn); err != nil {
		return err
	}
	return checkNames("tools", o.Tools)
}

// checkNames refuses a list that is no list of names.
func checkNames(field string, names []string) error {
	const most, longest = 128, 128
	if len(names) > most {
		return agent.Invalid(field, "want at most %d names, got %d", most, len(names))
	}
	for i, name := range names {
		if name == "" || len(name) > longest {
			return agent.Invalid(fmt.Sprintf("%s[%d]", field, i), "want a name of 1 to %d bytes", longest)
		}
	}
	return nil
}

// covers reports whether a middleware with the option tools is meant for a tool: no list means every tool.
func covers(tools []string, name string) bool { return len(tools) == 0 || slices.Contains(tools, name) }

// attempt is the latest run of a call.
type attempt struct {
	repeatable bool
	result     agent.ToolResult
	err        error
	number     int  // from 1
	again      bool // it failed, and the options say that this is repeated
}

// failure is nil when the call went well.
func (a *attempt) failure() *agent.Failure {
	if a.err != nil {
		return agent.FailureOf(a.err)
	}
	return a.result.Failure
}

// WrapTool repeats next. A failure that the options do not name is passed on as it came, at once and whatever on_failure says.
func (m *toolRetry) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		if !covers(m.options.Tools, call.Name) {
			return next(ctx, inv, call)
		}
		var last attempt
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			last = attempt{number: last.number + 1, repeatable: inv.Repeatable}
			last.result, last.err = next(ctx, inv, call)
			return struct{}{}, m.classify(&last)
		}, backoff.WithBackOff(m.wait()), backoff.WithMaxTries(uint(m.options.MaxRetries)+1), backoff.WithMaxElapsedTime(0),
			backoff.WithNotify(func(_ error, wait time.Duration) {
				inv.Report(fmt.Sprintf("%s failed (%s): retry %d of %d in %s", call.Name, last.failure().Type, last.number,
					m.options.MaxRetries, wait.Round(time.Millisecond)))
			}))
		switch {
		case err == nil || !last.again:
			return last.result, last.err
		case ctx.Err() != nil: // while waiting, or the call itself ended for it
			return last.result, context.Cause(ctx)
		default:
			return m.giveUp(call, &last)
		}
	}
}

func (m *toolRetry) wait() backoff.BackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = seconds(m.options.InitialDelay)
	wait.Multiplier = m.options.BackoffFactor
	wait.MaxInterval = seconds(m.options.MaxDelay)
	wait.RandomizationFactor = 0
	if m.options.Jitter {
		wait.RandomizationFactor = jitterShare
	}
	return wait
}

// classify tells backoff what to do about an attempt. The errors are for backoff alone: what came of the attempt stays in last.
func (m *toolRetry) classify(last *attempt) error {
	f := last.failure()
	if f == nil {
		return nil
	}
	last.again = m.repeats(last, f)
	after := patience(last.err)
	switch {
	case !last.again, after > seconds(m.options.MaxDelay):
		return backoff.Permanent(f.AsError())
	case after > 0:
		return &backoff.RetryAfterError{Duration: after}
	default:
		return f.AsError()
	}
}

// repeats reports whether a failure is one to repeat.
func (m *toolRetry) repeats(last *attempt, f *agent.Failure) bool {
	switch {
	case !slices.Contains(m.options.RetryOn, f.Type):
		return false
	case len(m.options.Tools) > 0, last.repeatable:
		return true
	case last.err != nil:
		return agent.CodeOf(last.err) == agent.CodeRateLimited
	default:
		return f.Retryable
	}
}

// patience is how long the other side asked to wait, 0 when it did not.
func patience(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// giveUp ends a call that failed to the last. As an error it is the call's own, for a middleware further out or for the runtime,
// which has its own few tries.
func (m *toolRetry) giveUp(call agent.ToolCall, last *attempt) (agent.ToolResult, error) {
	f := *last.failure()
	if m.options.OnFailure == onFailureError {
		if last.err != nil {
			return last.result, last.err
		}
		return last.result, f.AsError()
	}
	times := "1 attempt"
	if last.number > 1 {
		times = fmt.Sprintf("%d attempts", last.number)
	}
	f.Message = clip(fmt.Sprintf("failed after %s: %s", times, f.Message), maxFailureBytes)
	if after := patience(last.err); after > 0 {
		f.Message += fmt.Sprintf(" (asked to wait %s)", after)
	}
	if f.Tool == "" {
		f.Tool = call.Name
	}
	result := last.result
	result.Failure = &f
	return result, nil
}
