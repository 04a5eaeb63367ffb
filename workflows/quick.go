package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// quickAttempts is how often a local activity is tried before it is run as a normal one.
const quickAttempts = 3

// runQuick runs a store activity locally, which costs one history event instead of three and no round trip, and as a normal activity
// when that does not work within its ceiling. The marker gets no summary: it holds the activity's name.
func runQuick(ctx workflow.Context, summary string, fn any, out any, args ...any) error {
	return runQuickWith(ctx, quickOptions(ctx, "", quickAttempts), summary, fn, out, args...)
}

// runQuickWithSummary is runQuick for an activity whose marker shows a summary.
func runQuickWithSummary(ctx workflow.Context, summary string, fn any, out any, args ...any) error {
	return runQuickWith(ctx, quickOptions(ctx, summary, quickAttempts), summary, fn, out, args...)
}

func runQuickWith(ctx, local workflow.Context, summary string, fn any, out any, args ...any) error {
	err := workflow.ExecuteLocalActivity(local, fn, args...).Get(ctx, out)
	if err == nil || isFinal(err) {
		return err
	}
	return workflow.ExecuteActivity(storeOptions(ctx, summary), fn, args...).Get(ctx, out)
}

// isFinal reports whether retrying an activity cannot help.
func isFinal(err error) bool {
	var application *temporal.ApplicationError
	return temporal.IsCanceledError(err) || (errors.As(err, &application) && application.NonRetryable())
}
