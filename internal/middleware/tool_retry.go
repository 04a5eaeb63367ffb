package middleware

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The two values of on_failure, and LangChain's older names of both.
const (
	onFailureContinue      = "continue"
	onFailureError         = "error"
	onFailureReturnMessage = "return_message"
	onFailureRaise         = "raise"
)

// maxRetriesOption bounds max_retries.
const maxRetriesOption = 20

// toolRetry repeats a tool call that may go well a little later. Waiting is cenkalti/backoff's.
//
// Only what may be repeated is: a call that is repeatable, because its tool is idempotent or it has no effects, and the calls of the
// tools that the option tools names. Of any other a failure is repeated only when the tool marked it as retryable, or when the error
// is rate_limited, which says that the call was turned away: the rest may have come after the call took effect.
type toolRetry struct {
	agent.Pass
	options toolRetryOptions
}

// toolRetryOptions are LangChain v1's of the same names; durations in seconds. Exceptions are failure types here.
type toolRetryOptions struct {
	pace

	MaxRetries int      `json:"max_retries"` // after the first try; default 2
	Tools      []string `json:"tools"`       // whose calls may be repeated; default: see toolRetry
	RetryOn    []string `json:"retry_on"`    // types of failure; default unavailable, rate_limited
	OnFailure  string   `json:"on_failure"`  // after the last try: continue (default) tells the model, error the runtime
}

func newToolRetry(options json.RawMessage) (agent.Middleware, error) {
	m := &toolRetry{options: toolRetryOptions{
		pace: defaultPace(), MaxRetries: 2, RetryOn: []string{string(agent.CodeUnavailable), string(agent.CodeRateLimited)},
		OnFailure: onFailureContinue,
	}}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	switch m.options.OnFailure {
	case onFailureReturnMessage:
		m.options.OnFailure = onFailureContinue
	case onFailureRaise:
		m.options.OnFailure = onFailureError
	}
	if err := m.options.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (o *toolRetryOptions) check() error {
	switch {
	case o.MaxRetries < 0 || o.MaxRetries > maxRetriesOption:
		return agent.Invalid("max_retries", "want 0 to %d", maxRetriesOption)
	case len(o.RetryOn) == 0:
		return agent.Invalid("retry_on", "want at least one type of failure")
	}
	if err := oneOf("on_failure", o.OnFailure, onFailureContinue, onFailureError); err != nil {
		return err
	}
	if err := o.pace.check(); err != nil {
		return err
	}
	if i := slices.Index(o.RetryOn, string(agent.CodeCancelled)); i >= 0 {
		return agent.Invalid(fmt.Sprintf("retry_on[%d]", i), "a cancelled call is never repeated")
	}
	if err := checkNames("retry_on", o.RetryOn); err != nil {
		return err
	}
	return checkNames("tools", o.Tools)
}

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

// WrapTool repeats next, unless the result is settled. A failure that the options do not name is passed on as it came, at once and whatever on_failure says.
func (m *toolRetry) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		if inv.Settled || !appliesTo(m.options.Tools, call.Name) {
			return next(ctx, inv, call)
		}
		var last attempt
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			last = attempt{number: last.number + 1, repeatable: inv.Repeatable}
			last.result, last.err = next(ctx, inv, call)
			return struct{}{}, m.retryError(&last)
		}, backoff.WithBackOff(m.options.waits()), backoff.WithMaxTries(uint(m.options.MaxRetries)+1), backoff.WithMaxElapsedTime(0),
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

// retryError returns what backoff does after an attempt. The outcome of the attempt stays in last.
func (m *toolRetry) retryError(last *attempt) error {
	f := last.failure()
	if f == nil {
		return nil
	}
	last.again = m.mayRepeat(last, f)
	err := last.err
	if err == nil {
		err = f.AsError()
	}
	return m.options.retryError(err, last.again)
}

// mayRepeat reports whether a failure is one to repeat.
func (m *toolRetry) mayRepeat(last *attempt, f *agent.Failure) bool {
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

// giveUp returns the outcome of a call whose last try failed. An error is the call's, for an outer middleware or for the runtime, which
// retries a few times itself.
func (m *toolRetry) giveUp(call agent.ToolCall, last *attempt) (agent.ToolResult, error) {
	f := *last.failure()
	if m.options.OnFailure == onFailureError {
		if last.err != nil {
			return last.result, last.err
		}
		return last.result, f.AsError()
	}
	f.Message = clip.Bytes(fmt.Sprintf("failed after %s: %s", attempts(last.number), f.Message), maxFailureBytes)
	if after := retryAfter(last.err); after > 0 {
		f.Message += fmt.Sprintf(" (asked to wait %s)", after)
	}
	if f.Tool == "" {
		f.Tool = call.Name
	}
	result := last.result
	result.Failure = &f
	return result, nil
}
