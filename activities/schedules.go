package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schedules"
)

// Schedules are the activities of the workflow ScheduledRun.
type Schedules struct{ runs *schedules.Runs }

// NewSchedules returns the activities over the use cases of scheduled runs.
func NewSchedules(r *schedules.Runs) *Schedules { return &Schedules{runs: r} }

// Registered lists the activities under the names that histories hold.
func (s *Schedules) Registered() []Registration {
	return []Registration{
		{"SubmitScheduledRun", s.SubmitScheduledRun},
		{"AwaitScheduledRun", s.AwaitScheduledRun},
		{"CancelScheduledRun", s.CancelScheduledRun},
		{"FinishScheduledRun", s.FinishScheduledRun},
		{"NotifyScheduledRun", s.NotifyScheduledRun},
	}
}

// SubmitScheduledRun submits the turn of a run; see [schedules.Runs.Submit].
func (s *Schedules) SubmitScheduledRun(ctx context.Context, in schedules.RunRef) (schedules.SubmitResult, error) {
	return short(ctx, s.runs.Submit, in)
}

// AwaitScheduledRun waits for the end of a run's turn; see [schedules.Runs.Await].
func (s *Schedules) AwaitScheduledRun(ctx context.Context, in schedules.AwaitInput) (schedules.AwaitResult, error) {
	var stopping <-chan struct{}
	if activity.IsActivity(ctx) {
		stopping = activity.GetWorkerStopChannel(ctx)
	}
	return long(ctx, func(ctx context.Context, in schedules.AwaitInput) (schedules.AwaitResult, error) {
		return s.runs.Await(ctx, in, stopping)
	}, in)
}

// CancelScheduledRun asks the turn of a run to stop; see [schedules.Runs.Cancel].
func (s *Schedules) CancelScheduledRun(ctx context.Context, id agent.TurnID) error {
	return TemporalError(s.runs.Cancel(ctx, id))
}

// FinishScheduledRun stores how a run ended; see [schedules.Runs.Finish].
func (s *Schedules) FinishScheduledRun(ctx context.Context, in schedules.FinishInput) (schedules.FinishResult, error) {
	return short(ctx, s.runs.Finish, in)
}

// NotifyScheduledRun makes one attempt to send one notice; see [schedules.Runs.Notify]. Temporal waits before the next attempt as long as the
// receiver asked for.
func (s *Schedules) NotifyScheduledRun(ctx context.Context, in schedules.NotifyInput) (schedules.NotifyResult, error) {
	attempt := 1
	if activity.IsActivity(ctx) {
		attempt = int(activity.GetInfo(ctx).Attempt)
	}
	out, err := s.runs.Notify(ctx, in, attempt)
	if e, ok := errors.AsType[*schedules.RetryError](err); ok {
		return out, temporal.NewApplicationErrorWithOptions(e.Error(), string(agent.CodeOf(e)), temporal.ApplicationErrorOptions{NextRetryDelay: e.After})
	}
	return out, TemporalError(err)
}
