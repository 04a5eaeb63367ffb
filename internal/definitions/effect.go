package definitions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

const (
	maxPause              = time.Minute                    // between two attempts, even if the recipient asks for more
	maxAttemptTime        = 8 * time.Minute                // one attempt
	defaultWebhookTimeout = 30 * time.Second               // of a webhook without timeout_sec
	maxEffectTime         = 9*time.Minute + 30*time.Second // all attempts of one visit; less than the timeout of the activity
)

// visitNamespace is the UUID namespace of idempotency keys and of the turns of agent nodes.
var visitNamespace = uuid.MustParse("b1d7f6f4-5a43-5a0e-9a8e-7d5f0f1f6c21") //nolint:gochecknoglobals // a constant in all but syntax

// idempotencyKey returns the key that all attempts of the visit share.
func (v *nodeVisit) idempotencyKey() string {
	return uuid.NewSHA1(visitNamespace, fmt.Appendf(nil, "%s\x00%s\x00%d", v.in.RunID, v.node.ID, v.in.Visit)).String()
}

// errAlreadyAttempted means that an earlier attempt may have had the effect.
var errAlreadyAttempted = errors.New("an attempt was cut off")

// effect is an action of a visit that must not happen twice, such as sending a mail.
type effect struct {
	visit      *nodeVisit
	repeatable bool // it may safely happen twice
	attempt    func(ctx context.Context, mark func() error) error

	marked  bool // this effect has set the mark of the visit
	lastErr error
}

// runEffect calls attempt until it succeeds or fails permanently. attempt calls mark immediately before the action may take effect. The mark is
// stored: unless the effect is repeatable, an attempt that was interrupted after its mark is never repeated. An attempt that ended before its
// mark had no effect, so any worker may repeat it.
func (v *nodeVisit) runEffect(visitCtx context.Context, repeatable bool, attempt func(ctx context.Context, mark func() error) error) error {
	ctx, stop := context.WithTimeout(visitCtx, maxEffectTime)
	defer stop()
	e := &effect{visit: v, repeatable: repeatable, attempt: attempt}
	if isRetry(ctx) { // an earlier attempt, perhaps on another worker, may have set the mark
		if err := e.mark(ctx); err != nil {
			return effectError(err, repeatable)
		}
	}
	maxTries, pauses := v.retryPolicy()
	retryCtx, release := untilWorkerStops(ctx)
	defer release()
	_, err := backoff.Retry(retryCtx, func() (struct{}, error) { return struct{}{}, e.try(ctx) },
		backoff.WithBackOff(pauses), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(maxEffectTime-maxPause))
	_, isNodeError := errors.AsType[nodeError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errWorkerStops) && !e.marked:
		return agent.Errorf(agent.CodeUnavailable, "run node", "%w", err) // another worker continues
	case errors.Is(err, errWorkerStops):
		return effectError(e.lastErr, repeatable) // because of the mark, no other worker may continue
	case visitCtx.Err() != nil && !isNodeError && (repeatable || !errors.Is(err, notifications.ErrUnknown)):
		return visitCtx.Err() // the effect has not happened, or may happen again
	}
	return effectError(err, repeatable)
}

// mark stores that the effect may happen from now on. It returns errAlreadyAttempted if an earlier attempt has stored that.
func (e *effect) mark(ctx context.Context) error {
	if e.marked || e.repeatable {
		return nil
	}
	v := e.visit
	attempted, err := v.runner.Store.Attempt(ctx, v.in.RunID, v.node.ID, v.in.Visit)
	switch {
	case err != nil:
		return runtimeError{err}
	case attempted:
		return errAlreadyAttempted
	}
	e.marked = true
	return nil
}

// try makes one attempt. Its error tells the retry loop whether and when to retry.
func (e *effect) try(ctx context.Context) error {
	attemptCtx, stop := context.WithTimeout(ctx, e.visit.attemptTimeout())
	defer stop()
	err := e.attempt(attemptCtx, func() error { return e.mark(ctx) })
	e.lastErr = err
	switch {
	case err == nil:
		return nil
	case !canRetry(err, e.repeatable):
		return backoff.Permanent(err)
	}
	if failed, ok := errors.AsType[*agent.Error](err); ok && failed.RetryAfter > 0 {
		return retryAfterError{error: err, pause: backoff.RetryAfterError{Duration: min(failed.RetryAfter, maxPause)}}
	}
	return err
}

// errWorkerStops ends the pause before the next attempt when the worker stops.
var errWorkerStops = errors.New("the worker stops between two attempts")

// untilWorkerStops returns a context for the pauses between attempts. It ends when the worker stops. Attempts use ctx, so a stopping worker grants
// them time to finish.
func untilWorkerStops(ctx context.Context) (retryCtx context.Context, done func()) {
	retryCtx, stop := context.WithCancelCause(ctx)
	attempt, _ := attemptOf(ctx)
	if attempt.WorkerStops == nil {
		return retryCtx, func() { stop(nil) }
	}
	go func() {
		select {
		case <-attempt.WorkerStops:
			stop(errWorkerStops)
		case <-retryCtx.Done():
		}
	}()
	return retryCtx, func() { stop(nil) }
}

// retryPolicy returns the maximum number of attempts of the visit, and the pauses between them.
func (v *nodeVisit) retryPolicy() (uint, *backoff.ExponentialBackOff) {
	r := v.config.Retries
	attempts := r.MaxAttempts
	if attempts <= 0 {
		attempts = v.runner.Attempts
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = v.runner.RetryPause, maxPause
	if r.IntervalSec > 0 {
		pause.InitialInterval = min(time.Duration(r.IntervalSec)*time.Second, maxPause)
	}
	if r.MaxIntervalSec > 0 {
		pause.MaxInterval = min(time.Duration(r.MaxIntervalSec)*time.Second, maxPause)
	}
	return uint(attempts), pause
}

// attemptTimeout returns the time that one attempt may take.
func (v *nodeVisit) attemptTimeout() time.Duration {
	if s := v.config.TimeoutSec; s > 0 && s < int64(maxAttemptTime/time.Second) {
		return time.Duration(s) * time.Second
	} else if s == 0 && v.config.Action == ActionWebhook {
		return defaultWebhookTimeout
	}
	return maxAttemptTime
}

// canRetry reports whether another attempt may follow a failed one.
func canRetry(err error, repeatable bool) bool {
	_, isNodeError := errors.AsType[nodeError](err)
	_, isRuntimeError := errors.AsType[runtimeError](err)
	switch {
	case isNodeError, isRuntimeError, errors.Is(err, errAlreadyAttempted):
		return false
	case errors.Is(err, notifications.ErrUnknown):
		return repeatable
	}
	code := agent.CodeOf(err)
	return code == agent.CodeUnavailable || code == agent.CodeRateLimited
}

// effectError returns the error of a failed effect as an error of the node. Errors of the runtime stay as they are, so that they are retried.
func effectError(err error, repeatable bool) error {
	if e, isRuntimeError := errors.AsType[runtimeError](err); isRuntimeError {
		return e.error
	}
	if _, isNodeError := errors.AsType[nodeError](err); isNodeError {
		return err
	}
	switch {
	case errors.Is(err, errAlreadyAttempted):
		return nodeError{failure: unknownOutcome(errAlreadyAttempted.Error())}
	case errors.Is(err, notifications.ErrUnknown) && repeatable:
		return asNodeError(agent.Errorf(agent.CodeUnavailable, "", "%w", err))
	case errors.Is(err, notifications.ErrUnknown):
		return nodeError{failure: unknownOutcome(err.Error())}
	}
	return asNodeError(err)
}

// unknownOutcome returns the failure of an effect that may have happened.
func unknownOutcome(reason string) *agent.Failure {
	reason = strings.ReplaceAll(reason, ": "+notifications.ErrUnknown.Error(), "") // the message says the same
	return &agent.Failure{Type: agent.OutcomeUnknown, Message: reason + ": it may have taken effect and is not repeated"}
}

// runtimeError is an error of the runtime rather than of the node or the recipient.
type runtimeError struct{ error }

func (e runtimeError) Unwrap() error { return e.error }

// retryAfterError is an error with the pause that the recipient asked for.
type retryAfterError struct {
	error

	pause backoff.RetryAfterError
}

func (e retryAfterError) Unwrap() []error { return []error{e.error, &e.pause} }
