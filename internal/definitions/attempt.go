package definitions

import (
	"context"
	"errors"
)

// ErrCancelled is returned for a visit that was cancelled before it ended. What it has done is not known to the store.
var ErrCancelled = errors.New("the visit was cancelled")

// Attempt says which attempt of a visit a call is.
type Attempt struct {
	Number      int             // 1 for the first
	WorkerStops <-chan struct{} // closed when the worker stops, which cancels the context as well; nil: it does not stop
}

type attemptKey struct{}

// WithAttempt returns a context that carries the attempt to the methods of a [Runner].
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

func attemptOf(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

// isRetry reports whether this is not the first attempt.
func isRetry(ctx context.Context) bool {
	a, _ := attemptOf(ctx)
	return a.Number > 1
}

// wasCancelled reports whether somebody cancelled the visit, rather than its worker being stopped.
func wasCancelled(ctx context.Context) bool {
	a, ok := attemptOf(ctx)
	if !ok || !errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	select {
	case <-a.WorkerStops:
		return false
	default:
		return true
	}
}
