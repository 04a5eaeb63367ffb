package jobs_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// processing lists what bridges have taken.
func (b *bench) processing() []string {
	b.t.Helper()
	keys, err := b.raw.Keys(b.t.Context(), b.queue+":processing:*").Result()
	require.NoError(b.t, err)
	var all []string
	for _, key := range keys {
		list, err := b.raw.LRange(b.t.Context(), key, 0, -1).Result()
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
	require.NoError(t, b.raw.Set(t.Context(), "agent:jobs:dead", "in the way", 0).Err())
	b.serve(cfg)
	bad := `{"version":"1.0","job_id":"bad","prompt":7}`
	b.pushRaw(bad)
	b.pushRaw("nothing")
	require.Equal(t, "prompt", b.wait("bad").Error.Field)
	b.push(job.Job{JobID: "good", Prompt: "p"})
	require.Equal(t, job.StatusCompleted, b.wait("good").Status)
	require.ElementsMatch(t, []string{bad, "nothing"}, b.processing())
	require.InDelta(t, 0, metric(t, registry, "jobs_dead_total"), 0)

	require.NoError(t, b.raw.Del(t.Context(), "agent:jobs:dead").Err())
	b.until("buried", func() bool { return b.length("agent:jobs:dead") == 2 && len(b.processing()) == 0 })
	require.Zero(t, b.length("agent:results:bad"), "it was told once")
	b.until("counted", func() bool { return metric(t, registry, "jobs_dead_total") == 2 })
}

// What lies where an attempt's mark belongs is no mark, and stops nobody.
func TestAMarkThatIsNone(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	for _, key := range []string{"agent:jobs:attempt:j:0", "agent:jobs:attempt:k:0"} {
		require.NoError(t, b.raw.RPush(t.Context(), key, "in the way").Err())
	}
	stop := b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.push(job.Job{JobID: "k", Prompt: "p", RetryCount: 1})
	require.Equal(t, "answer to p", b.wait("k").Output)
	b.until("runs", func() bool { return b.inbox.count() == 2 })
	require.NoError(t, b.raw.Del(t.Context(), "agent:jobs:attempt:j:0").Err())
	require.NoError(t, b.raw.RPush(t.Context(), "agent:jobs:attempt:j:0", "again").Err())
	b.inbox.let("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	mark, err := b.raw.Get(t.Context(), "agent:jobs:attempt:j:0").Result()
	require.NoError(t, err)
	require.Equal(t, "completed", mark)
	stop()
	require.NoError(t, b.raw.Del(t.Context(), "agent:jobs:attempt:k:0").Err())
	b.nothingLeft()

	require.NoError(t, b.raw.RPush(t.Context(), "agent:jobs:attempt:l:0", "in the way").Err())
	require.NoError(t, b.client.Push(t.Context(), job.Job{JobID: "l", Prompt: "p"}))
	require.NoError(t, b.raw.Del(t.Context(), "agent:jobs").Err())
	require.NoError(t, b.raw.Set(t.Context(), "agent:jobs", "no list", 0).Err())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(b.client.Push(t.Context(), job.Job{JobID: "m", Prompt: "p"})))
}
