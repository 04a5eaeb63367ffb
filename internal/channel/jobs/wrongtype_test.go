package jobs_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// processing lists what bridges have taken.
func (b *bench) processing() []string {
	b.t.Helper()
	var all []string
	for _, key := range b.keys(b.queue + ":processing:*") {
		list, err := redis.Strings(b.do("LRANGE", key, 0, -1), nil)
		require.NoError(b.t, err)
		all = append(all, list...)
	}
	return all
}

// Where the dead belong lies something else: a message is kept until it is gone, its producer hears of it once, and other jobs go on.
func TestTheDeadHaveNoPlace(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Concurrency, cfg.Metrics = 1, registry
	b.do("SET", "agent:jobs:dead", "in the way")
	b.serve(cfg)
	bad := `{"version":"1.0","job_id":"bad","prompt":7}`
	b.pushRaw(bad)
	b.pushRaw("nothing")
	require.Equal(t, "prompt", b.wait("bad").Error.Field)
	b.push(job.Job{JobID: "good", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("good").Status)
	require.ElementsMatch(t, []string{bad, "nothing"}, b.processing())
	require.InDelta(t, 0, metric(t, registry, "jobs_dead_total"), 0)

	b.do("DEL", "agent:jobs:dead")
	b.until("buried", func() bool { return b.length("agent:jobs:dead") == 2 && len(b.processing()) == 0 })
	require.Zero(t, b.length("agent:results:bad"), "it was told once")
	b.until("counted", func() bool { return metric(t, registry, "jobs_dead_total") == 2 })
}

// What lies where an attempt's mark belongs is no mark, and stops nobody.
func TestAMarkThatIsNone(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	for _, key := range []string{"agent:jobs:attempt:j:0", "agent:jobs:attempt:k:0"} {
		b.do("RPUSH", key, "in the way")
	}
	stop := b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.push(job.Job{JobID: "k", Prompt: "p", RetryCount: 1})
	require.Equal(t, "answer to p", b.wait("k").Output)
	b.until("runs", func() bool { return b.inbox.count() == 2 })
	b.do("DEL", "agent:jobs:attempt:j:0")
	b.do("RPUSH", "agent:jobs:attempt:j:0", "again")
	b.inbox.let("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	mark, err := redis.String(b.do("GET", "agent:jobs:attempt:j:0"), nil)
	require.NoError(t, err)
	require.Equal(t, "completed", mark)
	stop()
	b.do("DEL", "agent:jobs:attempt:k:0")
	b.nothingLeft()

	b.do("RPUSH", "agent:jobs:attempt:l:0", "in the way")
	require.NoError(t, b.client.Push(t.Context(), job.Job{JobID: "l", Prompt: "p"}))
	b.do("DEL", "agent:jobs")
	b.do("SET", "agent:jobs", "no list")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(b.client.Push(t.Context(), job.Job{JobID: "m", Prompt: "p"})))
}
