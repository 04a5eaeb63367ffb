package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
)

const soon = 30 * time.Second

// bench is a Redis, an inbox and a producer.
type bench struct {
	t       *testing.T
	mini    *miniredis.Miniredis // nil: a real one
	options func() *redis.Options
	raw     *redis.Client
	client  *jobs.Client
	inbox   *inbox
	queue   string
	prefix  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	mini := miniredis.RunT(t)
	b := &bench{t: t, mini: mini, options: func() *redis.Options { return &redis.Options{Addr: mini.Addr()} }, queue: "agent:jobs", prefix: "agent:results"}
	b.open()
	return b
}

// realBench uses names of its own in a server that tests share.
func realBench(t *testing.T, s *server, name string) *bench {
	t.Helper()
	b := &bench{t: t, options: s.options, queue: name + ":jobs", prefix: name + ":results"}
	b.open()
	return b
}

func (b *bench) open() {
	b.inbox = newInbox()
	b.raw = redis.NewClient(b.options())
	var err error
	b.client, err = jobs.NewClient(jobs.ClientConfig{Redis: b.options(), Queue: b.queue, ResultPrefix: b.prefix})
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		require.NoError(b.t, b.client.Close())
		require.NoError(b.t, b.raw.Close())
	})
}

func (b *bench) config() jobs.Config {
	return jobs.Config{Redis: b.options(), Queue: b.queue, ResultPrefix: b.prefix}
}

// serve starts a bridge; stop makes it leave and waits for that.
func (b *bench) serve(cfg jobs.Config) (stop func()) {
	b.t.Helper()
	bridge, err := jobs.New(cfg)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- bridge.Serve(ctx, b.inbox) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(b.t, <-done)
		})
	}
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) push(j job.Job) {
	b.t.Helper()
	require.NoError(b.t, b.client.Push(b.t.Context(), j))
}

func (b *bench) pushRaw(raw string) {
	b.t.Helper()
	require.NoError(b.t, b.raw.RPush(b.t.Context(), b.queue, raw).Err())
}

func (b *bench) wait(id string) job.Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), soon)
	defer cancel()
	r, err := b.client.Wait(ctx, id)
	require.NoError(b.t, err)
	return r
}

func (b *bench) until(what string, condition func() bool) {
	b.t.Helper()
	require.Eventually(b.t, condition, soon, 5*time.Millisecond, what)
}

func (b *bench) length(key string) int {
	n, err := b.raw.LLen(context.Background(), key).Result()
	require.NoError(b.t, err)
	return int(n)
}

// nothingLeft checks that no list holds anything: each result was fetched, and there was one of each.
func (b *bench) nothingLeft() {
	b.t.Helper()
	keys, err := b.raw.Keys(context.Background(), "*").Result()
	require.NoError(b.t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, b.queue) || strings.HasPrefix(key, b.prefix) {
			kind, err := b.raw.Type(context.Background(), key).Result()
			require.NoError(b.t, err)
			require.NotEqual(b.t, "list", kind, key)
		}
	}
}

func TestOneJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	cfg := b.config()
	cfg.Tenant, cfg.Metrics, cfg.Results = "acme", registry, results{}
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "test-job-123", Prompt: "fetch flights", Context: job.Context{SessionID: "test-sess"}})
	r := b.wait("test-job-123")
	require.Equal(t, job.StatusCompleted, r.Status)
	require.Equal(t, "artifact://job-test-job-123", r.ResultRef)
	require.Equal(t, "answer to fetch flights", r.Output)
	require.Equal(t, &job.Metadata{
		ToolCalls: json.RawMessage(`[{"tool":"execute_pipeline","args":{}}]`), TokensUsed: 1523, CacheHit: true, TurnID: "job-test-job-123",
		StopReason: agent.StopEndTurn,
	}, r.Metadata)
	e, _ := b.inbox.envelope("job-test-job-123")
	require.Equal(t, "acme", e.Request.Context.Tenant)
	require.Equal(t, agent.SessionID("test-sess"), e.Request.SessionID)
	stop()
	b.nothingLeft()
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

// results says the same of every turn of acme's.
type results struct{}

func (results) ResultMetadata(_ context.Context, tenant string, _ agent.TurnID) (agent.ResultMetadata, error) {
	if tenant != "acme" {
		return agent.ResultMetadata{}, errors.New("wrong tenant")
	}
	return agent.ResultMetadata{ToolCalls: json.RawMessage(`[{"tool":"execute_pipeline","args":{}}]`), TokensUsed: 1523, CacheHit: true}, nil
}

// A failed turn is a failed job; a result waits a day.
func TestAFailedTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "fail"})
	b.until("result", func() bool { return b.length("agent:results:j") == 1 })
	require.Equal(t, 24*time.Hour, b.mini.TTL("agent:results:j"))
	r := b.wait("j")
	require.Equal(t, job.StatusFailed, r.Status)
	require.Equal(t, &agent.Failure{Type: "wall_time_limit", Message: "out of time"}, r.Error)
	require.Equal(t, int64(300), b.inbox.turns["job-j"].envelope.Request.Limits.WallTimeSec)
}

func TestResultsForEver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.ResultTTL = -1
	b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.pushRaw(`{"job_id":"k"}`)
	b.until("results", func() bool { return b.length("agent:results:j") == 1 && b.length("agent:results:k") == 1 })
	require.Zero(t, b.mini.TTL("agent:results:j"))
	require.Zero(t, b.mini.TTL("agent:results:k"))
}

// However often a job is pushed, it runs once and has one result.
func TestPushedTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.serve(b.config())
	j := job.Job{JobID: "j", Prompt: "hold"}
	b.push(j)
	b.push(j)
	b.push(job.Job{JobID: "j", Prompt: "hold", RunID: "another message, the same job"})
	b.until("three take it", func() bool { return b.inbox.submitted() == 3 })
	b.inbox.let("job-j")
	require.Equal(t, "answer to hold", b.wait("j").Output)
	raw, err := j.Encode()
	require.NoError(t, err)
	b.pushRaw(string(raw)) // as a producer does that does not ask whether it has ended
	require.Equal(t, agent.CodeConflict, agent.CodeOf(b.client.Push(t.Context(), j)))
	b.push(job.Job{JobID: "k", Prompt: "last"})
	b.wait("k")
	stop()
	b.nothingLeft()
	require.Equal(t, 2, b.inbox.count())
	require.Equal(t, 4, b.inbox.submitted())
}

// A retry is a turn of its own, unless an earlier attempt will do.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  string // the prompt of attempt 0
		let    bool   // it is let go once the retry is there
		turns  int
		output string
	}{
		"after a failure":             {"fail", false, 2, "answer to again"},
		"after a success":             {"at once", false, 1, "answer to at once"},
		"of one that runs":            {"hold", true, 1, "answer to hold"},
		"of one that runs, and fails": {"hold", true, 2, "answer to again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			stop := b.serve(b.config())
			b.push(job.Job{JobID: "j", Prompt: c.first})
			if !c.let {
				b.wait("j")
			} else {
				b.until("first", func() bool { return b.inbox.count() == 1 })
			}
			b.push(job.Job{JobID: "j", Prompt: "again", RetryCount: 2})
			if c.let {
				b.until("second", func() bool { return b.inbox.submitted() == 2 })
				if c.turns == 2 {
					b.inbox.say("job-j", agent.StatusFailed)
				} else {
					b.inbox.let("job-j")
				}
			}
			r := b.wait("j")
			if c.let { // the attempt's own result, and the retry's, in either order
				if other := b.wait("j"); r.Metadata.RetryCount == 0 {
					r = other
				}
			}
			require.Equal(t, c.output, r.Output)
			require.Equal(t, 2, r.Metadata.RetryCount)
			require.Equal(t, c.turns, b.inbox.count())
			stop()
			b.nothingLeft()
		})
	}
}

func TestMessagesThatAreNoJobs(t *testing.T) {
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
	b.until("dead", func() bool { return b.length("agent:jobs:dead") == 3 })

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

	// The same id, in order, is a job like any other.
	b.push(job.Job{JobID: "j", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.InDelta(t, 3, metric(t, registry, "jobs_dead_total"), 0)
}

func metric(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return -1
}

func TestTheDeadAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := make([]any, 10_000)
	for i := range old {
		old[i] = "old"
	}
	require.NoError(t, b.raw.RPush(t.Context(), "agent:jobs:dead", old...).Err())
	b.serve(b.config())
	b.pushRaw("new")
	b.until("newest", func() bool { l, _ := b.mini.List("agent:jobs:dead"); return l[0] != "old" })
	require.Equal(t, 10_000, b.length("agent:jobs:dead"))
}

// Where a result belongs lies something else: the job goes to the dead, and is not lost without a word.
func TestAResultHasNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.mini.Set("agent:results:j", "in the way"))
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.until("dead", func() bool { return b.length("agent:jobs:dead") == 1 })
	_, err := b.client.Wait(t.Context(), "j")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	b.pushRaw(`{"job_id":"j"}`)
	b.until("dead too", func() bool { return b.length("agent:jobs:dead") == 2 })
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
			b.nothingLeft()
			require.Equal(t, 1, b.inbox.submitted())
		})
	}
}

// While Temporal or the database is away, jobs are kept, and no more are taken than fit.
func TestTheInboxIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	away := true
	b.inbox.refuse = func(*agent.Envelope) error {
		if away {
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
	b.until("tries", func() bool { return b.inbox.submitted() >= 6 })
	require.Equal(t, 3, b.length("agent:jobs"))
	b.inbox.set(func() { away = false })
	for i := range 5 {
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint(i)).Status)
	}
	stop()
	b.nothingLeft()
}

// Events that break off are taken up where they were.
func TestTheEventsBreakOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.until("runs", func() bool { return b.inbox.count() == 1 })
	b.inbox.set(func() { b.inbox.broken = agent.Errorf(agent.CodeUnavailable, "", "no database") })
	b.inbox.say("job-j", agent.StatusRunning)
	b.push(job.Job{JobID: "k", Prompt: "p"})
	b.until("second", func() bool { return b.inbox.count() == 2 })
	b.inbox.set(func() { b.inbox.broken = nil })
	b.inbox.let("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.Equal(t, job.StatusCompleted, b.wait("k").Status)
	require.Equal(t, 2, b.inbox.submitted())
	stop()
	b.nothingLeft()
}

// A turn whose events have expired ended long ago: its producer hears that.
func TestTheEventsAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.broken = agent.ErrGap
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	r := b.wait("j")
	require.Equal(t, job.StatusFailed, r.Status)
	require.ErrorContains(t, r.Error.AsError(), "expired")
	require.False(t, r.Error.Retryable)
}

// Jobs that wait, for a person or for their session, leave their places to others.
func TestWaitingJobsHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Concurrency = 1
	b.serve(cfg)
	for i := range 3 {
		b.push(job.Job{JobID: fmt.Sprint("ask-", i), Prompt: "ask"})
	}
	b.push(job.Job{JobID: "quick", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("quick").Status)

	// One that runs on takes its place again.
	b.inbox.say("job-ask-0", agent.StatusRunning)
	b.push(job.Job{JobID: "held", Prompt: "hold"})
	b.push(job.Job{JobID: "later", Prompt: "p"})
	b.until("ask-0 and perhaps held run", func() bool { return b.length("agent:jobs") <= 2 })
	b.inbox.let("job-ask-0")
	require.Equal(t, job.StatusCompleted, b.wait("ask-0").Status)
	b.until("held runs", func() bool { _, ok := b.inbox.envelope("job-held"); return ok })
	require.Equal(t, 1, b.length("agent:jobs"))
	b.inbox.let("job-held")
	b.wait("held")
	b.wait("later")
	for i := 1; i < 3; i++ {
		b.inbox.let(agent.TurnID(fmt.Sprint("job-ask-", i)))
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint("ask-", i)).Status)
	}
}

// A turn that says nothing at all waits behind another one of its session.
func TestTurnsBehindOthersHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Concurrency = 1
	b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "behind"})
	b.push(job.Job{JobID: "quick", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("quick").Status)
	b.inbox.let("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
}

// An error that nobody can judge is tried a few times, and then the producer is told.
func TestAnErrorThatStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return errors.New("a bug") }
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	r := b.wait("j")
	require.Equal(t, &agent.Failure{Type: "internal", Message: "a bug", Retryable: true}, r.Error)
	require.Equal(t, 10, b.inbox.submitted())
}

// There is an end to how many may wait.
func TestWaitingJobsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Concurrency, cfg.MaxHeld = 1, 2
	b.serve(cfg)
	for i := range 3 {
		b.push(job.Job{JobID: fmt.Sprint("ask-", i), Prompt: "ask"})
	}
	b.until("two wait", func() bool { return b.inbox.count() == 2 })
	b.inbox.let("job-ask-0")
	b.wait("ask-0")
	b.until("the third comes", func() bool { return b.inbox.count() == 3 })
	for i := 1; i < 3; i++ {
		b.inbox.let(agent.TurnID(fmt.Sprint("job-ask-", i)))
		b.wait(fmt.Sprint("ask-", i))
	}
}

// A bridge that is told to stop lets jobs end that can, and gives the rest back, at the head and in their order.
func TestLeaving(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Concurrency, cfg.Drain, cfg.Metrics = 4, 500*time.Millisecond, registry
	stop := b.serve(cfg)
	for _, id := range []string{"a", "b", "c"} {
		b.push(job.Job{JobID: id, Prompt: "hold"})
	}
	b.push(job.Job{JobID: "d", Prompt: "ask"})
	b.until("taken", func() bool { return b.inbox.count() == 4 })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	b.push(job.Job{JobID: "e", Prompt: "p"})
	b.inbox.let("job-b")
	require.Equal(t, job.StatusCompleted, b.wait("b").Status)
	<-stopped
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	order := ""
	for _, raw := range list {
		id, _ := job.JobIDOf([]byte(raw))
		order += id
	}
	require.Contains(t, []string{"acd", "acde", "acd" + "e"}, order, "e may have been taken in the last moment")
	require.InDelta(t, 4, metric(t, registry, "jobs_returned_total"), 1)
	keys := b.mini.Keys()
	for _, key := range keys {
		require.NotContains(t, key, ":alive:")
		require.NotContains(t, key, ":processing:")
		require.NotEqual(t, "agent:jobs:bridges", key)
	}

	// Whoever comes next goes on with the same turns.
	b.serve(b.config())
	for _, id := range []string{"a", "c", "d"} {
		b.inbox.let(agent.TurnID("job-" + id))
		require.Equal(t, job.StatusCompleted, b.wait(id).Status)
	}
	b.wait("e")
	require.Equal(t, 5, b.inbox.count())
	b.until("all over", func() bool { return b.length("agent:jobs") == 0 })
}

// Leaving does not take longer than need be.
func TestLeavingWithNothingToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Drain = time.Hour
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "d", Prompt: "ask"}) // nobody waits for a person
	b.until("waits", func() bool { return b.inbox.count() == 1 })
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 20*time.Second)
	require.Equal(t, 1, b.length("agent:jobs"))
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg     jobs.Config
		message string
	}{
		"no address":           {jobs.Config{}, "url: is empty: want redis://host:6379"},
		"another scheme":       {jobs.Config{URL: "http://x"}, "url: redis: invalid URL scheme: http"},
		"a bad password":       {jobs.Config{URL: "redis://me:secret/1@x:6379"}, "url: malformed URL"},
		"a bad tenant":         {jobs.Config{URL: "redis://x", Tenant: "a b"}, "tenant: want 1 to 128 of A-Z a-z 0-9 . _ -"},
		"negative concurrency": {jobs.Config{URL: "redis://x", Concurrency: -1}, "concurrency: is -1, want 1 to 10000"},
		"too few held":         {jobs.Config{URL: "redis://x", MaxHeld: 63}, "max_held: is 63, want the concurrency, 64, to 100000"},
		"too many held":        {jobs.Config{URL: "redis://x", MaxHeld: 100_001}, "max_held: is 100001, want the concurrency, 64, to 100000"},
		"negative drain":       {jobs.Config{URL: "redis://x", Drain: -1}, "drain: is negative"},
		"a short lease":        {jobs.Config{URL: "redis://x", Lease: time.Millisecond}, "lease: is 1ms, at least 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jobs.New(c.cfg)
			require.EqualError(t, err, c.message)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
	registry := prometheus.NewRegistry()
	_, err := jobs.New(jobs.Config{URL: "redis://x", Metrics: registry})
	require.NoError(t, err)
	_, err = jobs.New(jobs.Config{URL: "redis://x", Metrics: registry})
	require.ErrorContains(t, err, "register metrics of jobs: ")
	_, err = jobs.NewClient(jobs.ClientConfig{})
	require.EqualError(t, err, "url: is empty: want redis://host:6379")
}

func TestClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.EqualError(t, b.client.Push(t.Context(), job.Job{Prompt: "p"}), "job_id: is missing")
	b.push(job.Job{JobID: "j", Prompt: "p"})
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	j, err := job.Parse([]byte(list[0]))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), j.CreatedAt, time.Hour)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.client.Wait(ctx, "j")
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = b.client.Wait(ctx, "j")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))

	require.NoError(t, b.raw.RPush(t.Context(), "agent:results:j", "{}").Err())
	_, err = b.client.Wait(t.Context(), "j")
	require.ErrorContains(t, err, `read result of job "j": version: is missing`)
	_, err = b.client.Wait(t.Context(), "")
	require.EqualError(t, err, "job_id: is missing")

	require.NoError(t, b.mini.Set("agent:jobs:attempt:over:3", "failed"))
	err = b.client.Push(t.Context(), job.Job{JobID: "over", RetryCount: 3, Prompt: "p"})
	require.EqualError(t, err, `job "over" has ended already: its attempt 3 is failed`)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.Equal(t, 1, b.length("agent:jobs"))
	require.NoError(t, b.mini.Set("agent:jobs:attempt:over:4", "running"))
	b.push(job.Job{JobID: "over", RetryCount: 4, Prompt: "p"})
	b.push(job.Job{JobID: "over", RetryCount: 5, Prompt: "p"})

	b.mini.Close()
	err = b.client.Push(t.Context(), job.Job{JobID: "j", Prompt: "p"})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}
