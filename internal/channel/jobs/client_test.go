package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
)

func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg     jobs.Config
		message string
	}{
		"no address":           {jobs.Config{}, "url: is empty: want redis://host:6379"},
		"another scheme":       {jobs.Config{URL: "http://x"}, "url: redis: invalid URL scheme: http"},
		"a bad password":       {jobs.Config{URL: "redis://me:secret/1@x:6379"}, "url: malformed URL"},
		"a bad tenant":         {jobs.Config{URL: "redis://x", Tenant: "a b"}, "tenant: want 1 to 128 of A-Z a-z 0-9 . _ -"},
		"negative concurrency": {jobs.Config{URL: "redis://x", Concurrency: -1}, "concurrency: is -1, want 1 to 10000"},
		"too few held":         {jobs.Config{URL: "redis://x", MaxHeld: 63}, "max_held: is 63, want the concurrency, 64, to 100000"},
		"too many held":        {jobs.Config{URL: "redis://x", MaxHeld: 100_001}, "max_held: is 100001, want the concurrency, 64, to 100000"},
		"negative drain":       {jobs.Config{URL: "redis://x", Drain: -1}, "drain: is negative"},
		"a short lease":        {jobs.Config{URL: "redis://x", Lease: time.Millisecond}, "lease: is 1ms, at least 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jobs.New(c.cfg)
			require.EqualError(t, err, c.message)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
	registry := prometheus.NewRegistry()
	_, err := jobs.New(jobs.Config{URL: "redis://x", Metrics: registry})
	require.NoError(t, err)
	_, err = jobs.New(jobs.Config{URL: "redis://x", Metrics: registry})
	require.ErrorContains(t, err, "register metrics of jobs: ")
	_, err = jobs.NewClient(jobs.ClientConfig{})
	require.EqualError(t, err, "url: is empty: want redis://host:6379")
}

func TestClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.EqualError(t, b.client.Push(t.Context(), job.Job{Prompt: "p"}), "job_id: is missing")
	b.push(job.Job{JobID: "j", Prompt: "p"})
	list, err := b.mini.List("agent:jobs")
	require.NoError(t, err)
	j, err := job.Parse([]byte(list[0]))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), j.CreatedAt, time.Hour)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.client.Wait(ctx, "j")
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = b.client.Wait(ctx, "j")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))

	b.do("RPUSH", "agent:results:j", "{}")
	_, err = b.client.Wait(t.Context(), "j")
	require.ErrorContains(t, err, `read result of job "j": version: is missing`)
	_, err = b.client.Wait(t.Context(), "")
	require.EqualError(t, err, "job_id: is missing")

	require.NoError(t, b.mini.Set("agent:jobs:attempt:over:3", "failed"))
	err = b.client.Push(t.Context(), job.Job{JobID: "over", RetryCount: 3, Prompt: "p"})
	require.EqualError(t, err, `job "over" has ended already: its attempt 3 is failed`)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.Equal(t, 1, b.length("agent:jobs"))
	require.NoError(t, b.mini.Set("agent:jobs:attempt:over:4", "running"))
	b.push(job.Job{JobID: "over", RetryCount: 4, Prompt: "p"})
	b.push(job.Job{JobID: "over", RetryCount: 5, Prompt: "p"})

	b.mini.Close()
	err = b.client.Push(t.Context(), job.Job{JobID: "j", Prompt: "p"})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}
