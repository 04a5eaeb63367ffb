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

// sessionJob returns the i-th job of a session.
func sessionJob(session string, i int, prompt string) job.Job {
	return job.Job{JobID: fmt.Sprint(session, "-", i), Prompt: prompt, Context: job.Context{SessionID: session}}
}

// A session with many jobs takes at most one slot, whether its first job runs or waits for a person. Its jobs are submitted in order.
func TestSessionTakesOneSlot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt      string // of the first job
		concurrency int
	}{
		"waits for a person": {"ask", 1},
		"runs":               {"hold", 2},
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
			b.push(sessionJob("s", 0, c.prompt))
			want := []string{"job-s-0"}
			for i := 1; i < 200; i++ {
				b.push(sessionJob("s", i, "p"))
				want = append(want, fmt.Sprint("job-s-", i))
			}
			b.push(job.Job{JobID: "free", Prompt: "p"})
			b.push(sessionJob("other", 0, "p"))
			start := time.Now()
			require.Equal(t, job.StatusCompleted, b.wait("free").Status)
			require.Equal(t, job.StatusCompleted, b.wait("other-0").Status)
			require.Less(t, time.Since(start), 8*time.Second, "less than the time after which a turn without events frees its slot")
			require.Equal(t, 3, b.inbox.turnCount())
			b.inbox.finish("job-s-0")
			for i := range 200 {
				require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint("s-", i)).Status)
			}
			stop()
			b.requireNoLists()
			order = slices.DeleteFunc(order, func(id string) bool { return !strings.HasPrefix(id, "job-s-") })
			require.Equal(t, want, order)
		})
	}
}

// A job whose session can queue no more turns waits without a slot.
func TestFullSessionTakesNoSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(e *agent.Envelope) error {
		if e.Request.SessionID != "" {
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Minute}
		}
		return nil
	}
	cfg := b.config()
	cfg.Concurrency = 2
	stop := b.serve(cfg)
	for i := range 5 {
		b.push(sessionJob(fmt.Sprint("s", i), 0, "p"))
	}
	b.push(job.Job{JobID: "free", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("free").Status)
	b.eventually("every session to refuse its job", func() bool { return b.inbox.submitCount() >= 6 })
	require.Equal(t, 1, b.inbox.turnCount())
	stop() // it does not wait for jobs without a slot
	require.Equal(t, 5, b.length("agent:jobs"))
}

// A job that is refused because the whole runtime is busy keeps its slot, so that the bridge does not take more jobs than may run.
func TestRateLimitedJobKeepsItsSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return agent.Errorf(agent.CodeRateLimited, "", "slow down") }
	cfg := b.config()
	cfg.Concurrency, cfg.Drain = 2, 100*time.Millisecond
	b.serve(cfg)
	for i := range 5 {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "p"})
	}
	b.eventually("several tries", func() bool { return b.inbox.submitCount() >= 6 })
	require.Equal(t, 3, b.length("agent:jobs"))
}

// A bridge that stops starts no job that waits for another job of its session. It gives those jobs back in their order.
func TestStopWithWaitingSessionJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Metrics = registry
	stop := b.serve(cfg)
	b.push(sessionJob("s", 0, "hold"))
	for i := 1; i < 5; i++ {
		b.push(sessionJob("s", i, "p"))
	}
	b.push(job.Job{JobID: "last", Prompt: "p"})
	b.wait("last")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	b.eventually("only the first job to be left", func() bool { return metric(t, registry, "jobs_in_flight") == 1 })
	b.inbox.finish("job-s-0")
	require.Equal(t, job.StatusCompleted, b.wait("s-0").Status)
	<-stopped
	require.Equal(t, 2, b.inbox.turnCount())
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i, raw := range list {
		id, _ := job.JobIDOf([]byte(raw))
		require.Equal(t, fmt.Sprint("s-", i+1), id)
	}
}

// A retry that is pushed directly after its job joins the job's turn, even if both are taken at the same time.
func TestRetryPushedWithItsJob(t *testing.T) {
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
			require.Equal(t, pairs, b.inbox.turnCount(), "a retry was a turn of its own")
		})
	}
}
