package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

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

// pauses makes a turn wait for a person.
func (b *inbox) pauses(id agent.TurnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turns[id]
	t.events = append(t.events, agent.Event{
		Meta: agent.EventMeta{EventIndex: int64(len(t.events) + 1), TurnID: id}, Type: agent.EventApprovalRequested,
		Approval: &agent.Approval{ApprovalID: string(id) + ".1.a", TurnID: id, ToolName: "pay"},
	})
	t.say(agent.StatusWaiting)
	t.events[len(t.events)-1].Reason = "awaiting_approval"
}

// TestWaitForApproval: the producer is told once that the job waits, whoever serves it, and once how it ended.
func TestWaitForApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Approvals, cfg.Drain = agent.ApprovalsWait, 10*time.Millisecond
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.until("it runs", func() bool { _, ok := b.inbox.envelope("job-j"); return ok })
	e, _ := b.inbox.envelope("job-j")
	require.Equal(t, agent.ApprovalsWait, e.Request.Approvals)
	b.inbox.pauses("job-j")
	b.until("the first message", func() bool { return b.length("agent:results:j") == 1 })
	stop()
	b.serve(cfg) // reads the same events again
	b.until("it is taken again", func() bool { return b.length("agent:jobs") == 0 })
	b.inbox.let("job-j")
	b.until("the second message", func() bool { return b.length("agent:results:j") == 2 })
	first := b.wait("j")
	require.True(t, first.Waiting)
	require.Equal(t, "approval_required", first.Error.Type)
	require.Contains(t, first.Error.Message, "A second message follows")
	require.Equal(t, []job.Approval{{ApprovalID: "job-j.1.a", Tool: "pay", Command: "starter approvals decide job-j.1.a approve --by NAME"}}, first.Approvals)
	second := b.wait("j")
	require.Equal(t, job.StatusCompleted, second.Status)
	require.False(t, second.Waiting)
	require.Zero(t, b.length("agent:results:j"))
}

// TestJobsRefuseApprovals: jobs wait for nobody unless they are told to.
func TestJobsRefuseApprovals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.wait("j")
	e, _ := b.inbox.envelope("job-j")
	require.Equal(t, agent.ApprovalsRefuse, e.Request.Approvals)
}
