package jobs_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// processing lists the messages that bridges have taken.
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

// While the key of the dead letters is not a list, a message stays with the bridge and its producer is told once. Other jobs are processed.
func TestDeadLetterKeyIsNotAList(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Concurrency, cfg.Metrics = 1, registry
	b.do("SET", "agent:jobs:dead", "not a list")
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
	b.eventually("the dead letters", func() bool { return b.length("agent:jobs:dead") == 2 && len(b.processing()) == 0 })
	require.Zero(t, b.length("agent:results:bad"), "the producer was told once")
	b.eventually("the metric", func() bool { return metric(t, registry, "jobs_dead_total") == 2 })
}

// An attempt whose key is not a string has no mark. Its job is processed, and the key is overwritten.
func TestMarkKeyIsNotAString(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	for _, key := range []string{"agent:jobs:attempt:j:0", "agent:jobs:attempt:k:0"} {
		b.do("RPUSH", key, "not a string")
	}
	stop := b.serve(b.config())
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.push(job.Job{JobID: "k", Prompt: "p", RetryCount: 1})
	require.Equal(t, "answer to p", b.wait("k").Output)
	b.eventually("both turns", func() bool { return b.inbox.turnCount() == 2 })
	b.do("DEL", "agent:jobs:attempt:j:0")
	b.do("RPUSH", "agent:jobs:attempt:j:0", "not a string")
	b.inbox.finish("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	mark, err := redis.String(b.do("GET", "agent:jobs:attempt:j:0"), nil)
	require.NoError(t, err)
	require.Equal(t, "completed", mark)
	stop()
	b.do("DEL", "agent:jobs:attempt:k:0")
	b.requireNoLists()

	b.do("RPUSH", "agent:jobs:attempt:l:0", "not a string")
	require.NoError(t, b.client.Push(t.Context(), job.Job{JobID: "l", Prompt: "p"}))
	b.do("DEL", "agent:jobs")
	b.do("SET", "agent:jobs", "not a list")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(b.client.Push(t.Context(), job.Job{JobID: "m", Prompt: "p"})))
}
