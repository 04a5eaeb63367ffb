package retentionschedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/activities/keeping"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/internal/retention/retentionschedule"
	"github.com/turnstone-run/turnstone/workflows"
)

var (
	_        retentionschedule.Store = (*postgres.Store)(nil)
	tomorrow                         = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
)

// server is Temporal's part, in memory: it has the one schedule, or none.
type server struct {
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

func (s *server) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	s.ids = append(s.ids, id)
	return s
}

func (s *server) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
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

func (s *server) there(call string) error {
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

func (s *server) Describe(context.Context) (*client.ScheduleDescription, error) {
	if err := s.there("describe"); err != nil {
		return nil, err
	}
	return &client.ScheduleDescription{Schedule: *s.has, Info: s.info}, nil
}

func (s *server) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
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

func (s *server) Delete(context.Context) error {
	err := s.there("delete")
	if err == nil {
		s.has = nil
	}
	return err
}

func (s *server) Pause(_ context.Context, o client.SchedulePauseOptions) error {
	err := s.there("pause")
	if err == nil {
		s.has.State = &client.ScheduleState{Paused: true, Note: o.Note}
	}
	return err
}

func (s *server) Unpause(_ context.Context, o client.ScheduleUnpauseOptions) error {
	err := s.there("unpause")
	if err == nil {
		s.has.State = &client.ScheduleState{Note: o.Note}
	}
	return err
}

func (s *server) Trigger(_ context.Context, o client.ScheduleTriggerOptions) error {
	s.trigger = &o
	return s.there("trigger")
}

// shelf is a store with two tenants.
type shelf struct {
	asked []postgres.Sweep
	err   error
}

func (s *shelf) RetentionTenants(_ context.Context, after string, limit int) (found []string, err error) {
	for _, tenant := range []string{"acme", "zoo"} {
		if tenant > after && len(found) < limit {
			found = append(found, tenant)
		}
	}
	return found, s.err
}

func (s *shelf) RetentionDue(_ context.Context, all []postgres.Sweep) ([]postgres.Sweep, error) {
	s.asked = all
	return all[1:], s.err
}

func (s *shelf) SweepRetention(_ context.Context, w postgres.Sweep, at postgres.SweepCursor) (postgres.Swept, error) {
	at.Stage++
	return postgres.Swept{Removed: 3, Bytes: 4, Next: at, Done: w.Kind == "audit"}, s.err
}

func (s *shelf) StoredKind(_ context.Context, _, kind string, before time.Time) (postgres.StoredKind, error) {
	k := postgres.StoredKind{Count: 7, More: kind == "usage", Oldest: &tomorrow}
	if !before.IsZero() {
		k.Due = 2
	}
	return k, s.err
}

func (s *shelf) OldestKept(context.Context, string, string) (*time.Time, error) {
	return &tomorrow, s.err
}

func open(t *testing.T, every time.Duration) (*retentionschedule.Keeper, *server, *shelf) {
	t.Helper()
	s, d := &server{}, &shelf{}
	k, err := retentionschedule.New(retentionschedule.Config{
		Policy: retention.Policy{
			Every: every, Keep: retention.Keep{Events: new(168 * time.Hour), Audit: new(240 * time.Hour)},
			Tenants: []retention.Tenant{{Tenant: "zoo", Keep: retention.Keep{Events: new(time.Hour)}}},
		},
		Store: d, Schedules: s, Now: func() time.Time { return tomorrow },
	})
	require.NoError(t, err)
	return k, s, d
}

func TestEnsure(t *testing.T) {
	k, s, _ := open(t, time.Hour)
	require.NoError(t, k.Ensure(t.Context()))
	action := s.has.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, workflows.RetentionType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, s.has.Policy.Overlap)
	require.Equal(t, time.Minute, s.has.Policy.CatchupWindow)
	require.Equal(t, time.Minute, s.has.Spec.Jitter)
	require.Equal(t, time.Hour, s.has.Spec.Intervals[0].Every)
	require.NoError(t, k.Ensure(t.Context()))
	require.Equal(t, []string{"create"}, s.calls, "once")

	_, err := k.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	k.Policy.Every = 2 * time.Hour
	require.NoError(t, k.Ensure(t.Context()))
	require.Equal(t, 2*time.Hour, s.has.Spec.Intervals[0].Every)
	require.Equal(t, &client.ScheduleState{Paused: true, Note: "a backup"}, s.has.State, "what an operator paused stays so")
	require.Equal(t, []string{"turnstone-retention"}, slices.Compact(s.ids))
	k.TaskQueue = "other"
	require.NoError(t, k.Ensure(t.Context()))
	require.Equal(t, "turnstone-retention/other", s.ids[len(s.ids)-1], "several installations may share a namespace")
	require.Equal(t, "other", s.has.Action.(*client.ScheduleWorkflowAction).TaskQueue)

	k.Policy.Every = 0
	require.NoError(t, k.Ensure(t.Context()))
	require.Nil(t, s.has, "no interval, no schedule")
	require.NoError(t, k.Ensure(t.Context()))
	s.err = serviceerror.NewUnavailable("away")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(k.Ensure(t.Context())))
	k.Policy.Every = time.Hour
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(k.Ensure(t.Context())))
}

func TestSomebodyElseMadeIt(t *testing.T) {
	k, s, _ := open(t, time.Hour)
	s.race = true
	require.NoError(t, k.Ensure(t.Context()))
	require.Equal(t, []string{"create", "update"}, s.calls)
	require.Equal(t, time.Hour, s.has.Spec.Intervals[0].Every)
}

func TestRunEndsWithItsContext(t *testing.T) {
	k, s, _ := open(t, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	stop()
	go func() { defer close(done); k.Run(ctx) }()
	<-done
	require.NotNil(t, s.has)
}

func TestStatusPauseAndTrigger(t *testing.T) {
	k, s, _ := open(t, time.Hour)
	got, err := k.Status(t.Context())
	require.NoError(t, err)
	require.False(t, got.Scheduled)
	for _, call := range []func() (retention.Status, error){
		func() (retention.Status, error) { return k.Trigger(t.Context()) },
		func() (retention.Status, error) { return k.Pause(t.Context(), true, "") },
		func() (retention.Status, error) { return k.Pause(t.Context(), false, "") },
	} {
		_, err = call()
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
		require.ErrorContains(t, err, "retention.every")
	}
	require.NoError(t, k.Ensure(t.Context()))
	s.info = client.ScheduleInfo{
		NextActionTimes: []time.Time{tomorrow}, RunningWorkflows: []client.ScheduleWorkflowExecution{{}},
		RecentActions: []client.ScheduleActionResult{{}, {ActualTime: tomorrow.Add(-time.Hour)}},
	}
	got, err = k.Trigger(t.Context())
	require.NoError(t, err)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, s.trigger.Overlap)
	require.Equal(t, retention.Status{
		ID: "turnstone-retention", Scheduled: true, Every: "1h0m0s", Note: "made by Turnstone", Running: true, LastRun: new(tomorrow.Add(-time.Hour)), NextRun: &tomorrow,
	}, got)
	got, err = k.Pause(t.Context(), true, "a backup")
	require.NoError(t, err)
	require.True(t, got.Paused)
	require.Equal(t, "a backup", got.Note)
	require.Nil(t, got.NextRun, "whatever Temporal says of its times")
	got, err = k.Pause(t.Context(), false, "done")
	require.NoError(t, err)
	require.False(t, got.Paused)
	s.err = serviceerror.NewUnavailable("away")
	_, err = k.Status(t.Context())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_, err = k.Report(t.Context(), "acme", agent.Page{})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

func TestPlanAndSweep(t *testing.T) {
	k, _, d := open(t, time.Hour)
	due, next, err := k.Sweeps(t.Context(), "", tomorrow, 1)
	require.NoError(t, err)
	require.Equal(t, "acme", next)
	require.Equal(t, []postgres.Sweep{
		{Kind: "events", Before: tomorrow.Add(-720 * time.Hour)},
		{Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)},
		{Tenant: "acme", Kind: "events", Before: tomorrow.Add(-168 * time.Hour)},
		{Tenant: "acme", Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)},
	}, d.asked, "what is nobody's comes first")
	require.Len(t, due, 3)
	due, next, err = k.Sweeps(t.Context(), "acme", tomorrow, 2)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, []keeping.Sweep{{Tenant: "zoo", Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)}}, due)
	require.Equal(t, tomorrow.Add(-time.Hour), d.asked[0].Before, "its own time")

	done, err := k.Sweep(t.Context(), due[0], keeping.Cursor{Stage: 1, ID: "x", Behind: true})
	require.NoError(t, err)
	require.Equal(t, keeping.Batch{Removed: 3, Bytes: 4, Next: keeping.Cursor{Stage: 2, ID: "x", Behind: true}, Done: true}, done)
	oldest, err := k.Oldest(t.Context(), due[0])
	require.NoError(t, err)
	require.Equal(t, tomorrow, *oldest)
	d.err = agent.Errorf(agent.CodeUnavailable, "", "away")
	_, _, err = k.Sweeps(t.Context(), "", tomorrow, 1)
	require.Error(t, err)
	_, err = k.Sweep(t.Context(), due[0], keeping.Cursor{})
	require.Error(t, err)
}

func TestCollect(t *testing.T) {
	k, _, _ := open(t, time.Hour)
	k.Collectors = []retentionschedule.Collector{
		{Name: "content", Run: func(context.Context) (removed, bytes int64, err error) {
			return 1, 10, errors.New("the bucket is away")
		}},
		{Name: "payloads", Run: func(context.Context) (removed, bytes int64, err error) { return 2, 20, nil }},
	}
	removed, bytes, err := k.Collect(t.Context())
	require.ErrorContains(t, err, "content: the bucket is away")
	require.EqualValues(t, 3, removed)
	require.EqualValues(t, 30, bytes)
}

func TestReport(t *testing.T) {
	k, _, _ := open(t, time.Hour)
	require.NoError(t, k.Ensure(t.Context()))
	got, err := k.Report(t.Context(), agent.AnyTenant, agent.Page{Size: 1})
	require.NoError(t, err)
	require.Equal(t, "acme", got.Next)
	require.Len(t, got.Tenants, 1)
	require.Len(t, got.Tenants[0].Kinds, len(retention.Kinds()))
	got, err = k.Report(t.Context(), agent.AnyTenant, agent.Page{Size: 1000, Token: got.Next})
	require.NoError(t, err)
	require.Empty(t, got.Next)
	require.Equal(t, retention.KindReport{Kind: "events", Keep: "1h0m0s", Own: true, Unit: "turns", Stored: 7, Due: 2, Oldest: &tomorrow}, got.Tenants[0].Kinds[0])
	require.Equal(t, retention.KindReport{Kind: "usage", Keep: "0s", Unit: "rows", Stored: 7, More: true, Oldest: &tomorrow}, got.Tenants[0].Kinds[6])
	got, err = k.Report(t.Context(), "new", agent.Page{})
	require.NoError(t, err)
	require.Equal(t, "new", got.Tenants[0].Tenant)
}

func TestConfig(t *testing.T) {
	_, err := retentionschedule.New(retentionschedule.Config{Schedules: &server{}})
	require.ErrorContains(t, err, "Store is missing")
	_, err = retentionschedule.New(retentionschedule.Config{Store: &shelf{}})
	require.ErrorContains(t, err, "Schedules is missing")
}
