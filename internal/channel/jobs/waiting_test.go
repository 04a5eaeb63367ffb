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

// A job that waits for a person takes no slot.
func TestWaitingJobsTakeNoSlot(t *testing.T) {
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

	// A job that goes on takes a slot again.
	b.inbox.emit("job-ask-0", agent.StatusRunning)
	b.push(job.Job{JobID: "held", Prompt: "hold"})
	b.push(job.Job{JobID: "later", Prompt: "p"})
	b.eventually("ask-0 to run, and perhaps held", func() bool { return b.length("agent:jobs") <= 2 })
	b.inbox.finish("job-ask-0")
	require.Equal(t, job.StatusCompleted, b.wait("ask-0").Status)
	b.eventually("held to run", func() bool { _, ok := b.inbox.envelope("job-held"); return ok })
	require.Equal(t, 1, b.length("agent:jobs"))
	b.inbox.finish("job-held")
	b.wait("held")
	b.wait("later")
	for i := 1; i < 3; i++ {
		b.inbox.finish(agent.TurnID(fmt.Sprint("job-ask-", i)))
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint("ask-", i)).Status)
	}
}

// A turn without any event waits for another turn of its session, so its job takes no slot.
func TestQueuedTurnTakesNoSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Concurrency = 1
	b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "behind"})
	b.push(job.Job{JobID: "quick", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("quick").Status)
	b.inbox.finish("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
}

// A job whose error may be permanent is retried several times, and then has a failed result.
func TestPermanentError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return errors.New("a bug") }
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	r := b.wait("j")
	require.Equal(t, &agent.Failure{Type: "internal", Message: "a bug", Retryable: true}, r.Error)
	require.Equal(t, 10, b.inbox.submitCount())
}

// At most MaxHeld jobs run or wait.
func TestWaitingJobsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Concurrency, cfg.MaxHeld = 1, 2
	b.serve(cfg)
	for i := range 3 {
		b.push(job.Job{JobID: fmt.Sprint("ask-", i), Prompt: "ask"})
	}
	b.eventually("two jobs to wait", func() bool { return b.inbox.turnCount() == 2 })
	b.inbox.finish("job-ask-0")
	b.wait("ask-0")
	b.eventually("the third job", func() bool { return b.inbox.turnCount() == 3 })
	for i := 1; i < 3; i++ {
		b.inbox.finish(agent.TurnID(fmt.Sprint("job-ask-", i)))
		b.wait(fmt.Sprint("ask-", i))
	}
}

// A bridge that stops waits for running jobs up to the drain time, and gives the others back to the head of the queue in their order.
func TestStop(t *testing.T) {
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
	b.eventually("all jobs to be taken", func() bool { return b.inbox.turnCount() == 4 })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	b.push(job.Job{JobID: "e", Prompt: "p"})
	b.inbox.finish("job-b")
	require.Equal(t, job.StatusCompleted, b.wait("b").Status)
	<-stopped
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	order := ""
	for _, raw := range list {
		id, _ := job.JobIDOf([]byte(raw))
		order += id
	}
	require.Contains(t, []string{"acd", "acde"}, order, "the producer may have pushed e after the bridge took its last job")
	require.InDelta(t, 4, metric(t, registry, "jobs_returned_total"), 1)
	keys := b.mini.Keys()
	for _, key := range keys {
		require.NotContains(t, key, ":alive:")
		require.NotContains(t, key, ":processing:")
		require.NotEqual(t, "agent:jobs:bridges", key)
	}

	// The next bridge joins the same turns.
	b.serve(b.config())
	for _, id := range []string{"a", "c", "d"} {
		b.inbox.finish(agent.TurnID("job-" + id))
		require.Equal(t, job.StatusCompleted, b.wait(id).Status)
	}
	b.wait("e")
	require.Equal(t, 5, b.inbox.turnCount())
	b.eventually("all jobs to be done", func() bool { return b.length("agent:jobs") == 0 })
}

// A bridge that stops does not wait for jobs that wait for a person.
func TestStopDoesNotWaitForWaitingJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Drain = time.Hour
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "d", Prompt: "ask"})
	b.eventually("the turn", func() bool { return b.inbox.turnCount() == 1 })
	start := time.Now()
	stop()
	require.Less(t, time.Since(start), 20*time.Second)
	require.Equal(t, 1, b.length("agent:jobs"))
}

// askApproval makes a turn wait for an approval.
func (b *inbox) askApproval(id agent.TurnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turns[id]
	t.events = append(t.events, agent.Event{
		Meta: agent.EventMeta{EventIndex: int64(len(t.events) + 1), TurnID: id}, Type: agent.EventApprovalRequested,
		Approval: &agent.Approval{ApprovalID: string(id) + ".1.a", TurnID: id, ToolName: "pay"},
	})
	t.emit(agent.StatusWaiting)
	t.events[len(t.events)-1].Reason = "awaiting_approval"
}

// The producer gets one message that the job waits, even if another bridge takes the job, and then the result.
func TestWaitForApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.config()
	cfg.Approvals, cfg.Drain = agent.ApprovalsWait, 10*time.Millisecond
	stop := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.eventually("the turn to run", func() bool { _, ok := b.inbox.envelope("job-j"); return ok })
	e, _ := b.inbox.envelope("job-j")
	require.Equal(t, agent.ApprovalsWait, e.Request.Approvals)
	b.inbox.askApproval("job-j")
	b.eventually("the first message", func() bool { return b.length("agent:results:j") == 1 })
	stop()
	b.serve(cfg) // reads the same events again
	b.eventually("the job to be taken again", func() bool { return b.length("agent:jobs") == 0 })
	b.inbox.finish("job-j")
	b.eventually("the second message", func() bool { return b.length("agent:results:j") == 2 })
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

// By default, jobs refuse calls that need an approval.
func TestJobsRefuseApprovals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "p"})
	b.wait("j")
	e, _ := b.inbox.envelope("job-j")
	require.Equal(t, agent.ApprovalsRefuse, e.Request.Approvals)
}
