package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

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
