package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
)

// retryable is the one table from error codes to Temporal's retries. What reaches it is trouble of the runtime's own: a provider's
// or a tool's failure is data by then (DESIGN §6, §7).
func retryable(c agent.Code) bool {
	switch c {
	case agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeInternal:
		return true
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied, agent.CodeConflict, agent.CodeOverflow, agent.CodeCancelled:
		return false
	default:
		return true
	}
}

// FencedError is the type of the error of an attempt that a newer one has fenced, or whose turn has ended.
const FencedError = "fenced"

// TemporalError is that table, for the activities of other workflows.
func TemporalError(err error) error { return temporalError(err) }

// Retryable reports whether the same may succeed later.
func Retryable(c agent.Code) bool { return retryable(c) }

// temporalError turns an error into what Temporal acts on; its type is the code.
func temporalError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, agent.ErrFenced) || errors.Is(err, agent.ErrStreamClosed) {
		// A worker that was frozen may start an old attempt after a newer one, and so fence the newer one. Temporal ignores the old attempt's
		// result, so the newer one must be retried.
		return temporal.NewApplicationErrorWithOptions(err.Error(), FencedError, temporal.ApplicationErrorOptions{
			NonRetryable: errors.Is(err, agent.ErrStreamClosed), Cause: err,
		})
	}
	var application *temporal.ApplicationError
	if errors.As(err, &application) || temporal.IsCanceledError(err) {
		return err
	}
	code := agent.CodeOf(err)
	// Workflows cancel no activity: a context that was cancelled belongs to a worker that stops, and another one goes on.
	stopped := errors.Is(err, context.Canceled)
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: !retryable(code) && !stopped, Cause: err, Details: []any{agent.FailureOf(err)},
	})
}
