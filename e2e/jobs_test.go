//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
)

// startRedis starts a Redis server on a socket of its own, which loses nothing that it acknowledged.
func startRedis(t *testing.T) (*redis.Client, string) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	require.NoError(t, err, "this test needs a Redis server: apt-get install redis-server")
	dir, err := os.MkdirTemp("", "redis") // a socket's path must be short
	require.NoError(t, err)
	socket := filepath.Join(dir, "s")
	server := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
	require.NoError(t, server.Start())
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Process.Kill()
		_ = server.Wait() // killed
		require.NoError(t, os.RemoveAll(dir))
	})
	require.Eventually(t, func() bool { return client.Ping(context.Background()).Err() == nil }, 20*time.Second, 10*time.Millisecond)
	return client, "unix://" + socket
}

// TestJob is the integration test of seed 004 §10.2, message for message: what a producer pushes, what it pops, and the row.
func TestJob(t *testing.T) {
	t.Parallel()
	server, at := startRedis(t)
	s := start(t, func(c *app.Config) { c.Jobs.RedisURL = app.Secret(at) })
	ctx := t.Context()
	message := `{"version":"1.0","job_id":"test-job-123","run_id":"run-7","node_id":"agent_analyze_data",` +
		`"prompt":"fetch flights, sort by price, top 3","context":{"session_id":"test-sess"}}`
	require.NoError(t, server.RPush(ctx, "agent:jobs", message).Err())
	popped, err := server.BLPop(ctx, 30*time.Second, "agent:results:test-job-123").Result()
	require.NoError(t, err)
	var result struct {
		Version   string `json:"version"`
		JobID     string `json:"job_id"`
		Status    string `json:"status"`
		ResultRef string `json:"result_ref"`
		Preview   struct {
			Type     string            `json:"type"`
			RowCount int               `json:"row_count"`
			Sample   []json.RawMessage `json:"sample"`
		} `json:"result_preview"`
		Metadata struct {
			ToolCalls []struct {
				Tool string `json:"tool"`
				Args struct {
					Pipeline []struct {
						Step string `json:"step"`
					} `json:"pipeline"`
				} `json:"args"`
			} `json:"tool_calls"`
			TokensUsed      int    `json:"tokens_used"`
			CacheHit        *bool  `json:"cache_hit"`
			ExecutionTimeMS *int   `json:"execution_time_ms"`
			Model           string `json:"llm_model"`
		} `json:"metadata"`
		CompletedAt time.Time `json:"completed_at"`
	}
	require.NoError(t, json.Unmarshal([]byte(popped[1]), &result))
	require.Equal(t, "completed", result.Status, popped[1])
	require.Equal(t, "1.0", result.Version)
	require.Equal(t, "test-job-123", result.JobID)
	require.Equal(t, 3, result.Preview.RowCount)
	require.NotEmpty(t, result.Preview.Sample)
	require.Len(t, result.Metadata.ToolCalls, 1)
	require.Equal(t, "execute_pipeline", result.Metadata.ToolCalls[0].Tool)
	require.Len(t, result.Metadata.ToolCalls[0].Args.Pipeline, 3)
	require.Equal(t, "top_k", result.Metadata.ToolCalls[0].Args.Pipeline[2].Step)
	require.Positive(t, result.Metadata.TokensUsed)
	require.NotNil(t, result.Metadata.CacheHit)
	require.NotNil(t, result.Metadata.ExecutionTimeMS)
	require.NotEmpty(t, result.Metadata.Model)
	require.NotZero(t, result.CompletedAt)

	conn, err := pgx.Connect(ctx, s.set.Database.URL.Reveal())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var status, run, node string
	var data, calls []byte
	var tokens int
	require.NoError(t, conn.QueryRow(ctx, `SELECT status, run_id, node_id, result_data, tool_calls, tokens_used FROM agent_results WHERE result_id = $1`,
		strings.TrimPrefix(result.ResultRef, "artifact://")).Scan(&status, &run, &node, &data, &calls, &tokens))
	require.Equal(t, "completed run-7 agent_analyze_data", status+" "+run+" "+node)
	require.NotEmpty(t, data)
	require.Contains(t, string(calls), `"table_sort"`)
	require.Equal(t, result.Metadata.TokensUsed, tokens)
}

// TestJobsSurviveTheirBridges is the load of seed 004 §10.2: 1,000 jobs flow while the processes that bridge them are killed 50 times, as
// the kernel does. Each job has one result.
func TestJobsSurviveTheirBridges(t *testing.T) {
	const kills, perKill, bridges = 50, 20, 3
	server, at := startRedis(t)
	b := newBench(t)
	binary := build(t, "../worker")
	egress := "TURNSTONE_EGRESS_ALLOW_PRIVATE=" + strings.Join(b.set.Egress.AllowPrivate, ",")
	b.spawn(binary, freeAddr(t), []string{egress}) // a worker that stays
	bridge := []string{egress, "TURNSTONE_JOBS_REDIS_URL=" + at}
	var up [bridges]*process
	for i := range up {
		up[i] = b.spawn(binary, freeAddr(t), bridge)
	}
	producer, err := jobs.NewClient(jobs.ClientConfig{URL: at})
	require.NoError(t, err)
	defer producer.Close()

	id := func(i int) string { return fmt.Sprintf("job-%04d", i) }
	for k := range kills {
		for i := range perKill {
			j := job.Job{JobID: id(k*perKill + i), Prompt: "fetch flights, sort by price, top 3", Context: job.Context{SessionID: fmt.Sprint("s", i, "-", k)}}
			require.NoError(t, producer.Push(t.Context(), j))
		}
		taken := "agent:jobs:attempt:" + id(k*perKill+rand.IntN(perKill)) + ":0" // which one is chance: that is the test
		require.Eventually(t, func() bool { return server.Exists(t.Context(), taken).Val() == 1 }, 2*time.Minute, 2*time.Millisecond)
		victim := rand.IntN(bridges)
		up[victim].end(syscall.SIGKILL)
		up[victim] = b.launch(binary, freeAddr(t), bridge)
	}
	for _, p := range up {
		p.awaitReady()
	}
	for i := range kills * perKill {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		r, err := producer.Wait(ctx, id(i))
		cancel()
		require.NoError(t, err, id(i))
		require.Equal(t, job.StatusCompleted, r.Status, "%s: %+v", id(i), r.Error)
	}
	for i := range kills * perKill {
		require.Zero(t, server.Exists(t.Context(), "agent:results:"+id(i)).Val(), "a second result of %s", id(i))
	}
	left, err := server.Keys(t.Context(), "agent:jobs:processing:*").Result()
	require.NoError(t, err)
	require.Empty(t, left)
	require.Zero(t, server.Exists(t.Context(), "agent:jobs", "agent:jobs:dead").Val())

	conn := b.connect()
	var results, calls int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT job_id) FROM agent_results WHERE job_key LIKE 'job-%'").Scan(&results, &calls))
	require.Equal(t, kills*perKill, results)
	require.Equal(t, kills*perKill, calls)
}
