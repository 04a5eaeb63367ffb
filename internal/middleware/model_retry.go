package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// modelRetry repeats a model call that the provider may answer a little later: rate limits and outages, never refusals. It is the
// only retry of provider errors there is; plans that do not name it have it with its defaults. Waiting is cenkalti/backoff's.
type modelRetry struct {
	agent.Pass
	options    modelRetryOptions
	maxRetries int            // where the options do not say
	ofProfile  map[string]int // likewise, by profile; preferred to maxRetries
}

// modelRetryOptions are LangChain v1's of the same names; exceptions are codes here. One default differs: after the last try LangChain
// lets the error's text be the agent's answer (continue); here the turn fails with the error, so that nobody takes it for an answer and
// a model_fallback further out can ask another model.
type modelRetryOptions struct {
	pace

	MaxRetries *int         `json:"max_retries"` // after the first try; nil: as the configuration says
	RetryOn    []agent.Code `json:"retry_on"`    // default unavailable, rate_limited
	OnFailure  string       `json:"on_failure"`  // of a call that is not repeated again: error (default), or continue: the error is the reply
}

func newModelRetry(maxRetries int, ofProfile map[string]int, options json.RawMessage) (agent.Middleware, error) {
	m := &modelRetry{maxRetries: maxRetries, ofProfile: ofProfile, options: modelRetryOptions{
		pace: usualPace(), RetryOn: []agent.Code{agent.CodeUnavailable, agent.CodeRateLimited}, OnFailure: onFailureError,
	}}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	if err := m.options.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (o *modelRetryOptions) check() error {
	if n := or(o.MaxRetries, 0); n < 0 || n > maxRetriesOption {
		return agent.Invalid("max_retries", "want 0 to %d", maxRetriesOption)
	}
	// A refused request and a bad key stay what they are.
	repeatable := []agent.Code{agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeConflict, agent.CodeOverflow, agent.CodeInternal}
	if len(o.RetryOn) == 0 || len(o.RetryOn) > len(repeatable) {
		return agent.Invalid("retry_on", "want 1 to %d codes", len(repeatable))
	}
	for i, c := range o.RetryOn {
		if err := oneOf(fmt.Sprintf("retry_on[%d]", i), c, repeatable...); err != nil {
			return err
		}
	}
	if err := oneOf("on_failure", o.OnFailure, onFailureError, onFailureContinue); err != nil {
		return err
	}
	return o.pace.check()
}

// WrapModel repeats next. With on_failure continue every error becomes the reply, as in LangChain: also one that is not repeated.
// A provider that asks for more patience than MaxDelay is given up on: its error says when to come back.
func (m *modelRetry) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		tries := 0
		reply, err := backoff.Retry(ctx, func() (agent.ModelReply, error) {
			tries++
			reply, err := next(ctx, inv, req, emit)
			return reply, m.classify(err)
		}, backoff.WithBackOff(m.options.waits()), backoff.WithMaxTries(uint(m.retries(req.Profile))+1), backoff.WithMaxElapsedTime(0))
		err = unwrap(err)
		if err == nil || m.options.OnFailure != onFailureContinue || ctx.Err() != nil || agent.CodeOf(err) == agent.CodeCancelled {
			return reply, err
		}
		return failureReply(tries, err), nil
	}
}

// retries returns how often a call of a profile's model is made again.
func (m *modelRetry) retries(profile string) int {
	retries, ok := m.ofProfile[profile]
	if !ok {
		retries = m.maxRetries
	}
	return or(m.options.MaxRetries, retries)
}

// repeats reports whether an error is one that the options name.
func (m *modelRetry) repeats(err error) bool {
	return slices.Contains(m.options.RetryOn, agent.CodeOf(err))
}

// failureReply tells of a call that failed to the last, in the words of the model. It is not streamed: the producer that failed may have
// streamed half an answer, and is closed.
func failureReply(tries int, err error) agent.ModelReply {
	times := "1 attempt"
	if tries != 1 {
		times = fmt.Sprintf("%d attempts", tries)
	}
	text := clip.Bytes(fmt.Sprintf("Model call failed after %s with %s: %s", times, agent.CodeOf(err), err), maxFailureBytes)
	return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop}
}

// classify tells backoff what to do about an error.
func (m *modelRetry) classify(err error) error {
	if err == nil {
		return nil
	}
	after := patience(err)
	switch {
	case !m.repeats(err), after > seconds(m.options.MaxDelay):
		return backoff.Permanent(err)
	case after > 0:
		return &waitError{cause: err, after: &backoff.RetryAfterError{Duration: after}}
	default:
		return err
	}
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
