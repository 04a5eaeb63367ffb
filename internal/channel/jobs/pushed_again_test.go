package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// A job that is pushed several times runs once and has one result. If it is pushed again after its result was taken, it gets the same result again.
func TestPushedTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.serve(b.config())
	j := job.Job{JobID: "j", Prompt: "hold"}
	b.push(j)
	b.push(j)
	b.push(job.Job{JobID: "j", Prompt: "hold", RunID: "another message, the same job"})
	b.eventually("all three to be submitted", func() bool { return b.inbox.submitCount() == 3 })
	b.inbox.finish("job-j")
	first := b.wait("j")
	require.Equal(t, "answer to hold", first.Output)
	raw, err := j.Encode()
	require.NoError(t, err)
	b.eventually("all three to be done", b.isEmpty)
	for range 2 {
		b.pushRaw(string(raw)) // unlike Client.Push, which refuses an attempt that has ended
		b.eventually("the result again", func() bool { return b.isEmpty() && b.length("agent:results:j") == 1 })
	}
	require.Equal(t, first, b.wait("j"))
	require.Equal(t, agent.CodeConflict, agent.CodeOf(b.client.Push(t.Context(), j)))
	stop()
	b.requireNoLists()
	require.Equal(t, 1, b.inbox.turnCount())
	require.Equal(t, 4, b.inbox.submitCount(), "a message that was dropped is not submitted")
}

// A job that was refused has no turn whose result could be sent again. So it is submitted again when it is pushed again.
func TestPushedAgainAfterRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return agent.Errorf(agent.CodeNotFound, "", "no such agent") }
	stop := b.serve(b.config())
	raw := `{"version":"1.0","job_id":"j","prompt":"p"}`
	b.pushRaw(raw)
	require.Equal(t, job.StatusFailed, b.wait("j").Status)
	b.inbox.change(func() { b.inbox.refuse = nil })
	b.pushRaw(raw)
	require.Equal(t, "answer to p", b.wait("j").Output)
	stop()
	b.requireNoLists()
}

// A retry is a new turn, unless an earlier attempt completes.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt    string // of attempt 0
		isRunning bool   // whether attempt 0 runs when the retry is pushed
		turns     int
		output    string
	}{
		"after a failure":                       {"fail", false, 2, "answer to again"},
		"after a success":                       {"at once", false, 1, "answer to at once"},
		"of a running attempt":                  {"hold", true, 1, "answer to hold"},
		"of a running attempt that fails":       {"hold", true, 2, "answer to again"},
		"after failed work":                     {"failed work", false, 2, "answer to again"},
		"of a running attempt with failed work": {"hold failed work", true, 2, "answer to again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			cfg := b.config()
			cfg.Results = failedWork{b.inbox}
			stop := b.serve(cfg)
			b.push(job.Job{JobID: "j", Prompt: c.prompt})
			if !c.isRunning {
				first := b.wait("j")
				require.Equal(t, c.turns == 2, first.Status == job.StatusFailed)
			} else {
				b.eventually("the first turn", func() bool { return b.inbox.turnCount() == 1 })
			}
			b.push(job.Job{JobID: "j", Prompt: "again", RetryCount: 2})
			if c.isRunning {
				b.eventually("the retry to wait for the first turn", func() bool { return b.inbox.submitCount() == 2 })
				if c.turns == 2 && c.prompt == "hold" {
					b.inbox.emit("job-j", agent.StatusFailed)
				} else {
					b.inbox.finish("job-j")
				}
			}
			r := b.wait("j")
			if c.isRunning { // there are two results, in any order: of attempt 0 and of the retry
				if second := b.wait("j"); r.Metadata.RetryCount == 0 {
					r = second
				}
			}
			require.Equal(t, c.output, r.Output)
			require.Equal(t, job.StatusCompleted, r.Status)
			require.Equal(t, 2, r.Metadata.RetryCount)
			require.Equal(t, c.turns, b.inbox.turnCount())
			stop()
			b.requireNoLists()
		})
	}
}
