package workflows

import (
	"go.temporal.io/sdk/workflow"

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
