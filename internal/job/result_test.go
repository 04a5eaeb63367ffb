package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

func at() time.Time { return time.Date(2024, 10, 12, 12, 30, 15, 999_999, time.FixedZone("", 7200)) }

func output() *agent.AgentStepOutput {
	return &agent.AgentStepOutput{
		TurnID: "job-j-r1", SessionID: "s", Agent: "analyst", Status: agent.TurnCompleted, Output: "done", ResultRef: "artifact://uuid-result-id",
		ResultPreview: json.RawMessage(`{"type":"dataset","row_count":3,"sample":[{"airline":"Delta","price":299}]}`),
		ToolCalls:     []agent.ToolCallNote{{ID: "c1", Tool: "execute_pipeline", Status: "success", CacheHit: true}},
		Usage:         agent.Usage{InputTokens: 1500, OutputTokens: 23, CachedTokens: 1024}, StopReason: agent.StopEndTurn,
		ExecutionTimeMS: 1247, Model: "gpt-4o",
	}
}

func TestTheSeedsResults(t *testing.T) {
	for _, name := range []string{"seed_completed.json", "seed_failed.json"} {
		r, err := job.ParseResult(golden(t, name))
		require.NoError(t, err)
		again, err := r.Encode()
		require.NoError(t, err)
		require.JSONEq(t, string(golden(t, name)), string(again))
	}
}

// A completed turn makes the documented message, with the fields that Turnstone adds.
func TestCompleted(t *testing.T) {
	j := &job.Job{JobID: "550e8400-e29b-41d4-a716-446655440000", RetryCount: 1}
	seed, err := job.ParseResult(golden(t, "seed_completed.json"))
	require.NoError(t, err)
	got := job.ResultOf(j, output(), agent.ResultMetadata{
		ToolCalls: seed.Metadata.ToolCalls, TokensUsed: 1523, CachedTokens: 1024, CacheHit: true,
	}, at())
	require.Equal(t, "2024-10-12T10:30:15Z", got.CompletedAt.Format(time.RFC3339Nano))
	want := seed
	want.Output = "done"
	want.Metadata.CachedTokens, want.Metadata.TurnID, want.Metadata.SessionID = 1024, "job-j-r1", "s"
	want.Metadata.RetryCount, want.Metadata.StopReason = 1, agent.StopEndTurn
	wantRaw, err := want.Encode()
	require.NoError(t, err)
	gotRaw, err := got.Encode()
	require.NoError(t, err)
	require.JSONEq(t, string(wantRaw), string(gotRaw))
}

// Without a row, the turn's own output says what it can.
func TestWithoutMetadata(t *testing.T) {
	r := job.ResultOf(&job.Job{JobID: "j"}, output(), agent.ResultMetadata{}, at())
	require.Equal(t, int64(1523), r.Metadata.TokensUsed)
	require.Equal(t, int64(1024), r.Metadata.CachedTokens)
	require.True(t, r.Metadata.CacheHit)
	require.True(t, r.Metadata.PipelineCacheHit)
	require.JSONEq(t, `[{"tool":"execute_pipeline","status":"success","cache_hit":true}]`, string(r.Metadata.ToolCalls))

	cold := output()
	cold.Usage.CachedTokens = 0
	r = job.ResultOf(&job.Job{JobID: "j"}, cold, agent.ResultMetadata{}, at())
	require.False(t, r.Metadata.CacheHit, "a pipeline's hit is not the prompt's")
	require.True(t, r.Metadata.PipelineCacheHit)

	bare := job.ResultOf(&job.Job{JobID: "j"}, &agent.AgentStepOutput{Status: agent.TurnCompleted, ResultPreview: json.RawMessage("null")}, agent.ResultMetadata{}, at())
	require.Equal(t, "[]", string(bare.Metadata.ToolCalls))
	require.Nil(t, bare.ResultPreview)
}

// Content that is too large for the row has its own reference, and a pipeline's hit its own name.
func TestMetadataOfTheRow(t *testing.T) {
	r := job.ResultOf(&job.Job{JobID: "j"}, output(), agent.ResultMetadata{ToolCalls: json.RawMessage(`[]`), ContentRef: "cas://sha256:00", PipelineCacheHit: true}, at())
	require.Equal(t, "cas://sha256:00", r.ResultRef)
	require.False(t, r.Metadata.CacheHit)
	raw, err := r.Encode()
	require.NoError(t, err)
	require.Contains(t, string(raw), `"cache_hit":false,`)
	require.Contains(t, string(raw), `"pipeline_cache_hit":true`)
}

// The work of a job may fail although its turn completes, with an apology.
func TestFailedWork(t *testing.T) {
	cause := agent.Failure{
		Type: agent.JobExecutionError, Message: "Failed to fetch from api.flights.com: connection timeout", Retryable: true, Tool: "execute_pipeline",
		Step: "http_request",
	}
	r := job.ResultOf(&job.Job{JobID: "j"}, output(), agent.ResultMetadata{JobError: &cause}, at())
	require.Equal(t, job.StatusFailed, r.Status)
	seed, err := job.ParseResult(golden(t, "seed_failed.json"))
	require.NoError(t, err)
	require.Equal(t, seed.Error, r.Error)
	require.Equal(t, "done", r.Output, "what the model said stays")
}

func TestNotCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		status agent.TurnStatus
		stop   agent.StopReason
		err    *agent.Failure
		want   agent.Failure
	}{
		"failed": {
			agent.TurnFailed, agent.StopModelError, &agent.Failure{Type: "unavailable", Message: "m", Retryable: true, Tool: "t", Step: "s"},
			agent.Failure{Type: "unavailable", Message: "m", Retryable: true, Tool: "t", Step: "s"},
		},
		"out of time": {
			agent.TurnFailed, agent.StopWallTime, nil,
			agent.Failure{Type: "wall_time_limit", Message: "the turn ended as failed: wall_time_limit"},
		},
		"cancelled": {agent.TurnCancelled, agent.StopCancelled, nil, agent.Failure{Type: "cancelled", Message: "the turn ended as cancelled: cancelled"}},
		"cancelled, in its own words": {
			agent.TurnCancelled, agent.StopCancelled, &agent.Failure{Type: "internal", Message: "by ops"},
			agent.Failure{Type: "cancelled", Message: "by ops"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := output()
			out.Status, out.StopReason, out.Error = c.status, c.stop, c.err
			r := job.ResultOf(&job.Job{JobID: "j"}, out, agent.ResultMetadata{}, at())
			require.Equal(t, job.StatusFailed, r.Status)
			require.Equal(t, c.want, *r.Error)
			require.NotNil(t, r.Metadata)
			if c.err != nil {
				require.NotSame(t, c.err, r.Error)
			}
		})
	}
}

func TestFailed(t *testing.T) {
	r := job.Failed("j", agent.Invalid("timeout_sec", "is 0"), false, at())
	raw, err := r.Encode()
	require.NoError(t, err)
	require.JSONEq(t, `{"version":"1.0","job_id":"j","status":"failed","error":{"type":"invalid","message":"timeout_sec: is 0",`+
		`"retryable":false,"field":"timeout_sec"},"completed_at":"2024-10-12T10:30:15Z"}`, string(raw))
	require.True(t, job.Failed("j", errors.New("x"), true, at()).Error.Retryable)
}

func TestResultsAreBounded(t *testing.T) {
	out := output()
	out.Output = strings.Repeat("é", 64<<10) // two bytes each
	out.ResultPreview = json.RawMessage(`"` + strings.Repeat("p", 256<<10) + `"`)
	big := json.RawMessage(`["` + strings.Repeat("t", 256<<10) + `"]`)
	r := job.ResultOf(&job.Job{JobID: "j"}, out, agent.ResultMetadata{ToolCalls: big, TokensUsed: 7}, at())
	require.Equal(t, strings.Repeat("é", 32<<10), r.Output)
	require.Nil(t, r.ResultPreview)
	require.JSONEq(t, `[{"tool":"execute_pipeline","status":"success","cache_hit":true}]`, string(r.Metadata.ToolCalls))
	require.Equal(t, int64(7), r.Metadata.TokensUsed)

	out.Output = "x" + strings.Repeat("é", 64<<10)
	require.Equal(t, "x"+strings.Repeat("é", 32<<10-1), job.ResultOf(&job.Job{}, out, agent.ResultMetadata{}, at()).Output)

	out.ToolCalls = make([]agent.ToolCallNote, 20_000)
	require.Equal(t, "[]", string(job.ResultOf(&job.Job{}, out, agent.ResultMetadata{}, at()).Metadata.ToolCalls))
}

func TestParseResult(t *testing.T) {
	r, err := job.ParseResult([]byte(`{"version":"1.9","job_id":"j","status":"completed","new":1,"metadata":{"tool_calls":[],"tokens":{"x":1}}}`))
	require.NoError(t, err)
	require.Equal(t, job.Result{
		Version: "1.9", JobID: "j", Status: job.StatusCompleted, Metadata: &job.Metadata{ToolCalls: json.RawMessage("[]")},
	}, r)
	for name, c := range map[string]struct{ raw, field, message string }{
		"version 2":      {`{"version":"2.0"}`, "version", "reads 1.x"},
		"no job id":      {`{"version":"1.0","status":"completed"}`, "job_id", "is missing"},
		"another status": {`{"version":"1.0","job_id":"j","status":"gone"}`, "status", `is "gone", want completed or failed`},
		"no error":       {`{"version":"1.0","job_id":"j","status":"failed"}`, "error", "is missing"},
		"a wrong type":   {`{"version":"1.0","job_id":"j","status":"failed","error":{"retryable":"no"}}`, "error.retryable", "want true or false, got a string"},
		"too large":      {`{"x":"` + strings.Repeat("x", job.MaxResultBytes) + `"}`, "", "at most 4194304"},
		"malformed":      {`{`, "", "malformed JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := job.ParseResult([]byte(c.raw))
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.field, e.Field)
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add(golden(f, "seed_completed.json"))
	f.Add(golden(f, "seed_failed.json"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := job.ParseResult(raw)
		if err != nil {
			return
		}
		again, err := r.Encode()
		require.NoError(t, err)
		_, err = job.ParseResult(again)
		require.NoError(t, err)
	})
}
