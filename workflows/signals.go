package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// serve hands each signal of a channel to a handler, for the rest of the run. It waits for the channel to hold something instead of
// blocking in Receive: the SDK gives a signal to a blocked receiver directly, and until that coroutine runs the signal is neither in
// the channel nor handled. A run that continued as new in that moment would lose it.
func serve[T any](ctx workflow.Context, name string, c workflow.ReceiveChannel, handle func(workflow.Context, T)) {
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		for {
			if err := workflow.Await(ctx, func() bool { return c.Len() > 0 }); err != nil {
				return
			}
			var v T
			if c.ReceiveAsync(&v) {
				handle(ctx, v)
			}
		}
	})
}

// handleCancel registers the handler of the update "cancel". An update with unknown fields is refused before history holds anything of it.
func handleCancel(ctx workflow.Context, description string, cancel func(workflow.Context, agent.CancelRequest) error) error {
	check := func(c agent.CancelUpdate) error {
		if err := c.Check(); err != nil {
			return refusalError(agent.FailureOf(err))
		}
		return nil
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateCancel,
		func(ctx workflow.Context, c agent.CancelUpdate) error { return cancel(ctx, c.CancelRequest) },
		workflow.UpdateHandlerOptions{Description: description, Validator: check})
}

// strictUpdate returns the options of an update whose handler takes an [activities.UpdateInput] of T: unknown fields, wrong types, and what check
// refuses, are refused before history holds anything of the update. Signals of the same name are read leniently: nobody waits for their answer.
func strictUpdate[T any](description string, check func(T) error) workflow.UpdateHandlerOptions {
	return workflow.UpdateHandlerOptions{Description: description, Validator: func(in activities.UpdateInput[T]) error {
		if err := in.Check(); err != nil {
			return refusalError(agent.FailureOf(err))
		}
		return check(in.Value)
	}}
}

// withInput returns the handler of an update that takes an [activities.UpdateInput] and gives handle its value.
func withInput[T, Out any](handle func(workflow.Context, T) (Out, error)) func(workflow.Context, activities.UpdateInput[T]) (Out, error) {
	return func(ctx workflow.Context, in activities.UpdateInput[T]) (Out, error) { return handle(ctx, in.Value) }
}

// withInputOnly is withInput for a handler that returns nothing.
func withInputOnly[T any](handle func(workflow.Context, T) error) func(workflow.Context, activities.UpdateInput[T]) error {
	return func(ctx workflow.Context, in activities.UpdateInput[T]) error { return handle(ctx, in.Value) }
}
