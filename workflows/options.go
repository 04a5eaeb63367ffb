package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// quickCeiling bounds one attempt of a local activity: while it runs, queries, updates and cancellation wait.
	quickCeiling = 2 * time.Second
	// quickTotal bounds all quick attempts; then the same function runs as a normal activity.
	quickTotal = 5 * time.Second
	// storeTimeout bounds one attempt of a normal activity that only talks to the store.
	storeTimeout = 30 * time.Second
	// modelTimeout bounds one attempt of a model call; the provider's silence is bounded elsewhere.
	modelTimeout = 30 * time.Minute
	// toolTimeout bounds one attempt of a tool call.
	toolTimeout = 10 * time.Minute
	// heartbeatTimeout is the time after which a dead worker is noticed; the activities heartbeat every 5 s.
	heartbeatTimeout = 15 * time.Second
	// askAgainFirst and askAgainMax space the questions of a waiting turn whose "ready" signal may have been lost.
	askAgainFirst = 30 * time.Second
	askAgainMax   = 10 * time.Minute
)

// retryWithoutLimit returns a policy that retries while the runtime's dependencies are away. An activity that cannot succeed returns a
// non-retryable error.
func retryWithoutLimit() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second}
}

func quickOptions(ctx workflow.Context, summary string, attempts int32) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: quickCeiling, ScheduleToCloseTimeout: quickTotal, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumAttempts: attempts},
	})
}

func storeOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: storeTimeout, RetryPolicy: retryWithoutLimit(), Summary: summary,
	})
}

func modelOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: modelTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(), Summary: summary,
	})
}

// localModelOptions give a local model call the time of a normal one, and one attempt.
func localModelOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: modelTimeout, ScheduleToCloseTimeout: modelTimeout, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

func toolOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: toolTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(), Summary: summary,
	})
}
