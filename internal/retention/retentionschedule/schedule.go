package retentionschedule

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	catchUp    = time.Minute // after an outage the next run does what was missed
	mostJitter = time.Minute
	// ensureAgain is how soon a schedule that somebody deleted is there again.
	ensureAgain = 10 * time.Minute
)

// Run makes the schedule be as configured, and again every 10 minutes until ctx ends: sooner while Temporal is away.
func (k *Keeper) Run(ctx context.Context) {
	pause := time.Second
	for {
		err := k.Ensure(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.Logger.Warn("make the schedule of the retention", zap.Duration("again_in", pause), zap.Error(err))
		default:
			pause = ensureAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, ensureAgain)
	}
}

// Ensure makes the schedule be as configured; without an interval there is none. Whether it is paused is the operator's: one that is stays so.
func (k *Keeper) Ensure(ctx context.Context) error {
	handle := k.Schedules.GetHandle(ctx, workflows.RetentionID(k.TaskQueue))
	if k.Policy.Every <= 0 {
		if err := handle.Delete(ctx); !isNotFound(err) {
			return k.unavailable(err)
		}
		return nil
	}
	spec, action := k.wanted()
	found, err := handle.Describe(ctx)
	if isNotFound(err) {
		_, err = k.Schedules.Create(ctx, client.ScheduleOptions{
			ID: workflows.RetentionID(k.TaskQueue), Spec: spec, Action: action, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp,
			Note: "made by Turnstone",
		})
		if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return k.unavailable(err)
		}
		found, err = handle.Describe(ctx) // somebody else was faster
	}
	if err != nil {
		return k.unavailable(err)
	}
	if k.same(&found.Schedule) {
		return nil
	}
	return k.unavailable(handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule // with its state
			next.Spec, next.Action = &spec, action
			next.Policy = &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp}
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}))
}

func (k *Keeper) wanted() (client.ScheduleSpec, *client.ScheduleWorkflowAction) {
	spec := client.ScheduleSpec{
		Intervals: []client.ScheduleIntervalSpec{{Every: k.Policy.Every}}, Jitter: min(k.Policy.Every/10, mostJitter),
	}
	return spec, &client.ScheduleWorkflowAction{
		ID: workflows.RetentionID(k.TaskQueue), Workflow: workflows.RetentionType, TaskQueue: k.TaskQueue,
		StaticSummary: "remove what has been kept for long enough",
	}
}

// same reports whether a schedule is as configured.
func (k *Keeper) same(s *client.Schedule) bool {
	action, ok := s.Action.(*client.ScheduleWorkflowAction)
	return ok && action.Workflow == any(workflows.RetentionType) && action.TaskQueue == k.TaskQueue && s.Spec != nil &&
		len(s.Spec.Intervals) == 1 && s.Spec.Intervals[0].Every == k.Policy.Every && len(s.Spec.CronExpressions) == 0 &&
		len(s.Spec.Calendars) == 0 && s.Policy != nil && s.Policy.Overlap == enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
}

// Status says how the schedule stands in Temporal.
func (k *Keeper) Status(ctx context.Context) (retention.Status, error) {
	out := retention.Status{ID: workflows.RetentionID(k.TaskQueue), Every: k.Policy.Every.String()}
	found, err := k.Schedules.GetHandle(ctx, workflows.RetentionID(k.TaskQueue)).Describe(ctx)
	if isNotFound(err) {
		return out, nil
	}
	if err != nil {
		return out, k.unavailable(err)
	}
	out.Scheduled, out.Running = true, len(found.Info.RunningWorkflows) > 0
	if state := found.Schedule.State; state != nil {
		out.Paused, out.Note = state.Paused, state.Note
	}
	if n := len(found.Info.RecentActions); n > 0 {
		out.LastRun = new(found.Info.RecentActions[n-1].ActualTime.UTC())
	}
	if next := found.Info.NextActionTimes; len(next) > 0 && !out.Paused { // Temporal goes on to say when it would run
		out.NextRun = new(next[0].UTC())
	}
	return out, nil
}

// Trigger begins a run now, also while the schedule is paused, unless one is at work. Without a schedule it is [agent.CodeConflict].
func (k *Keeper) Trigger(ctx context.Context) (retention.Status, error) {
	handle := k.Schedules.GetHandle(ctx, workflows.RetentionID(k.TaskQueue))
	err := handle.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP})
	if err != nil {
		return retention.Status{}, k.absent(err)
	}
	return k.Status(ctx)
}

// Pause keeps the schedule from running, or lets it run again; note says why.
func (k *Keeper) Pause(ctx context.Context, paused bool, note string) (retention.Status, error) {
	handle := k.Schedules.GetHandle(ctx, workflows.RetentionID(k.TaskQueue))
	var err error
	if paused {
		err = handle.Pause(ctx, client.SchedulePauseOptions{Note: note})
	} else {
		err = handle.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note})
	}
	if err != nil {
		return retention.Status{}, k.absent(err)
	}
	return k.Status(ctx)
}

func (k *Keeper) absent(err error) error {
	if isNotFound(err) {
		return agent.Errorf(agent.CodeConflict, "retention", "there is no schedule: retention.every is 0, or no worker has made it yet")
	}
	return k.unavailable(err)
}

func (k *Keeper) unavailable(err error) error {
	if err == nil {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, "retention", "schedule %q: %w", workflows.RetentionID(k.TaskQueue), err)
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}
