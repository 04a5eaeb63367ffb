package definitions

import (
	"context"
	"errors"
)

// ErrCancelled is the error of a visit that was cancelled before its outcome was stored.
var ErrCancelled = errors.New("the visit was cancelled")

// Attempt describes the attempt of a visit that a call makes.
type Attempt struct {
	Number      int             // 1 for the first
	WorkerStops <-chan struct{} // closed when the worker stops, which also cancels the context; nil if the worker never stops
}

type attemptKey struct{}

// WithAttempt returns a context that carries the attempt to the methods of a [Runner].
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// attemptOf returns the attempt that ctx carries; ok is false if there is none.
func attemptOf(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

// isRetry reports whether ctx is that of a second or later attempt.
func isRetry(ctx context.Context) bool {
	a, _ := attemptOf(ctx)
	return a.Number > 1
}

// isCancelled reports whether the visit was cancelled. A stopping worker cancels the context too, but not the visit.
func isCancelled(ctx context.Context) bool {
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
