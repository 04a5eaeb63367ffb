package cluster

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

func TestReconcileAgentSchedules(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	for _, name := range []string{"a", "b"} {
		d.all[agentScheduleID("acme", name)] = agent.StoredSchedule{Schedule: dailySchedule(name)}
	}
	for id, kind := range map[string]string{
		"schedule/acme/gone": "", "schedule/acme/ann/main/daily": workflows.DefinedWorkflowType, "schedule/other": "SomethingElse", "nightly": "",
	} {
		s.All[id], s.Types[id] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: workflows.TaskQueue}}, kind
	}
	s.All["schedule/acme/theirs"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "another-runtime"}}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Equal(t, []string{
		"nightly", "schedule/acme/a", "schedule/acme/ann/main/daily", "schedule/acme/b", "schedule/acme/theirs", "schedule/other",
	}, slices.Sorted(maps.Keys(s.All)), "what is not ours stays")
	s.Changes = nil
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.Changes)

	moved, err := NewAgentSchedules(AgentScheduleConfig{Store: d, Schedules: s, Starter: s, TaskQueue: "moved"})
	require.NoError(t, err)
	require.NoError(t, moved.Reconcile(t.Context()))
	require.Equal(t, []string{"update schedule/acme/a", "update schedule/acme/b"}, s.Changes, "they move to the queue")
}

// TestAgentScheduleHash: another hash of the same times would update every schedule, and end every person's pause.
func TestAgentScheduleHash(t *testing.T) {
	k, s, _ := newAgentSchedules(t)
	put(t, k, dailySchedule("news"))
	require.Equal(t, "e3f346962767f762147ca87532998557b7946a39534b2399422e4f898d56b104", s.MadeFrom("schedule/acme/news"))
}

func TestReconcileKeepsWhatIsStoredMeanwhile(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	s.All["schedule/acme/0late"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: workflows.TaskQueue}}
	d.all[agentScheduleID("zoo", "z")] = agent.StoredSchedule{Schedule: func() agent.Schedule {
		z := dailySchedule("z")
		z.Tenant = "zoo"
		return z
	}()}
	lists := 0
	d.onList = func() {
		if lists++; lists == 1 {
			return
		}
		d.all[agentScheduleID("acme", "0late")] = agent.StoredSchedule{Schedule: dailySchedule("0late")} // behind the list's back
	}
	d.all[agentScheduleID("acme", "a")] = agent.StoredSchedule{Schedule: dailySchedule("a")}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Contains(t, s.All, "schedule/acme/0late")
}

func TestReconcileEndsTerminatedRuns(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	now := time.Now()
	d.long = []agent.ScheduleRun{
		{RunID: "works", Workflow: "works", StartedAt: now},
		{RunID: "killed", Tenant: "acme", Workflow: "killed", StartedAt: now},
		{RunID: "old", Workflow: "old", StartedAt: now.Add(-2 * time.Hour)},
		{RunID: "young", Workflow: "young", StartedAt: now},
	}
	s.status = map[string]enumspb.WorkflowExecutionStatus{
		"works": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "killed": enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Len(t, d.ended, 2)
	require.Equal(t, "killed", d.ended[0].RunID)
	require.Equal(t, "acme", d.ended[0].Tenant)
	require.Equal(t, "failed", d.ended[0].Status)
	require.Equal(t, "terminated", d.ended[0].Error.Type)
	require.Equal(t, "old", d.ended[1].RunID)
}

func TestAgentSchedulesRunEndsWithItsContext(t *testing.T) {
	k, s, d := newAgentSchedules(t)
	d.all[agentScheduleID("acme", "a")] = agent.StoredSchedule{Schedule: dailySchedule("a")}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx, time.Hour) }()
	stop()
	require.NoError(t, <-done)
	require.Len(t, s.All, 1, "the first round comes at once")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(k.Run(t.Context(), 0)))
}
