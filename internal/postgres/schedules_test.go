package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/schedules"
)

var (
	_ schedules.Store       = (*postgres.Store)(nil)
	_ cluster.ScheduleStore = (*postgres.Store)(nil)
)

func planned(name string) agent.StoredSchedule {
	return agent.StoredSchedule{
		Schedule: agent.Schedule{
			Name: name, Tenant: tenant, Kind: agent.ScheduleHeartbeat, Agent: "analyst", Message: "anything new?\x00", Cron: []string{"0 9 * * *"},
			Every: "1h", TimeZone: "Europe/Zurich", Jitter: "1m", Overlap: agent.OverlapSkip, StartAt: new(noon), Limits: &agent.Limits{ToolCalls: 3},
			Metadata: map[string]any{"page": "home"}, OutputSchema: json.RawMessage(`{"type":"object"}`), UserID: "ann", UpdatedBy: "ann", Note: "why",
			Notify: []agent.Notification{{On: agent.NotifyChange, Webhook: &agent.HookTarget{URL: "https://hooks.example.com/x", Auth: "hooks"}}},
		},
		Principal: agent.Principal{Method: agent.MethodKey, Tenant: tenant, Subject: "ann", Scopes: []string{"turns.run"}, Flags: map[string]any{"beta": true}},
	}
}

func (b *bench) plan(name string) agent.StoredSchedule {
	b.t.Helper()
	kept, err := b.PutSchedule(b.t.Context(), planned(name), true, 0)
	require.NoError(b.t, err)
	return kept
}

func TestSchedule(t *testing.T) {
	b := newBench(t, postgres.Config{})
	kept := b.plan("news")
	require.WithinDuration(t, time.Now(), *kept.CreatedAt, time.Minute)
	want := planned("news")
	want.Revision, want.CreatedBy, want.CreatedAt, want.UpdatedAt = 1, "ann", kept.CreatedAt, kept.UpdatedAt
	require.Equal(t, want, kept)
	got, err := b.Schedule(t.Context(), tenant, "news")
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = b.PutSchedule(t.Context(), planned("news"), true, 0)
	requireFault(t, agent.CodeConflict, "name", err)
	other := planned("news")
	other.Message, other.UpdatedBy, other.Principal = "else", "bob", agent.Principal{Method: agent.MethodJWT, Scopes: []string{"*"}}
	kept, err = b.PutSchedule(t.Context(), other, false, 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, kept.Revision)
	require.Equal(t, "ann", kept.CreatedBy)
	require.Equal(t, "bob", kept.UpdatedBy)
	require.Equal(t, other.Principal, kept.Principal)
	require.Equal(t, got.CreatedAt, kept.CreatedAt)

	kept, err = b.PauseSchedule(t.Context(), tenant, "news", true, "holidays\x00")
	require.NoError(t, err)
	require.True(t, kept.Paused)
	require.Equal(t, "holidays", kept.Note)
	require.EqualValues(t, 3, kept.Revision)
	require.Equal(t, other.Principal, kept.Principal, "pausing does not change the principal")

	for _, who := range []string{"evil", ""} {
		_, err = b.Schedule(t.Context(), who, "news")
		requireFault(t, agent.CodeNotFound, "name", err)
		_, err = b.PauseSchedule(t.Context(), who, "news", false, "")
		requireFault(t, agent.CodeNotFound, "name", err)
		requireFault(t, agent.CodeNotFound, "name", b.DeleteSchedule(t.Context(), who, "news"))
	}
	require.NoError(t, b.DeleteSchedule(t.Context(), tenant, "news"))
	_, err = b.Schedule(t.Context(), tenant, "news")
	requireFault(t, agent.CodeNotFound, "name", err)
	_, err = b.PutSchedule(t.Context(), agent.StoredSchedule{Schedule: agent.Schedule{Name: "x"}}, true, 0)
	requireFault(t, agent.CodeInvalid, "tenant", err)
	huge := planned("huge")
	huge.Metadata = map[string]any{"x": string(make([]byte, 1<<20))}
	_, err = b.PutSchedule(t.Context(), huge, true, 0)
	requireCode(t, agent.CodeOverflow, err)
}

func TestSchedulesAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	failed := 0
	for _, err := range atOnce(8, func(i int) error {
		_, err := b.PutSchedule(t.Context(), planned(fmt.Sprint("s", i)), true, 5)
		return err
	}) {
		if err != nil {
			failed++
			requireCode(t, agent.CodeOverflow, err)
		}
	}
	require.Equal(t, 3, failed, "even for concurrent requests")
	require.Equal(t, 5, b.count("schedules"))
}

func TestListOfSchedules(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, name := range []string{"c", "a", "b"} {
		b.plan(name)
	}
	theirs := planned("a")
	theirs.Tenant = "zoo"
	_, err := b.PutSchedule(t.Context(), theirs, true, 0)
	require.NoError(t, err)
	all := func(who string) (names []string) {
		var token string
		for {
			page, err := b.Schedules(t.Context(), who, agent.Page{Size: 2, Token: token})
			require.NoError(t, err)
			for i := range page.Schedules {
				names = append(names, page.Schedules[i].Tenant+"/"+page.Schedules[i].Name)
			}
			if token = page.Next; token == "" {
				return names
			}
		}
	}
	require.Equal(t, []string{"acme/a", "acme/b", "acme/c"}, all(tenant))
	require.Equal(t, []string{"acme/a", "acme/b", "acme/c", "zoo/a"}, all("*"))
	require.Empty(t, all("nobody"))
	_, err = b.Schedules(t.Context(), tenant, agent.Page{Token: "x"})
	requireFault(t, agent.CodeInvalid, "page_token", err)
}

func (b *bench) scheduled(name, runID string) agent.ScheduleRun {
	b.t.Helper()
	_, run, err := b.BeginScheduleRun(b.t.Context(), tenant, name, runID, "scheduled/acme/"+name)
	require.NoError(b.t, err)
	return run
}

func end(runID, digest string) agent.ScheduleEnd {
	return agent.ScheduleEnd{
		Tenant: tenant, RunID: runID, Status: "completed", Output: "answer \x00" + digest, Digest: digest, ResultRef: "artifact://r", EndedAt: noon,
		Notices:   []agent.ScheduleNotice{{Position: 0, Kind: "webhook", Target: "hooks.example.com"}},
		IfChanged: []agent.ScheduleNotice{{Position: 2, Kind: "telegram", Target: "ann"}}, Keep: 3,
	}
}

func positions(notices []agent.ScheduleNotice) (out []int) {
	for _, n := range notices {
		out = append(out, n.Position)
	}
	return out
}

func TestScheduleRun(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ctx := t.Context()
	b.plan("news")
	schedule, run, err := b.BeginScheduleRun(ctx, tenant, "news", "r1", "w1")
	require.NoError(t, err)
	require.Equal(t, "news", schedule.Name)
	require.Equal(t, agent.ScheduleRun{
		RunID: "r1", Tenant: tenant, Schedule: "news", Kind: "heartbeat", Workflow: "w1", Status: "running", StartedAt: run.StartedAt,
	}, run)
	require.Equal(t, run, b.scheduled("news", "r1"), "the recorded run does not change")
	_, _, err = b.BeginScheduleRun(ctx, tenant, "gone", "r2", "w")
	requireFault(t, agent.CodeNotFound, "name", err)
	b.plan("other")
	_, _, err = b.BeginScheduleRun(ctx, tenant, "other", "r1", "w")
	requireFault(t, agent.CodeConflict, "run_id", err)

	b.ready("t1", "schedule-news-r1")
	require.NoError(t, b.BindScheduleRun(ctx, tenant, "r1", "t1", "schedule-news-r1"))
	b.finish(finish("t1", "schedule-news-r1"))
	n, err := b.UnfinishedRuns(ctx, tenant, "news")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	long, err := b.LongRuns(ctx, 0, 10)
	require.NoError(t, err)
	require.Len(t, long, 1)
	require.Equal(t, "w1", long[0].Workflow)
	long, err = b.LongRuns(ctx, time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, long)
	left, err := b.FinishScheduleRun(ctx, end("r1", "d1"))
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, positions(left), "the first answer counts as a change")
	again := end("r1", "d9")
	again.Status, again.Notices = "failed", nil
	left, err = b.FinishScheduleRun(ctx, again)
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, positions(left), "the first end wins")
	long, err = b.LongRuns(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, long)

	note := agent.ScheduleNotice{Position: 0, Status: agent.NoticeFailed, Attempts: 2, Error: &agent.Failure{Type: "unavailable", Message: "503"}}
	require.NoError(t, b.NoteNotice(ctx, tenant, "r1", note))
	note.Status, note.Attempts, note.Error = agent.NoticeSent, 3, nil
	require.NoError(t, b.NoteNotice(ctx, tenant, "r1", note))
	note.Status, note.Attempts = agent.NoticeFailed, 1
	require.NoError(t, b.NoteNotice(ctx, tenant, "r1", note), "from a late attempt")
	require.NoError(t, b.NoteNotice(ctx, "evil", "r1", agent.ScheduleNotice{Position: 2, Status: agent.NoticeSent}))
	left, err = b.FinishScheduleRun(ctx, again)
	require.NoError(t, err)
	require.Equal(t, []int{2}, positions(left))

	got, err := b.ScheduleRun(ctx, tenant, "r1")
	require.NoError(t, err)
	require.Equal(t, "completed", got.Status)
	require.Equal(t, "answer d1", got.Output)
	require.Equal(t, noon, *got.EndedAt)
	require.EqualValues(t, "t1", got.TurnID)
	require.Len(t, got.Notices, 2)
	require.Equal(t, agent.NoticeSent, got.Notices[0].Status)
	require.Equal(t, 3, got.Notices[0].Attempts)
	require.Equal(t, agent.NoticePending, got.Notices[1].Status)
	require.Equal(t, "ann", got.Notices[1].Target)
	_, err = b.ScheduleRun(ctx, "evil", "r1")
	requireFault(t, agent.CodeNotFound, "run_id", err)

	export, err := b.ExportSession(ctx, tenant, "schedule-news-r1")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *export.InactiveAt, time.Minute)
	b.ready("t2", "schedule-news-r1")
	export, err = b.ExportSession(ctx, tenant, "schedule-news-r1")
	require.NoError(t, err)
	require.Nil(t, export.InactiveAt, "a later message makes it active again")
	b.finish(finish("t2", "schedule-news-r1"))

	_, err = b.DeleteSession(ctx, tenant, "schedule-news-r1")
	require.NoError(t, err)
	got, err = b.ScheduleRun(ctx, tenant, "r1")
	require.NoError(t, err)
	require.Empty(t, got.Output, "the run loses what retention removes of the session")
	require.Empty(t, got.ResultRef)
}

func TestScheduleRunChanges(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.plan("news")
	for i, c := range []struct {
		status, digest string
		want           []int
	}{
		{"completed", "same", []int{0, 2}},
		{"completed", "same", []int{0}},
		{"failed", "same", []int{0, 2}},
		{"skipped", "", []int{0, 2}},
		{"failed", "same", []int{0}},
		{"completed", "other", []int{0, 2}},
	} {
		id := fmt.Sprint("r", i)
		b.scheduled("news", id)
		e := end(id, c.digest)
		e.Status, e.Keep, e.EndedAt = c.status, 0, noon.Add(time.Duration(i)*time.Minute)
		left, err := b.FinishScheduleRun(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, c.want, positions(left), "%d: %+v", i, c)
	}
}

func TestOldScheduleRunsAreForgotten(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.plan("news")
	b.plan("other")
	b.scheduled("other", "theirs")
	_, err := b.FinishScheduleRun(t.Context(), end("theirs", "x"))
	require.NoError(t, err)
	b.scheduled("news", "waits")
	for i := range 6 {
		id := fmt.Sprint("r", i)
		b.scheduled("news", id)
		e := end(id, "x")
		e.EndedAt = noon.Add(time.Duration(i) * time.Minute)
		_, err := b.FinishScheduleRun(t.Context(), e)
		require.NoError(t, err)
	}
	var ids []string
	page := agent.ScheduleRunPage{}
	for begun := false; !begun || page.Next != ""; begun = true {
		page, err = b.ScheduleRuns(t.Context(), tenant, "news", agent.Page{Size: 2, Token: page.Next})
		require.NoError(t, err)
		for _, r := range page.Runs {
			ids = append(ids, r.RunID)
		}
	}
	require.Equal(t, []string{"r5", "r4", "r3", "waits"}, ids, "newest first, and unfinished runs stay")
	require.Equal(t, 5, b.count("schedule_runs"))
	page, err = b.ScheduleRuns(t.Context(), "evil", "news", agent.Page{})
	require.NoError(t, err)
	require.Empty(t, page.Runs)

	require.NoError(t, b.DeleteSchedule(t.Context(), tenant, "news"))
	require.Equal(t, 1, b.count("schedule_runs"))
	left, err := b.FinishScheduleRun(t.Context(), end("waits", "x"))
	require.NoError(t, err)
	require.Empty(t, left, "a run whose schedule is gone has no notices")
}
