package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

func TestJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	cfg := b.config()
	cfg.Tenant, cfg.Metrics, cfg.Results = "acme", registry, results{}
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "test-job-123", Prompt: "fetch flights", Context: job.Context{SessionID: "test-sess"}})
	r := b.wait("test-job-123")
	require.Equal(t, job.StatusCompleted, r.Status)
	id := job.TurnID("acme", "test-job-123", 0)
	require.NotEqual(t, job.TurnID("", "test-job-123", 0), id)
	require.Equal(t, "artifact://"+string(id), r.ResultRef)
	require.Equal(t, "answer to fetch flights", r.Output)
	require.Equal(t, &job.Metadata{
		ToolCalls: json.RawMessage(`[{"tool":"execute_pipeline","args":{}}]`), TokensUsed: 1523, CacheHit: true, TurnID: id,
		StopReason: agent.StopEndTurn,
	}, r.Metadata)
	e, _ := b.inbox.envelope(id)
	require.Equal(t, "acme", e.Request.Context.Tenant)
	require.Equal(t, agent.SessionID("test-sess"), e.Request.SessionID)
	stop()
	b.requireNoLists()
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP jobs_in_flight Jobs that the bridge holds, those that wait included.
# TYPE jobs_in_flight gauge
jobs_in_flight 0
# HELP jobs_published_total Results that the bridge published, by status: completed, failed.
# TYPE jobs_published_total counter
jobs_published_total{status="completed"} 1
# HELP jobs_taken_total Jobs that the bridge took from the queue.
# TYPE jobs_taken_total counter
jobs_taken_total 1
`), "jobs_in_flight", "jobs_published_total", "jobs_taken_total"))
}

// results returns the same metadata for every turn of acme.
type results struct{}

func (results) ResultMetadata(_ context.Context, tenant string, _ agent.TurnID) (agent.ResultMetadata, error) {
	if tenant != "acme" {
		return agent.ResultMetadata{}, errors.New("wrong tenant")
	}
	return agent.ResultMetadata{ToolCalls: json.RawMessage(`[{"tool":"execute_pipeline","args":{}}]`), TokensUsed: 1523, CacheHit: true}, nil
}

// failedWork returns the metadata of a job whose work failed for the turns whose message contains "failed work".
type failedWork struct{ inbox *inbox }

func (f failedWork) ResultMetadata(_ context.Context, _ string, id agent.TurnID) (agent.ResultMetadata, error) {
	e, _ := f.inbox.envelope(id)
	m := agent.ResultMetadata{ToolCalls: json.RawMessage(`[]`)}
	if strings.Contains(e.Request.Message, "failed work") {
		m.JobError = &agent.Failure{Type: agent.JobExecutionError, Message: "down", Retryable: true}
	}
	return m, nil
}

// A failed turn is a failed job. A result is kept for a day.
func TestFailedTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "fail"})
	b.eventually("the result", func() bool { return b.length("agent:results:j") == 1 })
	require.Equal(t, 24*time.Hour, b.mini.TTL("agent:results:j"))
	r := b.wait("j")
	require.Equal(t, job.StatusFailed, r.Status)
	require.Equal(t, &agent.Failure{Type: "wall_time_limit", Message: "out of time"}, r.Error)
	require.Equal(t, int64(300), b.inbox.turns["job-j"].envelope.Request.Limits.WallTimeSec)
}

func TestResultsWithoutTTL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.ResultTTL = -1
	b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.pushRaw(`{"job_id":"k"}`)
	b.eventually("results", func() bool { return b.length("agent:results:j") == 1 && b.length("agent:results:k") == 1 })
	require.Zero(t, b.mini.TTL("agent:results:j"))
	require.Zero(t, b.mini.TTL("agent:results:k"))
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Metrics = registry
	b.serve(cfg)
	bad := `{"version":"1.0","job_id":"j", "prompt":"p","timeout_sec":"soon"}`
	b.pushRaw(bad)
	r := b.wait("j")
	require.Equal(t, job.StatusFailed, r.Status)
	require.Equal(t, &agent.Failure{Type: "invalid", Message: "timeout_sec: want a whole number, got a string", Field: "timeout_sec"}, r.Error)
	long := strings.Repeat("é", 16<<10)
	b.pushRaw("\xff" + long)
	b.pushRaw("")
	b.eventually("three dead letters", func() bool { return b.length("agent:jobs:dead") == 3 })

	dead, err := b.mini.List("agent:jobs:dead")
	require.NoError(t, err)
	var letters []map[string]any
	for _, raw := range dead {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(raw), &l))
		require.NotEmpty(t, l["bridge"])
		require.NotEmpty(t, l["reason"])
		at, err := time.Parse(time.RFC3339, l["at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Hour)
		letters = append(letters, l)
	}
	first := letters[2]
	require.Equal(t, bad, first["message"])
	require.Equal(t, "timeout_sec", first["field"])
	require.Equal(t, "timeout_sec: want a whole number, got a string", first["reason"])
	require.Equal(t, "j", first["job_id"])
	require.NotContains(t, first, "truncated")
	cut := letters[0]
	if cut["message"] == "" {
		cut = letters[1]
	}
	require.Equal(t, true, cut["truncated"])
	require.LessOrEqual(t, len(cut["message"].(string)), 16<<10+6)
	require.True(t, strings.HasPrefix(cut["message"].(string), "\ufffdéé"))

	// A valid job with the same id is run.
	b.push(job.Job{JobID: "j", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.InDelta(t, 3, metric(t, registry, "jobs_dead_total"), 0)
}

func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	push := []any{"agent:jobs:dead"}
	for range 10_000 {
		push = append(push, "old")
	}
	b.do("RPUSH", push...)
	b.serve(b.config())
	b.pushRaw("new")
	b.eventually("the new dead letter", func() bool { l, _ := b.mini.List("agent:jobs:dead"); return l[0] != "old" })
	require.Equal(t, 10_000, b.length("agent:jobs:dead"))
}

// A job whose result cannot be stored becomes a dead letter.
func TestResultKeyIsNotAList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.mini.Set("agent:results:j", "not a list"))
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.eventually("a dead letter", func() bool { return b.length("agent:jobs:dead") == 1 })
	_, err := b.client.Wait(t.Context(), "j")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	b.pushRaw(`{"job_id":"j"}`)
	b.eventually("a second dead letter", func() bool { return b.length("agent:jobs:dead") == 2 })
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want agent.Failure
	}{
		"no such agent": {agent.FieldErrorf(agent.CodeNotFound, "agent", "no agent x"), agent.Failure{Type: "not_found", Message: "agent: no agent x", Field: "agent"}},
		"denied":        {agent.Errorf(agent.CodeDenied, "", "no"), agent.Failure{Type: "denied", Message: "no"}},
		"invalid":       {agent.Invalid("message", "too long"), agent.Failure{Type: "invalid", Message: "message: too long", Field: "message"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.inbox.refuse = func(*agent.Envelope) error { return c.err }
			stop := b.serve(b.config())
			b.push(job.Job{JobID: "j", Prompt: "p"})
			r := b.wait("j")
			require.Equal(t, job.StatusFailed, r.Status)
			require.Equal(t, &c.want, r.Error)
			require.Nil(t, r.Metadata)
			stop()
			b.requireNoLists()
			require.Equal(t, 1, b.inbox.submitCount())
		})
	}
}

// While Temporal or the database is unavailable, jobs are retried, and not more of them are taken than may run.
func TestInboxUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	isAvailable := false
	b.inbox.refuse = func(*agent.Envelope) error {
		if !isAvailable {
			return agent.Errorf(agent.CodeUnavailable, "start turn", "no connection")
		}
		return nil
	}
	cfg := b.config()
	cfg.Concurrency = 2
	stop := b.serve(cfg)
	for i := range 5 {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "p"})
	}
	b.eventually("several tries", func() bool { return b.inbox.submitCount() >= 6 })
	require.Equal(t, 3, b.length("agent:jobs"))
	b.inbox.change(func() { isAvailable = true })
	for i := range 5 {
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint(i)).Status)
	}
	stop()
	b.requireNoLists()
}

// If following a turn fails, the bridge follows it again from the last event.
func TestFollowIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.eventually("the first turn", func() bool { return b.inbox.turnCount() == 1 })
	b.inbox.change(func() { b.inbox.followErr = agent.Errorf(agent.CodeUnavailable, "", "no database") })
	b.inbox.emit("job-j", agent.StatusRunning)
	b.push(job.Job{JobID: "k", Prompt: "p"})
	b.eventually("the second turn", func() bool { return b.inbox.turnCount() == 2 })
	b.inbox.change(func() { b.inbox.followErr = nil })
	b.inbox.finish("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.Equal(t, job.StatusCompleted, b.wait("k").Status)
	require.Equal(t, 2, b.inbox.submitCount())
	stop()
	b.requireNoLists()
}

// A turn whose events have expired ended long ago. Its producer gets a failed result.
func TestExpiredEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.followErr = agent.ErrGap
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	r := b.wait("j")
	require.Equal(t, job.StatusFailed, r.Status)
	require.ErrorContains(t, r.Error.AsError(), "expired")
	require.False(t, r.Error.Retryable)
}
