package cluster

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

func TestPutCreatesUpdatesDeletes(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	kept, err := k.Put(t.Context(), dailySchedule("news"), ann, true)
	require.NoError(t, err)
	require.Equal(t, []time.Time{tomorrow}, kept.Next)
	require.Equal(t, ann, d.all["schedule/acme/news"].Principal)
	require.Equal(t, "ann", d.all["schedule/acme/news"].UpdatedBy)
	require.Equal(t, []string{"create schedule/acme/news", "update schedule/acme/news"}, s.Changes, "paused until it is stored")

	got := s.of("news")
	require.False(t, got.State.Paused)
	require.Equal(t, client.ScheduleSpec{
		CronExpressions: []string{"0 9 * * mon-fri", "0 0 12 * * * *"}, TimeZoneName: "Europe/Zurich", Jitter: 2 * time.Minute,
		Intervals: []client.ScheduleIntervalSpec{{Every: 6 * time.Hour}}, StartAt: tomorrow, EndAt: tomorrow.AddDate(1, 0, 0),
	}, *got.Spec)
	require.Equal(t, client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute}, *got.Policy)
	action, ok := got.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, "scheduled/acme/news", action.ID)
	require.Equal(t, workflows.ScheduledRunType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, []any{workflows.ScheduledRunInput{Tenant: "acme", Schedule: "news"}}, action.Args, "what it says is read when it runs")

	s.Changes = nil
	other := dailySchedule("news")
	other.Message = "anything else?"
	put(t, k, other)
	require.Empty(t, s.Changes, "Temporal knows only of the times")
	require.Equal(t, "anything else?", d.all["schedule/acme/news"].Message)
	other.Overlap, other.CatchUpWindow = agent.OverlapCancelOther, "1h"
	put(t, k, other)
	require.Equal(t, []string{"update schedule/acme/news"}, s.Changes)
	require.Equal(t, client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, CatchupWindow: time.Hour}, *s.of("news").Policy)

	_, err = k.Put(t.Context(), other, ann, true)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.NoError(t, k.Delete(t.Context(), "acme", "news"))
	require.Empty(t, s.All)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(k.Delete(t.Context(), "acme", "news")))
}

func TestOverlapPolicies(t *testing.T) {
	k, s, _ := newAgentSchedules(t)
	for text, want := range map[string]enumspb.ScheduleOverlapPolicy{
		"": enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, "skip": enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		"buffer_one": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, "buffer_all": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
		"cancel_other": enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, "terminate_other": enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER,
		"allow_all": enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	} {
		one := dailySchedule("news")
		one.Overlap = text
		put(t, k, one)
		require.Equal(t, want, s.of("news").Policy.Overlap, text)
	}
}

func TestPutDoesNotStoreWhatTemporalRefuses(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	refused := func(one agent.Schedule, p agent.Principal, field string) {
		t.Helper()
		before, changes := maps.Clone(d.all), slices.Clone(s.Changes)
		_, err := k.Put(t.Context(), one, p, false)
		f := agent.FailureOf(err)
		require.Equal(t, string(agent.CodeInvalid), f.Type)
		require.Equal(t, field, f.Field)
		require.Contains(t, f.Message, s.Refuses.Error())
		require.Equal(t, before, d.all, "with the revision and the rights of before")
		require.Equal(t, changes, s.Changes)
	}
	everyHour := dailySchedule("news")
	everyHour.Cron, everyHour.Every = nil, "1h"
	s.Refuses = serviceerror.NewInvalidArgument("Invalid schedule spec: no such times")
	refused(dailySchedule("news"), ann, "cron")
	refused(everyHour, ann, "every")

	s.Refuses = nil
	put(t, k, dailySchedule("news"))
	s.of("news").State.Paused = true // by a person
	s.Refuses = serviceerror.NewInvalidArgument("Invalid schedule spec: unknown time zone Africa/Lagos")
	other := dailySchedule("news")
	other.TimeZone, other.Message = "Africa/Lagos", "other"
	refused(other, agent.Principal{Method: agent.MethodKey, Subject: "bob"}, "time_zone")
	require.True(t, s.of("news").State.Paused)

	other = dailySchedule("news")
	other.Message = "the times are those of before, which Temporal took"
	put(t, k, other)
}

func TestPutRemovesWhatTheStoreRefuses(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, k, dailySchedule(name))
	}
	for _, onlyNew := range []bool{true, false} {
		_, err := k.Put(t.Context(), dailySchedule("d"), ann, onlyNew)
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	}
	require.Len(t, d.all, 3)
	require.Len(t, s.All, 3)
	put(t, k, dailySchedule("c"))
}

func TestReconcileAfterTemporalWasAway(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	id := "schedule/acme/news"
	s.Broken[id], s.Refuses = serviceerror.NewUnavailable("away"), serviceerror.NewUnavailable("away")
	put(t, k, dailySchedule("news"))
	require.Contains(t, d.all, id)
	require.Empty(t, s.All)
	_, err := k.Pause(t.Context(), "acme", "news", true, "")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "whoever pauses wants to know that it runs on")
	s.Refuses = nil
	delete(s.Broken, id)
	require.NoError(t, k.Reconcile(t.Context()))
	require.True(t, s.of("news").State.Paused)

	s.Broken[id] = serviceerror.NewUnavailable("away")
	require.NoError(t, k.Delete(t.Context(), "acme", "news"))
	require.Contains(t, s.All, id)
	delete(s.Broken, id)
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.All)
}

// schemas refuses every schema.
type schemas struct{}

func (schemas) CheckSchema(path string, _ json.RawMessage) error {
	return agent.Invalid(path+".type", "is of no use")
}

func TestPutChecksTheSchema(t *testing.T) {
	_, s, d := newAgentSchedules(t)
	k, err := NewAgentSchedules(AgentScheduleConfig{Store: d, Schedules: s, Starter: s, Schemas: schemas{}})
	require.NoError(t, err)
	news := dailySchedule("news")
	news.OutputSchema = json.RawMessage(`{"type":"thing"}`)
	_, err = k.Put(t.Context(), news, ann, true)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, "output_schema.type")
	require.Empty(t, d.all)
	put(t, k, dailySchedule("news")) // without one
}

func TestPauseAndResume(t *testing.T) {
	k, s, _ := newAgentSchedules(t)
	put(t, k, dailySchedule("news"))
	got, err := k.Pause(t.Context(), "acme", "news", true, "holidays")
	require.NoError(t, err)
	require.True(t, got.Paused)
	require.Empty(t, got.Next, "it does not run, whatever Temporal says of its times")
	require.Equal(t, "holidays", s.of("news").State.Note)
	got, err = k.Pause(t.Context(), "acme", "news", false, "")
	require.NoError(t, err)
	require.False(t, s.of("news").State.Paused)
	require.Equal(t, []time.Time{tomorrow}, got.Next)

	s.of("news").State.Paused = true // by a person, in the Web UI
	require.NoError(t, k.Reconcile(t.Context()))
	require.True(t, s.of("news").State.Paused, "it stays so")
	got, err = k.Get(t.Context(), "acme", "news")
	require.NoError(t, err)
	require.True(t, got.Paused, "and is told")
	_, err = k.Pause(t.Context(), "acme", "news", false, "")
	require.NoError(t, err)
	require.False(t, s.of("news").State.Paused, "until somebody says otherwise here")
}

func TestTrigger(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	_, err := k.Trigger(t.Context(), "acme", "news", "")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	put(t, k, dailySchedule("news"))
	ids := map[string]bool{}
	for range 3 {
		run, err := k.Trigger(t.Context(), "acme", "news", "")
		require.NoError(t, err)
		ids[run.WorkflowID] = true
	}
	require.Len(t, ids, 3, "also within a second")
	first, err := k.Trigger(t.Context(), "acme", "news", "k")
	require.NoError(t, err)
	require.False(t, first.Joined)
	again, err := k.Trigger(t.Context(), "acme", "news", "k")
	require.NoError(t, err)
	require.True(t, again.Joined)
	require.Equal(t, first.RunID, again.RunID)
	require.Len(t, s.started, 4)
	require.Equal(t, workflows.TaskQueue, s.started[0].TaskQueue)
	require.True(t, s.started[0].WorkflowExecutionErrorWhenAlreadyStarted)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, s.started[0].WorkflowIDReusePolicy)
	require.Equal(t, workflows.ScheduledRunInput{Tenant: "acme", Schedule: "news"}, s.input[0])
	d.unfinished = 100
	_, err = k.Trigger(t.Context(), "acme", "news", "")
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
}

func TestRunsAndList(t *testing.T) {
	k, _, _ := newAgentSchedules(t)
	_, err := k.Runs(t.Context(), "acme", "news", agent.Page{})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	put(t, k, dailySchedule("news"))
	page, err := k.Runs(t.Context(), "acme", "news", agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	bad := dailySchedule("news")
	bad.Every = "soon"
	_, err = k.Put(t.Context(), bad, ann, false)
	require.ErrorContains(t, err, "every: want a duration")
}

func TestAgentConfig(t *testing.T) {
	s, d := &server{scheduleServer: newScheduleServer("")}, &agentStore{}
	for _, c := range []AgentScheduleConfig{{}, {Store: d}, {Store: d, Schedules: s}, {Schedules: s, Starter: s}} {
		_, err := NewAgentSchedules(c)
		require.ErrorContains(t, err, "is missing")
	}
}

// TestApprovalListOfASchedule: only who may approve the calls of a tool may say that a schedule's runs need no approval for them.
func TestApprovalListOfASchedule(t *testing.T) {
	bob := agent.Principal{Method: agent.MethodKey, Subject: "bob", Scopes: []string{"schedules.write", "approvals.decide:pay"}}
	for policy, want := range map[agent.ApprovalPolicy]agent.Code{
		"": "", agent.ApprovalsRefuse: "", "pay": "", "pay,send": agent.CodeDenied, "pay*": agent.CodeDenied, "*": agent.CodeInvalid,
	} {
		k, _, d := newAgentSchedules(t)
		s := dailySchedule("news")
		s.Approvals = policy
		_, err := k.Put(t.Context(), s, bob, true)
		if want != "" {
			require.Equal(t, want, agent.CodeOf(err), "%s", policy)
			require.Equal(t, "approvals", agent.FailureOf(err).Field)
			require.Empty(t, d.all)
			continue
		}
		require.NoError(t, err, "%s", policy)
	}
}
