package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// of is a job of a session.
func of(session string, i int, prompt string) job.Job {
	return job.Job{JobID: fmt.Sprint(session, "-", i), Prompt: prompt, Context: job.Context{SessionID: session}}
}

// A session with many jobs, whether it waits for a person or works, takes one place at most, and keeps its jobs in their order.
func TestOneSessionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first       string
		concurrency int
	}{
		"waits for a person": {"ask", 1},
		"works":              {"hold", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var order []string
			b.inbox.refuse = func(e *agent.Envelope) error {
				order = append(order, string(e.Request.TurnID))
				return nil
			}
			cfg := b.config()
			cfg.Concurrency = c.concurrency
			stop := b.serve(cfg)
			b.push(of("s", 0, c.first))
			want := []string{"job-s-0"}
			for i := 1; i < 200; i++ {
				b.push(of("s", i, "p"))
				want = append(want, fmt.Sprint("job-s-", i))
			}
			b.push(job.Job{JobID: "free", Prompt: "p"})
			b.push(of("other", 0, "p"))
			began := time.Now()
			require.Equal(t, job.StatusCompleted, b.wait("free").Status)
			require.Equal(t, job.StatusCompleted, b.wait("other-0").Status)
			require.Less(t, time.Since(began), 8*time.Second, "less than it takes to see that a turn is silent")
			require.Equal(t, 3, b.inbox.count())
			b.inbox.let("job-s-0")
			for i := range 200 {
				require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint("s-", i)).Status)
			}
			stop()
			b.nothingLeft()
			order = slices.DeleteFunc(order, func(id string) bool { return !strings.HasPrefix(id, "job-s-") })
			require.Equal(t, want, order)
		})
	}
}

// A job that its session has no room for, for other doors have filled it, waits without a place.
func TestFullSessionsHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	full := true
	b.inbox.refuse = func(e *agent.Envelope) error {
		if full && e.Request.SessionID != "" {
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Minute}
		}
		return nil
	}
	cfg := b.config()
	cfg.Concurrency = 2
	stop := b.serve(cfg)
	for i := range 5 {
		b.push(of(fmt.Sprint("s", i), 0, "p"))
	}
	b.push(job.Job{JobID: "free", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("free").Status)
	b.until("every session has refused its job", func() bool { return b.inbox.submitted() >= 6 })
	require.Equal(t, 1, b.inbox.count())
	b.inbox.set(func() { full = false })
	stop() // which nobody waits for
	require.Equal(t, 5, b.length("agent:jobs"))
}

// A refusal that is not the session's matter keeps its place, so that no more are taken than can run.
func TestABusyRuntimeIsLeftInPeace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return agent.Errorf(agent.CodeRateLimited, "", "slow down") }
	cfg := b.config()
	cfg.Concurrency, cfg.Drain = 2, 100*time.Millisecond
	b.serve(cfg)
	for i := range 5 {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "p"})
	}
	b.until("tries", func() bool { return b.inbox.submitted() >= 6 })
	require.Equal(t, 3, b.length("agent:jobs"))
}

// Whoever leaves starts none of the jobs that wait for another of their session: they go back in their order.
func TestLeavingWithALine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Metrics = registry
	stop := b.serve(cfg)
	b.push(of("s", 0, "hold"))
	for i := 1; i < 5; i++ {
		b.push(of("s", i, "p"))
	}
	b.push(job.Job{JobID: "last", Prompt: "p"})
	b.wait("last")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	b.until("it leaves", func() bool { return metric(t, registry, "jobs_in_flight") == 1 })
	b.inbox.let("job-s-0")
	require.Equal(t, job.StatusCompleted, b.wait("s-0").Status)
	<-stopped
	require.Equal(t, 2, b.inbox.count())
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i, raw := range list {
		id, _ := job.JobIDOf([]byte(raw))
		require.Equal(t, fmt.Sprint("s-", i+1), id)
	}
}

// A retry that is pushed right behind its job finds it, however fast both are taken.
func TestRetriesPushedAtOnce(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	for _, bridges := range []int{1, 2} {
		t.Run(fmt.Sprint(bridges, " bridges"), func(t *testing.T) {
			t.Parallel()
			b := realBench(t, redis, fmt.Sprint("pairs-", bridges))
			const pairs = 50
			for i := range pairs {
				b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "slow"})
				b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "slow", RetryCount: 1})
			}
			cfg := b.config()
			cfg.Concurrency = 200
			for range bridges {
				b.serve(cfg)
			}
			for i := range pairs {
				for range 2 {
					require.Equal(t, "answer to slow", b.wait(fmt.Sprint(i)).Output)
				}
			}
			require.Equal(t, pairs, b.inbox.count(), "no retry ran")
		})
	}
}
