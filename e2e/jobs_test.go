//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// redisServer is a Redis server on a socket of its own, which loses nothing that it acknowledged.
type redisServer struct {
	*redis.Client
	url    string
	folder string
	proc   *process
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	folder, err := os.MkdirTemp("", "redis") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	socket := filepath.Join(folder, "s")
	s := &redisServer{Client: redis.New(redis.Options{Network: "unix", Address: socket}), url: "unix://" + socket, folder: folder}
	s.boot(t)
	t.Cleanup(func() {
		_ = s.Close()
		s.proc.end(syscall.SIGKILL)
	})
	return s
}

// boot starts the server, the first time or after it was killed, and waits until it answers.
func (s *redisServer) boot(t *testing.T) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	require.NoError(t, err, "this test needs a Redis server: apt-get install redis-server")
	s.proc = startProcess(t, "Redis", exec.Command(binary, "--port", "0", "--unixsocket", filepath.Join(s.folder, "s"), "--dir", s.folder,
		"--appendonly", "yes", "--appendfsync", "always", "--save", ""))
	require.Eventually(t, func() bool { _, err := s.Do(context.Background(), "PING"); return err == nil }, 20*time.Second, 10*time.Millisecond)
}

// popAfterPush pushes a job and returns the first message in a list of results.
func (s *redisServer) popAfterPush(ctx context.Context, message, results string) ([]byte, error) {
	if _, err := s.Do(ctx, "RPUSH", "agent:jobs", message); err != nil {
		return nil, err
	}
	popped, err := redis.Strings(s.Wait(ctx, 30*time.Second, "BLPOP", results, 30))
	if err != nil {
		return nil, err
	}
	return []byte(popped[1]), nil
}

// TestJobThatNeedsAnApproval: the producer is answered at once and told how to decide, and the next attempt goes by the decision.
func TestJobThatNeedsAnApproval(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	order := turnstonetest.Call("execute_pipeline", `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`)
	script := turnstonetest.NewModel(t, order, order, turnstonetest.Say("a pity"))
	s := start(t, script.Use, func(c *app.Config) { c.Jobs.RedisURL = app.Secret(server.url) })
	pop := func(retry string) (r job.Result) {
		t.Helper()
		message := `{"version":"1.0","job_id":"needs","prompt":"order it","retry_count":` + retry + `}`
		popped, err := server.popAfterPush(t.Context(), message, "agent:results:needs")
		require.NoError(t, err)
		r, err = job.ParseResult(popped)
		require.NoError(t, err)
		return r
	}
	refused := pop("0")
	require.Equal(t, job.StatusFailed, refused.Status)
	require.Equal(t, "approval_required", refused.Error.Type)
	require.Equal(t, agent.StopApprovalRequired, refused.Metadata.StopReason)
	require.Len(t, refused.Approvals, 1)
	id := refused.Approvals[0].ApprovalID
	require.Equal(t, "execute_pipeline", refused.Approvals[0].Tool)
	require.Equal(t, "starter approvals decide "+id+" approve --by NAME", refused.Approvals[0].Command)
	s.closed("job-needs")

	reject := agent.Decision{ApprovalID: id, Decision: agent.DecisionReject, Message: "too dear", By: "ann"}
	require.NoError(t, s.client.Decide(t.Context(), "job-needs", reject))
	after := pop("1")
	require.Empty(t, after.Approvals)
	require.Equal(t, agent.StopEndTurn, after.Metadata.StopReason, "the model was told, and said the last word")
}

// TestJob checks the message that a producer pushes, the message that it pops, and the stored row.
func TestJob(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	s := start(t, func(c *app.Config) { c.Jobs.RedisURL = app.Secret(server.url) })
	ctx := t.Context()
	message := `{"version":"1.0","job_id":"test-job-123","run_id":"run-7","node_id":"agent_analyze_data",` +
		`"prompt":"fetch flights, sort by price, top 3","context":{"session_id":"test-sess"}}`
	popped, err := server.popAfterPush(ctx, message, "agent:results:test-job-123")
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
	require.NoError(t, json.Unmarshal(popped, &result))
	require.Equal(t, "completed", result.Status, string(popped))
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
	var flights []map[string]any
	require.NoError(t, json.Unmarshal(data, &flights), "the rows and nothing else")
	require.Len(t, flights, 3)
	require.Contains(t, string(calls), `"table_sort"`)
	require.Equal(t, result.Metadata.TokensUsed, tokens)
}
