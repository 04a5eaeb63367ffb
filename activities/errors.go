package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
)

// FencedError is the type of the error of an attempt that a newer one has fenced, or whose turn has ended.
const FencedError = "fenced"

// TemporalError returns an error in Temporal's form: its type is the code, and it says whether to retry.
func TemporalError(err error) error {
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
	if errors.Is(err, definitions.ErrCancelled) {
		return temporal.NewCanceledError()
	}
	var application *temporal.ApplicationError
	if errors.As(err, &application) || temporal.IsCanceledError(err) {
		return err
	}
	code := agent.CodeOf(err)
	// Workflows cancel no activity: a context that was cancelled belongs to a worker that stops, and another one goes on.
	stopped := errors.Is(err, context.Canceled)
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: !code.Retryable() && !stopped, Cause: err, Details: []any{agent.FailureOf(err)},
	})
}
