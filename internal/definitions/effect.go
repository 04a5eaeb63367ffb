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
)

const (
	maxPause   = time.Minute                    // between two attempts, also where the other side asks for more
	maxAttempt = 8 * time.Minute                // one attempt
	maxWait    = 30 * time.Second               // for a webhook that does not say
	maxEffect  = 9*time.Minute + 30*time.Second // all attempts of one visit, below the activity's own timeout
)

// visitNamespace makes keys and turn ids out of visits.
var visitNamespace = uuid.MustParse("b1d7f6f4-5a43-5a0e-9a8e-7d5f0f1f6c21") //nolint:gochecknoglobals // a constant in all but syntax

// key is the same for every attempt of a visit.
func (v *visit) key() string {
	return uuid.NewSHA1(visitNamespace, fmt.Appendf(nil, "%s\x00%s\x00%d", v.in.RunID, v.node.ID, v.in.Visit)).String()
}

// errMarked says that an attempt before this one may have had the effect.
var errMarked = errors.New("an attempt was cut off")

// effect does something that must not happen twice. do is called again while it says that nothing has happened and that another attempt
// may help. It calls mark before the point of no return: the mark outlives this process, so an attempt that was cut off behind it is
// never repeated, unless the effect is repeatable. Attempts that end before the mark leave no trace and may be made by any worker.
func (v *visit) effect(whole context.Context, repeatable bool, do func(ctx context.Context, mark func() error) error) error {
	ctx, stop := context.WithTimeout(whole, maxEffect)
	defer stop()
	marked := false
	mark := func() error {
		if marked || repeatable {
			return nil
		}
		before, err := v.runner.Store.Attempt(ctx, v.in.RunID, v.node.ID, v.in.Visit)
		switch {
		case err != nil:
			return troubleError{err}
		case before:
			return errMarked
		}
		marked = true
		return nil
	}
	if isRetry(ctx) { // by another worker, perhaps: whether it got that far is known before anything else is tried
		if err := mark(); err != nil {
			return v.verdict(err, repeatable)
		}
	}
	attempts, pause := v.patience()
	patient, stopped := untilStopped(ctx)
	defer stopped()
	var last error
	_, err := backoff.Retry(patient, func() (struct{}, error) {
		once, stop := context.WithTimeout(ctx, v.attemptTime())
		defer stop()
		err := do(once, mark)
		last = err
		switch {
		case err == nil:
			return struct{}{}, nil
		case !mayRepeat(err, repeatable):
			return struct{}{}, backoff.Permanent(err)
		}
		if e, ok := errors.AsType[*agent.Error](err); ok && e.RetryAfter > 0 {
			return struct{}{}, pausedError{error: err, pause: backoff.RetryAfterError{Duration: min(e.RetryAfter, maxPause)}}
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(attempts), backoff.WithMaxElapsedTime(maxEffect-maxPause))
	_, isFault := errors.AsType[faultError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStops) && !marked:
		return agent.Errorf(agent.CodeUnavailable, "run node", "%w", err) // another worker goes on
	case errors.Is(err, errStops):
		return v.verdict(last, repeatable) // another worker would not know that nothing has happened
	case whole.Err() != nil && !isFault && (repeatable || !errors.Is(err, ErrUnknown)):
		return whole.Err() // nothing has happened: the node is not at fault
	}
	return v.verdict(err, repeatable)
}

// errStops says that the worker stops: it does not wait for another attempt.
var errStops = errors.New("the worker stops between two attempts")

// untilStopped ends pauses when the worker stops; what is under way has the time that the worker gives it.
func untilStopped(ctx context.Context) (patient context.Context, done func()) {
	patient, stop := context.WithCancelCause(ctx)
	attempt, _ := attemptOf(ctx)
	if attempt.WorkerStops == nil {
		return patient, func() { stop(nil) }
	}
	go func() {
		select {
		case <-attempt.WorkerStops:
			stop(errStops)
		case <-patient.Done():
		}
	}()
	return patient, func() { stop(nil) }
}

// patience is how often a visit tries, and how long it pauses in between.
func (v *visit) patience() (uint, *backoff.ExponentialBackOff) {
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

// attemptTime bounds one attempt.
func (v *visit) attemptTime() time.Duration {
	if s := v.config.TimeoutSec; s > 0 && s < int64(maxAttempt/time.Second) {
		return time.Duration(s) * time.Second
	} else if s == 0 && v.config.Action == actionWebhook {
		return maxWait
	}
	return maxAttempt
}

// mayRepeat reports whether an attempt that went wrong may be made again at once.
func mayRepeat(err error, repeatable bool) bool {
	_, isFault := errors.AsType[faultError](err)
	_, isTrouble := errors.AsType[troubleError](err)
	switch {
	case isFault, isTrouble, errors.Is(err, errMarked):
		return false
	case errors.Is(err, ErrUnknown):
		return repeatable
	}
	code := agent.CodeOf(err)
	return code == agent.CodeUnavailable || code == agent.CodeRateLimited
}

// verdict makes what became of an effect the node's failure, and leaves the runtime's own trouble to Temporal.
func (v *visit) verdict(err error, repeatable bool) error {
	if trouble, ok := errors.AsType[troubleError](err); ok {
		return trouble.error
	}
	if _, isFault := errors.AsType[faultError](err); isFault {
		return err
	}
	switch {
	case errors.Is(err, errMarked):
		return faultError{failure: unknown(errMarked.Error())}
	case errors.Is(err, ErrUnknown) && repeatable:
		return fault(agent.Errorf(agent.CodeUnavailable, "", "%w", err))
	case errors.Is(err, ErrUnknown):
		return faultError{failure: unknown(err.Error())}
	}
	return fault(err)
}

// unknown is the failure of an effect that may have happened.
func unknown(why string) *agent.Failure {
	why = strings.ReplaceAll(why, ": "+ErrUnknown.Error(), "") // said once, at the end
	return &agent.Failure{Type: agent.OutcomeUnknown, Message: why + ": it may have taken effect and is not repeated"}
}

// troubleError is trouble of the runtime's own.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

// pausedError is an error after which the other side asked for time.
type pausedError struct {
	error

	pause backoff.RetryAfterError
}

func (e pausedError) Unwrap() []error { return []error{e.error, &e.pause} }
