package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// However often a job is pushed, it runs once. It has one result while that is not taken, and the same again when it is pushed after that.
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
	first := b.wait("j")
	require.Equal(t, "answer to hold", first.Output)
	raw, err := j.Encode()
	require.NoError(t, err)
	b.until("three are over", b.empty)
	for range 2 {
		b.pushRaw(string(raw)) // as a producer does that does not ask whether it has ended
		b.until("answered again", func() bool { return b.empty() && b.length("agent:results:j") == 1 })
	}
	require.Equal(t, first, b.wait("j"))
	require.Equal(t, agent.CodeConflict, agent.CodeOf(b.client.Push(t.Context(), j)))
	stop()
	b.nothingLeft()
	require.Equal(t, 1, b.inbox.count())
	require.Equal(t, 4, b.inbox.submitted(), "one that was dropped is not submitted")
}

// A job that was refused has no turn to take the answer from: pushed again, it is tried again.
func TestPushedAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.inbox.refuse = func(*agent.Envelope) error { return agent.Errorf(agent.CodeNotFound, "", "no such agent") }
	stop := b.serve(b.config())
	raw := `{"version":"1.0","job_id":"j","prompt":"p"}`
	b.pushRaw(raw)
	require.Equal(t, job.StatusFailed, b.wait("j").Status)
	b.inbox.set(func() { b.inbox.refuse = nil })
	b.pushRaw(raw)
	require.Equal(t, "answer to p", b.wait("j").Output)
	stop()
	b.nothingLeft()
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
		"after an apology":            {"apology at once", false, 2, "answer to again"},
		"of one that will apologize":  {"hold apology", true, 2, "answer to again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			cfg := b.config()
			cfg.Results = apologies{b.inbox}
			stop := b.serve(cfg)
			b.push(job.Job{JobID: "j", Prompt: c.first})
			if !c.let {
				first := b.wait("j")
				require.Equal(t, c.turns == 2, first.Status == job.StatusFailed)
			} else {
				b.until("first", func() bool { return b.inbox.count() == 1 })
			}
			b.push(job.Job{JobID: "j", Prompt: "again", RetryCount: 2})
			if c.let {
				b.until("second", func() bool { return b.inbox.submitted() == 2 })
				if c.turns == 2 && c.first == "hold" {
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
			require.Equal(t, job.StatusCompleted, r.Status)
			require.Equal(t, 2, r.Metadata.RetryCount)
			require.Equal(t, c.turns, b.inbox.count())
			stop()
			b.nothingLeft()
		})
	}
}
