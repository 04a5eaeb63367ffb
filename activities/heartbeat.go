package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeatInterval is by the clock and not by tokens: a silent model is no dead worker.
const heartbeatInterval = 5 * time.Second

// Heartbeat tells Temporal that the worker lives, until the function it returns is called. Outside an activity it does nothing.
func Heartbeat(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) || activity.GetInfo(ctx).IsLocalActivity {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { close(done) }
}

// workerStopping reports whether the worker that runs the activity is stopping, or ctx has ended: another worker continues.
func workerStopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
