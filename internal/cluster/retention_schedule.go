package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	retentionCatchUp   = time.Minute // after an outage the next run removes what the missed ones would have
	retentionMaxJitter = time.Minute
	// ensureInterval is how long a schedule that somebody deleted is missing.
	ensureInterval = 10 * time.Minute
)

// RetentionScheduleConfig is what [NewRetentionSchedule] needs. Only Schedules is required.
type RetentionScheduleConfig struct {
	Schedules client.ScheduleClient
	Every     time.Duration // between two runs; 0: there is no schedule
	TaskQueue string        // empty: [workflows.TaskQueue]
	Logger    *zap.Logger
}

// RetentionSchedule is the schedule of the workflow Retention on a task queue.
type RetentionSchedule struct{ RetentionScheduleConfig }

var _ retention.Schedule = (*RetentionSchedule)(nil)

// NewRetentionSchedule returns the schedule. It creates nothing; see [RetentionSchedule.Ensure].
func NewRetentionSchedule(c RetentionScheduleConfig) (*RetentionSchedule, error) {
	if c.Schedules == nil {
		return nil, errors.New("retention: Schedules is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	return &RetentionSchedule{c}, nil
}

// Run calls Ensure every 10 minutes until ctx ends, and sooner while Temporal is unavailable.
func (s *RetentionSchedule) Run(ctx context.Context) {
	retry := time.Second
	for {
		pause := ensureInterval
		if err := s.Ensure(ctx); err == nil {
			retry = time.Second
		} else if ctx.Err() == nil {
			pause, retry = retry, min(2*retry, ensureInterval)
			s.Logger.Warn("make the schedule of the retention", zap.Duration("again_in", pause), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Ensure creates or updates the schedule as configured, or deletes it if there is no interval. A paused schedule stays paused.
func (s *RetentionSchedule) Ensure(ctx context.Context) error {
	handle := s.Schedules.GetHandle(ctx, s.id())
	if s.Every <= 0 {
		if err := handle.Delete(ctx); !isNotFound(err) {
			return s.unavailable(err)
		}
		return nil
	}
	spec, action := s.specAndAction()
	found, err := handle.Describe(ctx)
	if isNotFound(err) {
		_, err = s.Schedules.Create(ctx, client.ScheduleOptions{
			ID: s.id(), Spec: spec, Action: action, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: retentionCatchUp,
			Note: "made by Turnstone",
		})
		if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return s.unavailable(err)
		}
		found, err = handle.Describe(ctx) // another process has just created it
	}
	if err != nil {
		return s.unavailable(err)
	}
	if s.isAsConfigured(&found.Schedule) {
		return nil
	}
	return s.unavailable(handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule // keeps its state
			next.Spec, next.Action = &spec, action
			next.Policy = &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: retentionCatchUp}
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}))
}

func (s *RetentionSchedule) id() string { return workflows.RetentionID(s.TaskQueue) }

func (s *RetentionSchedule) specAndAction() (client.ScheduleSpec, *client.ScheduleWorkflowAction) {
	spec := client.ScheduleSpec{
		Intervals: []client.ScheduleIntervalSpec{{Every: s.Every}}, Jitter: min(s.Every/10, retentionMaxJitter),
	}
	return spec, &client.ScheduleWorkflowAction{
		ID: s.id(), Workflow: workflows.RetentionType, TaskQueue: s.TaskQueue,
		StaticSummary: "remove what has been kept for long enough",
	}
}

// isAsConfigured reports whether a schedule of Temporal needs no update.
func (s *RetentionSchedule) isAsConfigured(found *client.Schedule) bool {
	action, ok := found.Action.(*client.ScheduleWorkflowAction)
	return ok && action.Workflow == any(workflows.RetentionType) && action.TaskQueue == s.TaskQueue && found.Spec != nil &&
		len(found.Spec.Intervals) == 1 && found.Spec.Intervals[0].Every == s.Every && len(found.Spec.CronExpressions) == 0 &&
		len(found.Spec.Calendars) == 0 && found.Policy != nil && found.Policy.Overlap == enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
}

// Status returns the state of the schedule in Temporal.
func (s *RetentionSchedule) Status(ctx context.Context) (retention.Status, error) {
	out := retention.Status{ID: s.id(), Every: s.Every.String()}
	found, err := s.Schedules.GetHandle(ctx, s.id()).Describe(ctx)
	if isNotFound(err) {
		return out, nil
	}
	if err != nil {
		return out, s.unavailable(err)
	}
	out.Scheduled, out.Running = true, len(found.Info.RunningWorkflows) > 0
	if state := found.Schedule.State; state != nil {
		out.Paused, out.Note = state.Paused, state.Note
	}
	if n := len(found.Info.RecentActions); n > 0 {
		out.LastRun = new(found.Info.RecentActions[n-1].ActualTime.UTC())
	}
	if next := found.Info.NextActionTimes; len(next) > 0 && !out.Paused { // Temporal lists next times of a paused schedule too
		out.NextRun = new(next[0].UTC())
	}
	return out, nil
}

// Trigger starts a run now, even while the schedule is paused, unless one is running. The error is [agent.CodeConflict] if there is no schedule.
func (s *RetentionSchedule) Trigger(ctx context.Context) (retention.Status, error) {
	handle := s.Schedules.GetHandle(ctx, s.id())
	err := handle.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP})
	if err != nil {
		return retention.Status{}, s.missingOrUnavailable(err)
	}
	return s.Status(ctx)
}

// Pause pauses the schedule, or resumes it; note says why. The error is [agent.CodeConflict] if there is no schedule.
func (s *RetentionSchedule) Pause(ctx context.Context, paused bool, note string) (retention.Status, error) {
	handle := s.Schedules.GetHandle(ctx, s.id())
	var err error
	if paused {
		err = handle.Pause(ctx, client.SchedulePauseOptions{Note: note})
	} else {
		err = handle.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note})
	}
	if err != nil {
		return retention.Status{}, s.missingOrUnavailable(err)
	}
	return s.Status(ctx)
}

func (s *RetentionSchedule) missingOrUnavailable(err error) error {
	if isNotFound(err) {
		return agent.Errorf(agent.CodeConflict, "retention", "there is no schedule: retention.every is 0, or no worker has made it yet")
	}
	return s.unavailable(err)
}

func (s *RetentionSchedule) unavailable(err error) error {
	if err == nil {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, "retention", "schedule %q: %w", s.id(), err)
}
