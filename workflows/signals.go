package workflows

import "go.temporal.io/sdk/workflow"

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
