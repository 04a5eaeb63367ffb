package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

// retentionServer is Temporal's part, in memory: it has the one schedule, or none.
type retentionServer struct {
	client.ScheduleClient
	client.ScheduleHandle

	has     *client.Schedule
	info    client.ScheduleInfo
	calls   []string
	ids     []string
	err     error
	race    bool
	trigger *client.ScheduleTriggerOptions
}

func (s *retentionServer) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	s.ids = append(s.ids, id)
	return s
}

func (s *retentionServer) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	s.calls = append(s.calls, "create")
	if s.err != nil {
		return nil, s.err
	}
	s.has = &client.Schedule{
		Action: o.Action, Spec: &o.Spec, State: &client.ScheduleState{Paused: o.Paused, Note: o.Note},
		Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow},
	}
	if s.race {
		s.has.Spec = &client.ScheduleSpec{}
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	return s, nil
}

func (s *retentionServer) there(call string) error {
	if call != "describe" {
		s.calls = append(s.calls, call)
	}
	if s.err != nil {
		return s.err
	}
	if s.has == nil {
		return serviceerror.NewNotFound("no schedule")
	}
	return nil
}

func (s *retentionServer) Describe(context.Context) (*client.ScheduleDescription, error) {
	if err := s.there("describe"); err != nil {
		return nil, err
	}
	return &client.ScheduleDescription{Schedule: *s.has, Info: s.info}, nil
}

func (s *retentionServer) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
	if err := s.there("update"); err != nil {
		return err
	}
	next, err := o.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: *s.has}})
	if err != nil {
		return err
	}
	s.has = next.Schedule
	return nil
}

func (s *retentionServer) Delete(context.Context) error {
	err := s.there("delete")
	if err == nil {
		s.has = nil
	}
	return err
}

func (s *retentionServer) Pause(_ context.Context, o client.SchedulePauseOptions) error {
	err := s.there("pause")
	if err == nil {
		s.has.State = &client.ScheduleState{Paused: true, Note: o.Note}
	}
	return err
}

func (s *retentionServer) Unpause(_ context.Context, o client.ScheduleUnpauseOptions) error {
	err := s.there("unpause")
	if err == nil {
		s.has.State = &client.ScheduleState{Note: o.Note}
	}
	return err
}

func (s *retentionServer) Trigger(_ context.Context, o client.ScheduleTriggerOptions) error {
	s.trigger = &o
	return s.there("trigger")
}

func openRetention(t *testing.T, every time.Duration) (*RetentionSchedule, *retentionServer) {
	t.Helper()
	s := &retentionServer{}
	schedule, err := NewRetentionSchedule(RetentionScheduleConfig{Every: every, Schedules: s})
	require.NoError(t, err)
	return schedule, s
}

func TestRetentionScheduleIsEnsured(t *testing.T) {
	schedule, s := openRetention(t, time.Hour)
	require.NoError(t, schedule.Ensure(t.Context()))
	action := s.has.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, workflows.RetentionType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, s.has.Policy.Overlap)
	require.Equal(t, time.Minute, s.has.Policy.CatchupWindow)
	require.Equal(t, time.Minute, s.has.Spec.Jitter)
	require.Equal(t, time.Hour, s.has.Spec.Intervals[0].Every)
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, []string{"create"}, s.calls, "once")

	_, err := schedule.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	schedule.Every = 2 * time.Hour
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, 2*time.Hour, s.has.Spec.Intervals[0].Every)
	require.Equal(t, &client.ScheduleState{Paused: true, Note: "a backup"}, s.has.State, "what an operator paused stays so")
	require.Equal(t, []string{"turnstone-retention"}, slices.Compact(s.ids))
	schedule.TaskQueue = "other"
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, "turnstone-retention/other", s.ids[len(s.ids)-1], "several installations may share a namespace")
	require.Equal(t, "other", s.has.Action.(*client.ScheduleWorkflowAction).TaskQueue)

	schedule.Every = 0
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Nil(t, s.has, "no interval, no schedule")
	require.NoError(t, schedule.Ensure(t.Context()))
	s.err = serviceerror.NewUnavailable("away")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(schedule.Ensure(t.Context())))
	schedule.Every = time.Hour
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(schedule.Ensure(t.Context())))
}

func TestRetentionScheduleMadeMeanwhile(t *testing.T) {
	schedule, s := openRetention(t, time.Hour)
	s.race = true
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, []string{"create", "update"}, s.calls)
	require.Equal(t, time.Hour, s.has.Spec.Intervals[0].Every)
}

func TestRetentionScheduleRunEndsWithContext(t *testing.T) {
	schedule, s := openRetention(t, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	stop()
	go func() { defer close(done); schedule.Run(ctx) }()
	<-done
	require.NotNil(t, s.has)
}

func TestRetentionScheduleStatusPauseAndTrigger(t *testing.T) {
	schedule, s := openRetention(t, time.Hour)
	got, err := schedule.Status(t.Context())
	require.NoError(t, err)
	require.False(t, got.Scheduled)
	for _, call := range []func() (retention.Status, error){
		func() (retention.Status, error) { return schedule.Trigger(t.Context()) },
		func() (retention.Status, error) { return schedule.Pause(t.Context(), true, "") },
		func() (retention.Status, error) { return schedule.Pause(t.Context(), false, "") },
	} {
		_, err = call()
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
		require.ErrorContains(t, err, "retention.every")
	}
	require.NoError(t, schedule.Ensure(t.Context()))
	s.info = client.ScheduleInfo{
		NextActionTimes: []time.Time{tomorrow}, RunningWorkflows: []client.ScheduleWorkflowExecution{{}},
		RecentActions: []client.ScheduleActionResult{{}, {ActualTime: tomorrow.Add(-time.Hour)}},
	}
	got, err = schedule.Trigger(t.Context())
	require.NoError(t, err)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, s.trigger.Overlap)
	require.Equal(t, retention.Status{
		ID: "turnstone-retention", Scheduled: true, Every: "1h0m0s", Note: "made by Turnstone", Running: true, LastRun: new(tomorrow.Add(-time.Hour)), NextRun: &tomorrow,
	}, got)
	got, err = schedule.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	require.True(t, got.Paused)
	require.Equal(t, "a backup", got.Note)
	require.Nil(t, got.NextRun, "whatever Temporal says of its times")
	got, err = schedule.Pause(t.Context(), false, "done")
	require.NoError(t, err)
	require.False(t, got.Paused)
	s.err = serviceerror.NewUnavailable("away")
	_, err = schedule.Status(t.Context())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

func TestRetentionScheduleConfig(t *testing.T) {
	_, err := NewRetentionSchedule(RetentionScheduleConfig{})
	require.ErrorContains(t, err, "Schedules is missing")
}
