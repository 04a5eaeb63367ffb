package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
)

func (b *bench) metadata(id string) agent.ResultMetadata {
	b.t.Helper()
	m, err := b.ResultMetadata(b.t.Context(), tenant, agent.TurnID(id))
	require.NoError(b.t, err)
	return m
}

func callOf(id, name, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(args)}
}

func TestResultMetadata(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, callOf("b", "fetch", `{"url":"x","n":1.50}`), callOf("a", "sort", `{"nul":"\u0000"}`))))
	failed := toolStep("t1", 1, "a", 1)
	failed.Result.Status, failed.Args = agent.ResultError, json.RawMessage(`{"edited":"by a person"}`)
	require.NoError(t, b.SaveToolStep(t.Context(), failed))
	hit := toolStep("t1", 1, "b", 1)
	hit.Dataset, hit.CacheHit = dataset(cas("1"), 1), true
	require.NoError(t, b.SaveToolStep(t.Context(), hit))
	bare := callOf("c", "later", "")
	bare.Args = nil
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 2, 1, bare)))
	f := finish("t1", "s")
	f.JobID, f.RunID, f.NodeID = "Job 7/é", "run-1", "node-1"
	f.Output.Usage.CachedTokens = 8
	b.finish(f)

	m := b.metadata("t1")
	require.Equal(t, "Job 7/é", m.JobID)
	require.EqualValues(t, 15, m.TokensUsed)
	require.EqualValues(t, 8, m.CachedTokens)
	require.True(t, m.CacheHit)
	require.True(t, m.PipelineCacheHit)
	require.JSONEq(t, `[
		{"tool":"fetch","args":{"url":"x","n":1.50},"status":"success","step":1,"ref":"`+cas("1")+`","duration_ms":7,"cache_hit":true},
		{"tool":"sort","args":{"nul":"\ufffd"},"status":"error","step":1,"ref":"","duration_ms":7,"cache_hit":false},
		{"tool":"later","args":null,"status":"unfinished","step":2,"ref":"","duration_ms":0,"cache_hit":false}]`, string(m.ToolCalls))
	require.Equal(t, []string{"afalse", "b" + cas("1") + "true", "cfalse"}, column[string](b,
		`SELECT call_id || coalesce(substring(dataset::text from 'cas://sha256:[0-9a-f]*'), '') || cache_hit FROM tool_calls ORDER BY step, call_id`))

	for who, id := range map[string]agent.TurnID{"evil": "t1", tenant: "t2"} {
		_, err := b.ResultMetadata(t.Context(), who, id)
		requireCode(t, agent.CodeNotFound, err)
	}
	b.ready("t2", "s")
	_, err := b.ResultMetadata(t.Context(), tenant, "t2")
	requireCode(t, agent.CodeNotFound, err)
	b.finish(finish("t2", "s"))
	m = b.metadata("t2")
	require.Equal(t, agent.ResultMetadata{ToolCalls: json.RawMessage("[]"), TokensUsed: 15}, m)
	everywhere, err := b.ResultMetadata(t.Context(), "*", "t2")
	require.NoError(t, err)
	require.Equal(t, m, everywhere)
}

// The row of a failed job says so, although its turn is completed, even after the result has expired.
func TestRowOfFailedWork(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	f := finish("t1", "s")
	f.JobID, f.JobError = "j", &agent.Failure{Type: agent.JobExecutionError, Message: "down\x00", Retryable: true, Tool: "fetch", Step: "http_request"}
	out := b.finish(f).Output
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.Nil(t, out.Error)
	require.Equal(t, 1, b.count(`agent_results WHERE status = 'failed' AND error->>'step' = 'http_request'`))
	require.Equal(t, 1, b.count(`turns WHERE state = 'completed'`))
	require.Equal(t, &agent.Failure{Type: agent.JobExecutionError, Message: "down\ufffd", Retryable: true, Tool: "fetch", Step: "http_request"}, b.metadata("t1").JobError)

	b.ended(100, "t1")
	require.EqualValues(t, 1, b.sweep(tenant, retention.Results, 50))
	require.Equal(t, agent.JobExecutionError, b.metadata("t1").JobError.Type)
	left, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, agent.TurnCompleted, left.Output.Status)
}

// The list of calls in the row is bounded, and no call prevents the turn from ending.
func TestResultMetadataIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	blocks := []agent.Block{
		callOf("large", "x", `"`+strings.Repeat("l", 17<<10)+`"`),
		callOf("deep", "x", strings.Repeat("[", 4000)+strings.Repeat("]", 4000)),
		callOf("name", strings.Repeat("é", 300), `{}`),
	}
	for i := range 1100 {
		args := `"small"`
		if i < 150 {
			args = `"` + strings.Repeat("m", 10<<10) + `"`
		}
		blocks = append(blocks, callOf(fmt.Sprint("c", i), "x", args))
	}
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, blocks...)))
	b.finish(finish("t1", "s"))
	m := b.metadata("t1")
	require.Less(t, len(m.ToolCalls), 2<<20)
	var calls []struct {
		Tool    string          `json:"tool"`
		Args    json.RawMessage `json:"args"`
		Omitted int             `json:"omitted_calls"`
	}
	require.NoError(t, json.Unmarshal(m.ToolCalls, &calls))
	require.Len(t, calls, 1001)
	require.JSONEq(t, `{"omitted_bytes":17410}`, string(calls[0].Args))
	require.Len(t, []rune(calls[2].Tool), 256)
	require.Greater(t, len(calls[50].Args), 10<<10)
	require.JSONEq(t, `{"omitted_bytes":10242}`, string(calls[152].Args), "at most 1 MiB in total")
	require.JSONEq(t, `{"omitted_bytes":7}`, string(calls[999].Args))
	require.Equal(t, 103, calls[1000].Omitted)
	require.Equal(t, 1103, b.count("tool_calls"))
}

func TestResultOfAJob(t *testing.T) {
	b := newBench(t, postgres.Config{})
	done := func(who, id, job string) string {
		t.Helper()
		r := turn(id, id)
		r.Tenant = who
		b.begin(r)
		f := finish(id, id)
		f.Tenant, f.JobID = who, job
		return b.finish(f).Output.ResultRef
	}
	of := func(who, ref string) string {
		t.Helper()
		row, err := b.Result(t.Context(), who, ref)
		if agent.CodeOf(err) == agent.CodeNotFound {
			return ""
		}
		require.NoError(t, err)
		return string(row.TurnID)
	}
	job := newID()
	done(tenant, "t1", job)
	done("other", "t2", job) // callers choose job ids
	done(tenant, "t3", "nightly run #7")
	done(tenant, "t4", "t1") // a job with the id of another turn
	done(tenant, "t5", job)
	done(tenant, "t6", job)
	require.Equal(t, "t6", of(tenant, job), "the newest attempt")
	require.Empty(t, of(tenant, strings.ToUpper(job)), "another job's id")
	require.Equal(t, "t2", of("other", job))
	require.Equal(t, "t3", of(tenant, "nightly run #7"))
	require.Empty(t, of("other", "nightly run #7"))
	require.Equal(t, "t1", of(tenant, "t1"), "a turn is found before a job")
	require.Empty(t, of(tenant, "artifact://"+job), "a job id is not an artifact")
	require.Equal(t, "t3", of("*", "nightly run #7"))
	require.Equal(t, job, b.metadata("t6").JobID, "as the caller gave it, even if the table has another one")

	plain := newID()
	done(tenant, plain, "")
	require.Equal(t, plain, of(tenant, plain))
	require.Empty(t, b.metadata(plain).JobID)
}
