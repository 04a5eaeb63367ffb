package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

func newSyncer(t *testing.T) (*scheduleSyncer, *scheduleServer) {
	t.Helper()
	s := newScheduleServer("Chime")
	k, err := newScheduleSyncer(s, "queue", nil)
	require.NoError(t, err)
	return k, s
}

func chime(id, cron string) *desiredSchedule {
	return &desiredSchedule{
		ID: id, Spec: client.ScheduleSpec{CronExpressions: []string{cron}}, Source: []any{cron},
		Policy: client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute, PauseOnFailure: true},
		State:  client.ScheduleState{Note: "made here"},
		Action: client.ScheduleWorkflowAction{ID: "run/" + id, Workflow: "Chime", Args: []any{1}},
	}
}

func TestSyncerEnsures(t *testing.T) {
	k, s := newSyncer(t)
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), false))
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), false))
	require.Equal(t, []string{"create tick/a"}, s.Changes, "it matches")
	got := s.All["tick/a"]
	require.Equal(t, chime("", "").Policy, *got.Policy)
	require.Equal(t, chime("", "").State, *got.State)
	action, ok := got.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, []any{"run/tick/a", "Chime", "queue", 1}, []any{action.ID, action.Workflow, action.TaskQueue, action.Args[0]})

	got.State.Paused = true // by a person
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), false))
	require.True(t, s.All["tick/a"].State.Paused, "it stays so")
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), true))
	require.False(t, s.All["tick/a"].State.Paused, "unless it is insisted upon")
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 10 * * *"), false))
	require.Equal(t, []string{"0 10 * * *"}, s.All["tick/a"].Spec.CronExpressions)

	moved, err := newScheduleSyncer(s, "elsewhere", nil)
	require.NoError(t, err)
	s.Changes = nil
	require.NoError(t, moved.Ensure(t.Context(), chime("tick/a", "0 10 * * *"), false))
	require.NoError(t, moved.Ensure(t.Context(), chime("tick/a", "0 10 * * *"), false))
	require.Equal(t, []string{"update tick/a"}, s.Changes, "it moves to the queue, once")

	require.NoError(t, k.Remove(t.Context(), "tick/a"))
	require.NoError(t, k.Remove(t.Context(), "tick/a"), "it is gone")
	require.Empty(t, s.All)
}

// TestSyncerKnowsHashesOfOlderReleases: another hash of the same wording would let every schedule be updated, and end every person's pause.
func TestSyncerKnowsHashesOfOlderReleases(t *testing.T) {
	k, s := newSyncer(t)
	s.All["tick/a"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "queue", Memo: map[string]any{
		"turnstone_schedule": "81cce7a0fa4a2f770b6207d22b8c715cab8eb176dfa3808dd8dddf31e98fdd77",
	}}}
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), false))
	require.Empty(t, s.Changes)
}

func TestSyncerUpdatesWhatAnotherCreated(t *testing.T) {
	k, s := newSyncer(t)
	s.Race = true
	require.NoError(t, k.Ensure(t.Context(), chime("tick/a", "0 9 * * *"), false))
	require.Equal(t, []string{"update tick/a"}, s.Changes)
}

func TestSyncerErrors(t *testing.T) {
	k, s := newSyncer(t)
	for _, id := range []string{"", strings.Repeat("x", 901)} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(k.Ensure(t.Context(), chime(id, ""), false)))
	}
	odd := chime("tick/a", "")
	odd.Source = func() {}
	require.ErrorContains(t, k.Ensure(t.Context(), odd, false), "tick/a")
	s.Broken["tick/a"] = errors.New("away")
	for _, err := range []error{k.Ensure(t.Context(), chime("tick/a", ""), false), k.Remove(t.Context(), "tick/a")} {
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		require.ErrorContains(t, err, `schedule "tick/a": away`)
	}
	_, err := newScheduleSyncer(nil, "queue", nil)
	require.ErrorContains(t, err, "Schedules is missing")
	_, err = newScheduleSyncer(s, "", nil)
	require.ErrorContains(t, err, "queue is missing")
}

// desired yields schedules, and then an error, if there is one.
func desired(err error, list ...*desiredSchedule) iter.Seq2[desiredSchedule, error] {
	return func(yield func(desiredSchedule, error) bool) {
		for _, w := range list {
			if !yield(*w, nil) {
				return
			}
		}
		if err != nil {
			yield(desiredSchedule{}, err)
		}
	}
}

func chimesDesired(list iter.Seq2[desiredSchedule, error]) reconciliation {
	return reconciliation{Workflow: "Chime", IsOurs: func(id string) bool { return strings.HasPrefix(id, "tick/") }, Desired: list}
}

func TestSyncerReconciles(t *testing.T) {
	k, s := newSyncer(t)
	fill := func() {
		clear(s.All)
		for id, kind := range map[string]string{"tick/gone": "", "tick/other-work": "Gong", "nightly": ""} {
			s.All[id], s.Types[id] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "queue"}}, kind
		}
		s.All["tick/theirs"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "another-runtime"}}
	}
	is := func(ids ...string) {
		t.Helper()
		require.Equal(t, ids, slices.Sorted(maps.Keys(s.All)))
	}
	fill()
	require.NoError(t, k.Reconcile(t.Context(), chimesDesired(desired(nil, chime("tick/a", "x"), chime("tick/b", "x")))))
	is("nightly", "tick/a", "tick/b", "tick/other-work", "tick/theirs")

	fill()
	err := k.Reconcile(t.Context(), chimesDesired(desired(errors.New("store is away"), chime("tick/a", "x"))))
	require.ErrorContains(t, err, "reconcile schedules: store is away")
	is("nightly", "tick/a", "tick/gone", "tick/other-work", "tick/theirs")

	// A schedule that is wanted otherwise than anybody can say stays.
	fill()
	r := chimesDesired(func(yield func(desiredSchedule, error) bool) {
		_ = yield(desiredSchedule{ID: "tick/gone"}, errors.New("says nothing")) && yield(*chime("tick/a", "x"), nil)
	})
	require.ErrorContains(t, k.Reconcile(t.Context(), r), "says nothing")
	is("nightly", "tick/a", "tick/gone", "tick/other-work", "tick/theirs")

	// Nor is one deleted that is there after all, or of which nobody knows.
	for _, e := range []error{nil, errors.New("who knows")} {
		fill()
		r = chimesDesired(desired(nil))
		r.IsDeleted = func(context.Context, string) (bool, error) { return false, e }
		require.Equal(t, e == nil, k.Reconcile(t.Context(), r) == nil)
		require.Contains(t, s.All, "tick/gone")
	}
	r.IsDeleted = func(_ context.Context, id string) (bool, error) { return id == "tick/gone", nil }
	require.NoError(t, k.Reconcile(t.Context(), r))
	require.NotContains(t, s.All, "tick/gone")

	s.Away = errors.New("no list")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(k.Reconcile(t.Context(), r)))
}

func TestSyncerReconcilesAfterErrors(t *testing.T) {
	k, s := newSyncer(t)
	var list []*desiredSchedule
	for i := range 30 {
		list = append(list, chime(fmt.Sprint("tick/", i), "x"))
		s.Broken[list[i].ID] = errors.New("away")
	}
	err := k.Reconcile(t.Context(), chimesDesired(desired(nil, append(list, chime("tick/last", "x"))...)))
	require.Equal(t, 20, strings.Count(err.Error(), "away"), "the errors are bounded")
	require.Contains(t, s.All, "tick/last")
}

func TestReconcileEvery(t *testing.T) {
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(reconcileEvery(t.Context(), 0, zap.NewNop(), nil)))
	ctx, stop := context.WithCancel(t.Context())
	rounds := 0
	require.NoError(t, reconcileEvery(ctx, time.Millisecond, zap.NewNop(), func(context.Context) error {
		if rounds++; rounds == 3 {
			stop()
		}
		return errors.New("goes on all the same")
	}))
	require.Equal(t, 3, rounds)
}
