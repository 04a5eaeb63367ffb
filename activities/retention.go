package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/turnstone-run/turnstone/internal/retention"
)

// Retention are the activities of the workflow Retention.
type Retention struct{ sweeper *retention.Sweeper }

// NewRetention returns the activities over a sweeper.
func NewRetention(s *retention.Sweeper) *Retention { return &Retention{sweeper: s} }

// Registered lists the activities under the names that histories hold.
func (r *Retention) Registered() []Registration {
	return []Registration{
		{"ListRetention", r.ListRetention},
		{"SweepRetention", r.SweepRetention},
		{"CollectRetention", r.CollectRetention},
	}
}

// ListRetention lists the sweeps that are due; see [retention.Sweeper.ListDue].
func (r *Retention) ListRetention(ctx context.Context, in retention.ListDueInput) (retention.ListDueResult, error) {
	return short(ctx, r.sweeper.ListDue, in)
}

// SweepRetention does a sweep, from where the last attempt reported to be; see [retention.Sweeper.Sweep].
func (r *Retention) SweepRetention(ctx context.Context, in retention.SweepInput) (retention.SweepResult, error) {
	out, err := r.sweeper.Sweep(ctx, in.Sweep, lastProgress(ctx, in), func(p retention.SweepProgress) bool {
		activity.RecordHeartbeat(ctx, p)
		return !workerStopping(ctx)
	})
	return out, TemporalError(err)
}

// lastProgress returns what the last attempt reported. If there was none, or it was of another release, the sweep begins where its input says.
func lastProgress(ctx context.Context, in retention.SweepInput) retention.SweepProgress {
	var last retention.SweepProgress
	if !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, &last) != nil {
		return retention.SweepProgress{From: in.From}
	}
	return last
}

// CollectRetention removes data that belongs to no tenant; see [retention.Sweeper.Collect].
func (r *Retention) CollectRetention(ctx context.Context) (retention.SweepResult, error) {
	defer Heartbeat(ctx)()
	out, err := r.sweeper.Collect(ctx)
	return out, TemporalError(err)
}
