package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

const retentionID = "turnstone-retention"

func openRetention(t *testing.T) (*RetentionSchedule, *scheduleServer) {
	t.Helper()
	s := newScheduleServer(workflows.RetentionType)
	schedule, err := NewRetentionSchedule(RetentionScheduleConfig{Every: time.Hour, Schedules: s})
	require.NoError(t, err)
	return schedule, s
}

func TestRetentionScheduleIsEnsured(t *testing.T) {
	schedule, s := openRetention(t)
	require.NoError(t, schedule.Ensure(t.Context()))
	created := s.All[retentionID]
	action := created.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, workflows.RetentionType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, created.Policy.Overlap)
	require.Equal(t, time.Minute, created.Policy.CatchupWindow)
	require.Equal(t, time.Minute, created.Spec.Jitter)
	require.Equal(t, time.Hour, created.Spec.Intervals[0].Every)
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, []string{"create " + retentionID}, s.Changes, "once")

	_, err := schedule.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	schedule.Every = 2 * time.Hour
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, 2*time.Hour, s.All[retentionID].Spec.Intervals[0].Every)
	require.Equal(t, &client.ScheduleState{Paused: true, Note: "a backup"}, s.All[retentionID].State, "what an operator paused stays so")
	schedule.TaskQueue = "other"
	const otherID = retentionID + "/other"
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Len(t, s.All, 2, "several installations may share a namespace")
	require.Equal(t, "other", s.All[otherID].Action.(*client.ScheduleWorkflowAction).TaskQueue)

	schedule.Every = 0
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Nil(t, s.All[otherID], "no interval, no schedule")
	require.NoError(t, schedule.Ensure(t.Context()))
	s.Broken[otherID] = serviceerror.NewUnavailable("away")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(schedule.Ensure(t.Context())))
	schedule.Every = time.Hour
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(schedule.Ensure(t.Context())))
}

func TestRetentionScheduleMadeMeanwhile(t *testing.T) {
	schedule, s := openRetention(t)
	s.Race = true
	require.NoError(t, schedule.Ensure(t.Context()))
	require.Equal(t, []string{"update " + retentionID}, s.Changes)
	require.Equal(t, time.Hour, s.All[retentionID].Spec.Intervals[0].Every)
}

// watchedServer calls onLook whenever a schedule is looked at.
type watchedServer struct {
	*scheduleServer

	onLook func()
}

func (s *watchedServer) GetHandle(ctx context.Context, id string) client.ScheduleHandle {
	s.onLook()
	return s.scheduleServer.GetHandle(ctx, id)
}

func TestRetentionScheduleRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := &watchedServer{scheduleServer: newScheduleServer(workflows.RetentionType)}
		began := time.Now()
		var looks []time.Duration
		s.onLook = func() {
			looks = append(looks, time.Since(began))
			switch len(looks) {
			case 2:
				s.Broken[retentionID] = serviceerror.NewUnavailable("away")
			case 3:
				delete(s.Broken, retentionID)
			case 4:
				stop()
			}
		}
		schedule, err := NewRetentionSchedule(RetentionScheduleConfig{Every: time.Hour, Schedules: s})
		require.NoError(t, err)
		schedule.Run(ctx)
		require.Contains(t, s.All, retentionID)
		require.Equal(t, []time.Duration{0, ensureInterval, ensureInterval + time.Second, 2*ensureInterval + time.Second}, looks, "a failure is repeated soon")
	})
}

func TestRetentionScheduleStatusPauseAndTrigger(t *testing.T) {
	schedule, s := openRetention(t)
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
	s.Info = client.ScheduleInfo{
		NextActionTimes: []time.Time{tomorrow}, RunningWorkflows: []client.ScheduleWorkflowExecution{{}},
		RecentActions: []client.ScheduleActionResult{{}, {ActualTime: tomorrow.Add(-time.Hour)}},
	}
	got, err = schedule.Trigger(t.Context())
	require.NoError(t, err)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, s.Triggered.Overlap)
	require.Equal(t, retention.Status{
		ID: retentionID, Scheduled: true, Every: "1h0m0s", Note: "made by Turnstone", Running: true, LastRun: new(tomorrow.Add(-time.Hour)), NextRun: &tomorrow,
	}, got)
	got, err = schedule.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	require.True(t, got.Paused)
	require.Equal(t, "a backup", got.Note)
	require.Nil(t, got.NextRun, "whatever Temporal says of its times")
	got, err = schedule.Pause(t.Context(), false, "done")
	require.NoError(t, err)
	require.False(t, got.Paused)
	s.Broken[retentionID] = serviceerror.NewUnavailable("away")
	_, err = schedule.Status(t.Context())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

func TestRetentionScheduleConfig(t *testing.T) {
	_, err := NewRetentionSchedule(RetentionScheduleConfig{})
	require.ErrorContains(t, err, "Schedules is missing")
}
