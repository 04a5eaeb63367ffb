package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

var _ definitions.Store = (*postgres.Store)(nil)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 123_456_000, time.UTC)

func run(id string) agent.Run {
	return agent.Run{
		RunID: id, WorkflowID: "workflow/acme/ops/main/" + id, WorkflowKey: key("ops", "main"), Version: 3, Status: agent.RunRunning,
		Input: json.RawMessage(`{"price": 1.50, "x":"\u0000"}`), UserID: "u1", Schedule: "daily", StartedAt: noon,
	}
}

func visit(node string, n int) agent.RunStep {
	return agent.RunStep{
		NodeID: node, Visit: n, Type: agent.WorkflowTask, Status: agent.RunCompleted, Outcome: "true", Output: json.RawMessage(`{"a": 1.50}`),
		TurnID: "t1", StartedAt: noon.Add(time.Duration(n) * time.Second), FinishedAt: new(noon.Add(time.Duration(n)*time.Second + time.Millisecond)),
	}
}

func (b *bench) beginRun(r agent.Run) agent.Run {
	b.t.Helper()
	kept, err := b.BeginRun(b.t.Context(), r)
	require.NoError(b.t, err)
	return kept
}

func (b *bench) step(runID string, s agent.RunStep) agent.RunStep {
	b.t.Helper()
	kept, err := b.SaveStep(b.t.Context(), tenant, runID, s)
	require.NoError(b.t, err)
	return kept
}

func TestRun(t *testing.T) {
	b := newBench(t, postgres.Config{})
	first := run("r1")
	require.Equal(t, first, b.beginRun(first))
	again := run("r1")
	again.Version, again.Input, again.StartedAt = 9, nil, noon.Add(time.Hour)
	require.Equal(t, first, b.beginRun(again), "the recorded run does not change")
	for _, other := range []agent.WorkflowKey{{Tenant: "evil", Owner: "ops", Tag: "main"}, key("bob", "main"), key("ops", "other")} {
		taken := run("r1")
		taken.WorkflowKey = other
		_, err := b.BeginRun(t.Context(), taken)
		requireFault(t, agent.CodeConflict, "run_id", err)
	}
	now := run("now")
	now.StartedAt, now.Input = time.Time{}, nil
	require.WithinDuration(t, time.Now(), b.beginRun(now).StartedAt, time.Minute)

	s1, s2 := visit("a", 1), visit("b", 2)
	s2.Status, s2.Output, s2.Error = agent.RunFailed, nil, &agent.Failure{Type: agent.OutcomeUnknown, Message: "may have happened\x00"}
	require.Equal(t, s1, b.step("r1", s1))
	require.Equal(t, s2, b.step("r1", s2))
	other := s1
	other.Outcome = "false"
	require.Equal(t, s1, b.step("r1", other), "the first one wins")
	got, ok, err := b.Step(t.Context(), "r1", "a", 1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, s1, got)
	for _, at := range []struct {
		run, node string
		visit     int
	}{{"r1", "a", 2}, {"r1", "c", 1}, {"now", "a", 1}, {"r\x001", "a", 2}} {
		_, ok, err = b.Step(t.Context(), at.run, at.node, at.visit)
		require.NoError(t, err)
		require.False(t, ok)
	}
	for who, id := range map[string]string{"evil": "r1", tenant: "r2"} {
		_, err = b.SaveStep(t.Context(), who, id, s1)
		requireFault(t, agent.CodeNotFound, "run_id", err)
		_, err = b.Run(t.Context(), who, id)
		requireFault(t, agent.CodeNotFound, "run_id", err)
		requireFault(t, agent.CodeNotFound, "run_id", b.FinishRun(t.Context(), who, id, agent.RunFailed, nil, noon))
	}
	want := first
	want.Steps = []agent.RunStep{s1, s2}
	for _, who := range []string{tenant, "", "*"} {
		r, err := b.Run(t.Context(), who, "r1")
		require.NoError(t, err)
		require.Equal(t, want, r)
	}

	failure := &agent.Failure{Type: "denied", Message: "no", Field: "x"}
	require.NoError(t, b.FinishRun(t.Context(), tenant, "r1", agent.RunFailed, failure, noon.Add(time.Minute)))
	require.NoError(t, b.FinishRun(t.Context(), tenant, "r1", agent.RunCompleted, nil, noon.Add(time.Hour)))
	want.Status, want.Error, want.FinishedAt = agent.RunFailed, failure, new(noon.Add(time.Minute))
	r, err := b.Run(t.Context(), tenant, "r1")
	require.NoError(t, err)
	require.Equal(t, want, r, "the first end wins")
	requireFault(t, agent.CodeInvalid, "status", b.FinishRun(t.Context(), tenant, "now", agent.RunRunning, nil, noon))
	requireFault(t, agent.CodeInvalid, "status", b.FinishRun(t.Context(), tenant, "now", "odd", nil, noon))
	long := &agent.Failure{Type: "internal", Message: strings.Repeat("é", 1<<20), Field: strings.Repeat("x", 1<<20)}
	require.NoError(t, b.FinishRun(t.Context(), tenant, "now", agent.RunFailed, long, noon))
	r, err = b.Run(t.Context(), tenant, "now")
	require.NoError(t, err)
	require.Less(t, len(r.Error.Message), 4<<10)
}

func TestRunRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.beginRun(run("r1"))
	large := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for field, change := range map[string]func(r *agent.Run){
		"run_id": func(r *agent.Run) { r.RunID = "" }, "tenant": func(r *agent.Run) { r.Tenant = "" },
		"workflow_tag": func(r *agent.Run) { r.Tag = "" }, "user_id": func(r *agent.Run) { r.UserID = "\x00" },
	} {
		r := run("r2")
		change(&r)
		_, err := b.BeginRun(t.Context(), r)
		requireFault(t, agent.CodeInvalid, field, err)
	}
	r := run("r2")
	r.Input = large
	_, err := b.BeginRun(t.Context(), r)
	requireFault(t, agent.CodeOverflow, "input", err)
	s := visit("a", 1)
	s.Output = large
	_, err = b.SaveStep(t.Context(), tenant, "r1", s)
	requireFault(t, agent.CodeOverflow, "output", err)
	_, err = b.SaveStep(t.Context(), tenant, "r1", visit("", 1))
	requireFault(t, agent.CodeInvalid, "node_id", err)
	require.Equal(t, 1, b.count("workflow_runs"))
	require.Zero(t, b.count("workflow_run_steps"))
}

func TestRunShowsTheNewestOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.beginRun(run("r1"))
	for i := range 10 {
		s := visit("a", i+1)
		s.Output = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
		b.step("r1", s)
	}
	r, err := b.Run(t.Context(), tenant, "r1")
	require.NoError(t, err)
	require.Len(t, r.Steps, 10)
	for i, s := range r.Steps {
		require.Equal(t, i+1, s.Visit)
		require.Equal(t, i < 2, s.Output == nil, i)
	}
}

func TestAttempt(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.beginRun(run("r1"))
	before := make([]bool, 8)
	require.NoError(t, errors.Join(atOnce(len(before), func(i int) (err error) {
		before[i], err = b.Attempt(t.Context(), "r1", "a", 1)
		return err
	})...))
	slices.SortFunc(before, func(a, b bool) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	require.Equal(t, []bool{false, true, true, true, true, true, true, true}, before, "exactly one call is the first")
	was, err := b.Attempt(t.Context(), "r1", "a", 2)
	require.NoError(t, err)
	require.False(t, was)
	_, err = b.Attempt(t.Context(), "nobody", "a", 1)
	requireCode(t, agent.CodeNotFound, err)
	_, err = b.Attempt(t.Context(), "r1", "", 1)
	requireFault(t, agent.CodeInvalid, "node_id", err)
}

func TestRuns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for i := range 6 {
		r := run(fmt.Sprintf("r%d", i))
		r.StartedAt = noon.Add(time.Duration(i/2) * time.Second)
		if i == 5 {
			r.Tag = "other"
		}
		if i == 4 {
			r.Owner = "bob"
		}
		b.beginRun(r)
	}
	b.beginRun(agent.Run{RunID: "theirs", WorkflowKey: agent.WorkflowKey{Tenant: "zeta", Owner: "ops", Tag: "main"}, StartedAt: noon.Add(-time.Hour)})
	require.NoError(t, b.FinishRun(t.Context(), tenant, "r0", agent.RunCompleted, nil, noon))
	b.step("r1", visit("a", 1))
	list := func(q agent.RunQuery) (ids []string) {
		t.Helper()
		for {
			page, err := b.Runs(t.Context(), q)
			require.NoError(t, err)
			for _, r := range page.Runs {
				ids = append(ids, r.RunID)
				require.Empty(t, r.Steps)
				require.Empty(t, r.Input)
				require.NotEmpty(t, r.Version+1)
			}
			if q.Token = page.Next; q.Token == "" {
				return ids
			}
		}
	}
	for _, size := range []int{0, 1, 2, 4} {
		q := agent.RunQuery{Tenant: tenant, Page: agent.Page{Size: size}}
		require.Equal(t, []string{"r5", "r4", "r3", "r2", "r1", "r0"}, list(q))
		q.Tag = "main"
		require.Equal(t, []string{"r4", "r3", "r2", "r1", "r0"}, list(q))
		q.Owner = "ops"
		require.Equal(t, []string{"r3", "r2", "r1", "r0"}, list(q))
		q.Status = agent.RunCompleted
		require.Equal(t, []string{"r0"}, list(q))
		require.Equal(t, []string{"r5", "r4", "r3", "r2", "r1", "r0", "theirs"}, list(agent.RunQuery{Tenant: "*", Page: agent.Page{Size: size}}))
		require.Empty(t, list(agent.RunQuery{Tenant: "evil", Page: agent.Page{Size: size}}))
	}
	_, err := b.Runs(t.Context(), agent.RunQuery{Tenant: tenant, Status: "odd"})
	requireFault(t, agent.CodeInvalid, "status", err)
	for _, token := range []string{"%", "eyJzIjo5MjIzMzcyMDM2ODU0Nzc1ODA3LCJyIjoiYSJ9", "eyJzIjotOTIyMzM3MjAzNjg1NDc3NTgwOCwiciI6ImEifQ"} {
		_, err = b.Runs(t.Context(), agent.RunQuery{Tenant: tenant, Page: agent.Page{Token: token}})
		requireFault(t, agent.CodeInvalid, "page_token", err)
	}
}

func TestRunsReadOnlyThePage(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`
		INSERT INTO workflow_runs (run_id, tenant, workflow_id, tag, owner, version, status, user_id, schedule, started_at)
		SELECT 'r' || i, 't' || i % 50, '', 'g' || i % 7, 'o', 1, 'completed', '', '', now() - i * interval '1 s' FROM generate_series(1, 20000) i; ANALYZE`)
	for tag, index := range map[string]string{"": "workflow_runs_newest", "g3": "workflow_runs_of_tag"} {
		plan := b.explain(strings.NewReplacer("$1", "'t7'", "$2", "'"+tag+"'", "$3", "''", "$4", "''", "$5", "now()", "$6", "''", "$7", "20").Replace(postgres.ListRuns))
		require.NotContains(t, plan, "Seq Scan", plan)
		require.Contains(t, plan, index, plan)
	}
}

// Content that a run refers to is held until the run is removed.
func TestRunsHoldContent(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := run("r1")
	r.Input = json.RawMessage(`{"rows":"` + cas("1") + `"}`)
	b.beginRun(r)
	s := visit("a", 1)
	s.Ref = cas("2")
	b.step("r1", s)
	s = visit("a", 2)
	s.Output = json.RawMessage(`{"ref":"cas:\/\/sha256:` + strings.Repeat("3", 64) + `"}`)
	b.step("r1", s)
	b.step("r1", visit("a", 3))
	require.Equal(t, 3, b.count("blob_refs WHERE tenant = 'acme' AND holder = 'run/r1'"))
	_, err := b.Attempt(t.Context(), "r1", "a", 1)
	require.NoError(t, err)
	b.exec(`DELETE FROM workflow_runs`)
	for _, table := range []string{"blob_refs", "workflow_run_steps", "workflow_run_attempts"} {
		require.Zero(t, b.count(table), table)
	}
}
