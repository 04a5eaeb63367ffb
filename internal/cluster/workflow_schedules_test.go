package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// definitionStore holds definitions, version by version, one per page.
type definitionStore map[agent.WorkflowKey][]agent.StoredWorkflow

func (s definitionStore) put(t *testing.T, tag string, list ...agent.WorkflowSchedule) agent.StoredWorkflow {
	t.Helper()
	raw, err := json.Marshal(agent.WorkflowDefinition{Schedules: list})
	require.NoError(t, err)
	key := agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: tag}
	w := agent.StoredWorkflow{WorkflowKey: key, Version: int64(len(s[key])) + 1, Definition: raw}
	s[key] = append(s[key], w)
	return w
}

func (s definitionStore) remove(tag string) agent.StoredWorkflow {
	key := agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: tag}
	w := agent.StoredWorkflow{WorkflowKey: key, Version: int64(len(s[key])) + 1, Deleted: true}
	s[key] = append(s[key], w)
	return w
}

func (s definitionStore) Workflow(_ context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	all := s[key]
	if version == 0 {
		version = int64(len(all))
		if version == 0 || all[version-1].Deleted {
			return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "gone")
		}
	}
	if version > int64(len(all)) {
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "version", "none")
	}
	return all[version-1], nil
}

func (s definitionStore) Workflows(_ context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	if q.Tenant != "*" {
		return agent.WorkflowPage{}, errors.New("want all tenants")
	}
	var live []agent.StoredWorkflow
	for _, all := range s {
		if w := all[len(all)-1]; !w.Deleted {
			live = append(live, w)
		}
	}
	slices.SortFunc(live, func(a, b agent.StoredWorkflow) int { return len(a.Tag) - len(b.Tag) })
	at := 0
	if q.Token != "" {
		if _, err := fmt.Sscan(q.Token, &at); err != nil {
			return agent.WorkflowPage{}, err
		}
	}
	var page agent.WorkflowPage
	if at < len(live) {
		page.Workflows = live[at : at+1]
	}
	if at+1 < len(live) {
		page.Next = fmt.Sprint(at + 1)
	}
	return page, nil
}

func newWorkflowSchedules(t *testing.T) (*WorkflowSchedules, *scheduleServer, definitionStore) {
	t.Helper()
	s, d := newScheduleServer(workflows.DefinedWorkflowType), definitionStore{}
	k, err := NewWorkflowSchedules(WorkflowScheduleConfig{Schedules: s, Definitions: d})
	require.NoError(t, err)
	return k, s, d
}

func dailyDeclared() agent.WorkflowSchedule {
	return agent.WorkflowSchedule{ID: "daily", Cron: "0 9 * * *", TimeZone: "Europe/Zurich", Input: json.RawMessage(`{"a":1}`)}
}

func TestSyncCreatesUpdatesDeletes(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	w := d.put(t, "main", dailyDeclared(), agent.WorkflowSchedule{ID: "often", IntervalSec: 300, Paused: true})
	require.NoError(t, k.Sync(t.Context(), w))
	require.Equal(t, []string{"create schedule/acme/ann/main/daily", "create schedule/acme/ann/main/often"}, s.Changes)

	got := s.All["schedule/acme/ann/main/daily"]
	require.Equal(t, []string{"0 9 * * *"}, got.Spec.CronExpressions)
	require.Equal(t, "Europe/Zurich", got.Spec.TimeZoneName)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, got.Policy.Overlap)
	require.Equal(t, time.Minute, got.Policy.CatchupWindow)
	require.False(t, got.State.Paused)
	action, ok := got.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, workflows.DefinedWorkflowType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, "workflow/acme/ann/main/daily", action.ID)
	require.Equal(t, []any{agent.RunRequest{
		Owner: "ann", Tag: "main", Input: json.RawMessage(`{"a":1}`), Context: agent.InvocationContext{Tenant: "acme"},
	}}, action.Args, "no version: the newest when it starts")
	often := s.All["schedule/acme/ann/main/often"]
	require.Equal(t, []client.ScheduleIntervalSpec{{Every: 5 * time.Minute}}, often.Spec.Intervals)
	require.True(t, often.State.Paused)

	s.Changes = nil
	require.NoError(t, k.Sync(t.Context(), w))
	require.Empty(t, s.Changes, "nothing changed")

	changed := dailyDeclared()
	changed.Cron = "0 10 * * *"
	w = d.put(t, "main", changed)
	require.NoError(t, k.Sync(t.Context(), w))
	require.Equal(t, []string{"update schedule/acme/ann/main/daily", "delete schedule/acme/ann/main/often"}, s.Changes)
	require.Equal(t, []string{"0 10 * * *"}, s.All["schedule/acme/ann/main/daily"].Spec.CronExpressions)

	s.Changes = nil
	require.NoError(t, k.Sync(t.Context(), d.remove("main")))
	require.Equal(t, []string{"delete schedule/acme/ann/main/daily"}, s.Changes)
	require.Empty(t, s.All)
}

func TestCheckRefusesWhatTemporalRefuses(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	often, weekly := agent.WorkflowSchedule{ID: "often", IntervalSec: 300}, agent.WorkflowSchedule{ID: "weekly", Cron: "@weekly", TimeZone: "Africa/Lagos"}
	first := d.put(t, "main", dailyDeclared())
	require.NoError(t, k.Sync(t.Context(), first))
	s.All["schedule/acme/ann/main/daily"].State.Paused = true // by a person
	next := func(list ...agent.WorkflowSchedule) agent.StoredWorkflow {
		w := d.put(t, "main", list...)
		d[w.WorkflowKey] = d[w.WorkflowKey][:1] // it is not stored yet
		return w
	}
	for field, c := range map[string]struct {
		refusal string
		list    []agent.WorkflowSchedule
	}{
		"schedules[1].interval_sec": {"Invalid schedule spec: too often", []agent.WorkflowSchedule{dailyDeclared(), often}},
		"schedules[0].cron":         {"Invalid schedule spec: such times", []agent.WorkflowSchedule{{ID: "daily", Cron: "0 10 * * *"}}},
		"schedules[1].time_zone":    {"Invalid schedule spec: unknown time zone Africa/Lagos", []agent.WorkflowSchedule{dailyDeclared(), weekly}},
	} {
		s.Refuses = serviceerror.NewInvalidArgument(c.refusal)
		err := k.Check(t.Context(), next(c.list...))
		f := agent.FailureOf(err)
		require.Equal(t, string(agent.CodeInvalid), f.Type)
		require.Equal(t, field, f.Field)
		require.Contains(t, f.Message, c.refusal)
	}
	require.NoError(t, k.Check(t.Context(), next(dailyDeclared())), "nothing new to ask about")
	s.Refuses = serviceerror.NewUnavailable("away")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(k.Check(t.Context(), next(dailyDeclared(), often))))

	s.Refuses, s.RefusesID = serviceerror.NewInvalidArgument("no"), "schedule/acme/ann/main/weekly"
	require.Error(t, k.Check(t.Context(), next(dailyDeclared(), often, weekly)))
	require.Len(t, s.All, 1, "what was made for a version that is refused is gone")
	s.Refuses = nil
	require.NoError(t, k.Check(t.Context(), next(dailyDeclared(), often, weekly)))
	require.True(t, s.All["schedule/acme/ann/main/often"].State.Paused, "until the version is stored")
	require.NoError(t, k.Sync(t.Context(), next(dailyDeclared(), often, weekly)), "somebody else was faster")
	require.Len(t, s.All, 1)

	require.NoError(t, k.Check(t.Context(), next(dailyDeclared(), often)))
	require.NoError(t, k.Sync(t.Context(), d.put(t, "main", dailyDeclared(), often)))
	require.False(t, s.All["schedule/acme/ann/main/often"].State.Paused)
	require.True(t, s.All["schedule/acme/ann/main/daily"].State.Paused)
}

func TestSyncFollowsTheNewestVersion(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	first := d.put(t, "main", dailyDeclared())
	require.NoError(t, k.Sync(t.Context(), d.put(t, "main", agent.WorkflowSchedule{ID: "often", IntervalSec: 300})))
	require.NoError(t, k.Sync(t.Context(), first))
	require.Equal(t, []string{"schedule/acme/ann/main/often"}, slices.Collect(maps.Keys(s.All)))
	d.remove("main")
	require.NoError(t, k.Sync(t.Context(), first))
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.All)
}

// TestWorkflowScheduleHash: another hash of the same times would update every schedule, and end every person's pause.
func TestWorkflowScheduleHash(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	require.NoError(t, k.Sync(t.Context(), d.put(t, "main", dailyDeclared())))
	require.Equal(t, "a4bab9b2127cb0101998ec1708fb726f3ea476e477a4837c291e45a6913c83aa", s.MadeFrom("schedule/acme/ann/main/daily"))
}

func TestReconcileWorkflowSchedules(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	d.put(t, "a", dailyDeclared())
	d.put(t, "bb", dailyDeclared())
	d.put(t, "ccc")
	for id, kind := range map[string]string{
		"schedule/acme/ann/gone/daily": "", "schedule/acme/ann/ccc/old": "", "schedule/other": "SomethingElse", "nightly": "",
	} {
		s.All[id], s.Types[id] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: workflows.TaskQueue}}, kind
	}
	s.All["schedule/acme/ann/theirs/daily"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "another-runtime"}}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Equal(t, []string{
		"nightly", "schedule/acme/ann/a/daily", "schedule/acme/ann/bb/daily", "schedule/acme/ann/theirs/daily", "schedule/other",
	}, slices.Sorted(maps.Keys(s.All)), "what is not ours stays")
	s.Changes = nil
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.Changes)
}

func TestWorkflowSchedulesRunEndsWithItsContext(t *testing.T) {
	k, s, d := newWorkflowSchedules(t)
	d.put(t, "a", dailyDeclared())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx, time.Hour) }()
	stop()
	require.NoError(t, <-done)
	require.Len(t, s.All, 1, "the first round comes at once")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(k.Run(t.Context(), 0)))
}

func TestWorkflowConfig(t *testing.T) {
	_, err := NewWorkflowSchedules(WorkflowScheduleConfig{Definitions: definitionStore{}})
	require.ErrorContains(t, err, "Schedules is missing")
	_, err = NewWorkflowSchedules(WorkflowScheduleConfig{Schedules: newScheduleServer("")})
	require.ErrorContains(t, err, "Definitions is missing")
}
