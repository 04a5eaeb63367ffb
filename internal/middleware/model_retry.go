package middleware

import (
	"context"
	"encoding/json"
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
		pace: defaultPace(), RetryOn: []agent.Code{agent.CodeUnavailable, agent.CodeRateLimited}, OnFailure: onFailureError,
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
	if n := valueOr(o.MaxRetries, 0); n < 0 || n > maxRetriesOption {
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
		var last error
		reply, err := backoff.Retry(ctx, func() (reply agent.ModelReply, err error) {
			tries++
			reply, last = next(ctx, inv, req, emit)
			return reply, m.options.retryError(last, slices.Contains(m.options.RetryOn, agent.CodeOf(last)))
		}, backoff.WithBackOff(m.options.waits()), backoff.WithMaxTries(uint(m.retries(req.Profile))+1), backoff.WithMaxElapsedTime(0))
		if isRetryError(err) {
			err = last
		}
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
	return valueOr(m.options.MaxRetries, retries)
}

// failureReply returns a reply with the error of a call that failed. It is not streamed, because the producer that failed is closed and
// may have streamed half an answer.
func failureReply(tries int, err error) agent.ModelReply {
	text := clip.Bytes(fmt.Sprintf("Model call failed after %s with %s: %s", attempts(tries), agent.CodeOf(err), err), maxFailureBytes)
	return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop}
}
