package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// events returns the stream's events as the log keeps them.
func (b *bench) events(stream string) []agent.Event {
	b.t.Helper()
	return column[agent.Event](b, `SELECT event FROM events WHERE stream_id = $1 ORDER BY event_index`, stream)
}

// requireSame compares what goes over the wire: byte for byte as JSON, where an absent raw value and null are one.
func requireSame(t testing.TB, want, got any, msg ...any) {
	t.Helper()
	x, err := json.Marshal(want)
	require.NoError(t, err)
	y, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(x), string(y), msg...)
}

func TestFinishPromotesSteps(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("b"), call("a"))))
	failed := toolStep("t1", 1, "a", 1)
	failed.Result.Status, failed.Verdict.Failed, failed.Verdict.Ref = agent.ResultError, true, "cas://sha256:00"
	require.NoError(t, b.SaveToolStep(t.Context(), failed))
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t1", 1, "b", 1)))
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 2, 1, agent.Text("more"), call("a"), call("d"))))
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t1", 2, "d", 1)))
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 3, 1))) // cancelled before it said anything

	f := finish("t1", "s")
	f.Output.Status = agent.TurnCancelled
	b.finish(f)
	require.Equal(t, []string{
		"user: question t1",
		"assistant: call(b) call(a)", "tool: success(b) error(a)",
		"assistant: more call(a) call(d)", "tool: error(a) success(d)",
	}, b.transcript("s"))
	page, err := b.Messages(t.Context(), tenant, "s", 4, 1)
	require.NoError(t, err)
	require.JSONEq(t, `{"error":"the turn ended before this tool call was answered; if it had begun, it may have taken effect"}`, string(page[0].Message.Blocks[0].Output))
	require.Equal(t, "lookup", page[0].Message.Blocks[0].Name)

	require.Equal(t, []string{
		"1a lookup error cas://sha256:00 7", "1b lookup success  7", "2a lookup unfinished  0", "2d lookup success  7",
	}, column[string](b, `SELECT step || call_id || ' ' || name || ' ' || status || ' ' || ref || ' ' || duration_ms FROM tool_calls ORDER BY step, call_id`))
}

func TestFinishStoresTheResult(t *testing.T) {
	b := newBench(t, postgres.Config{})
	id := newID()
	b.ready(id, "s")
	f := finish(id, "s")
	done := b.finish(f)
	require.True(t, done.Logged)
	ref, found := strings.CutPrefix(done.Output.ResultRef, "artifact://")
	require.True(t, found)
	want := f.Output
	want.ResultRef = done.Output.ResultRef
	requireSame(t, want, done.Output)

	for _, by := range []string{done.Output.ResultRef, ref, id} {
		row, err := b.Result(t.Context(), tenant, by)
		require.NoError(t, err, by)
		requireSame(t, want, row.Output)
		require.JSONEq(t, string(f.Result), string(row.Data))
		require.Equal(t, ref, row.ResultID)
		require.Equal(t, id, row.JobID, "the job is the turn")
		require.Equal(t, id, row.RunID)
		require.Equal(t, "analyst", row.NodeID)
		require.EqualValues(t, 15, row.TokensUsed)
		require.Empty(t, row.CASID)
		_, err = b.Result(t.Context(), "evil", by)
		requireCode(t, agent.CodeNotFound, err)
	}
	_, err := b.Result(t.Context(), tenant, "artifact://"+id)
	requireCode(t, agent.CodeNotFound, err)
	_, err = b.Result(t.Context(), tenant, "cas://sha256:00")
	requireCode(t, agent.CodeInvalid, err)

	state, err := b.Turn(t.Context(), agent.TurnID(id))
	require.NoError(t, err)
	requireSame(t, &want, state.Output)
	require.Equal(t, string(agent.TurnCompleted), state.State)
	duplicate := b.begin(turn(id, "s"))
	require.Equal(t, agent.BeginDuplicate, duplicate.Answer)
	requireSame(t, &want, duplicate.Output)

	events := b.events(id)
	require.Len(t, events, 2)
	require.True(t, events[1].Terminal())
	requireSame(t, &want, events[1].Result, "the terminal event has the reference too")
	require.Empty(t, f.Events[1].Result.ResultRef, "the caller's record is left alone")
}

func TestFinishKeepsWhatItIsGiven(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("not-a-uuid", "s")
	f := finish("not-a-uuid", "s")
	f.Result, f.CASID, f.RunID, f.NodeID, f.CacheHit = nil, "sha256:abc", "run-7", "node-7", true
	f.Answer, f.S3Ref = json.RawMessage(`{"output":"x"}`), "s3://bucket/abc"
	f.Output.Status, f.Output.Error = agent.TurnFailed, &agent.Failure{Type: "model_error", Message: "gone"}
	f.Output.Usage.InputTokens = 1 << 40
	b.finish(f)
	row, err := b.Result(t.Context(), tenant, "not-a-uuid")
	require.NoError(t, err)
	require.Nil(t, row.Data)
	require.Equal(t, "sha256:abc", row.CASID)
	require.Equal(t, "s3://bucket/abc", row.S3Ref)
	require.Equal(t, "cas://sha256:abc", row.ContentRef())
	require.JSONEq(t, `{"output":"x"}`, string(row.Document()))
	m := b.metadata("not-a-uuid")
	require.Equal(t, "cas://sha256:abc", m.ContentRef)
	require.True(t, m.PipelineCacheHit)
	require.Equal(t, "run-7", row.RunID)
	require.Equal(t, "node-7", row.NodeID)
	require.False(t, row.CacheHit, "the provider had cached nothing")
	require.EqualValues(t, 1<<31-1, row.TokensUsed, "an INTEGER")
	require.EqualValues(t, 5, uuid.MustParse(row.JobID).Version())
	require.Equal(t, "model_error", value[string](b, `SELECT error->>'type' FROM agent_results`))
}

func TestFinishOfATakenJob(t *testing.T) {
	b := newBench(t, postgres.Config{})
	job := newID()
	for _, id := range []string{"t1", "t2"} {
		b.ready(id, "s")
		f := finish(id, "s")
		f.JobID = job
		b.finish(f)
	}
	first, err := b.Result(t.Context(), tenant, "t1")
	require.NoError(t, err)
	second, err := b.Result(t.Context(), tenant, "t2")
	require.NoError(t, err)
	require.NotEqual(t, job, first.JobID)
	require.Equal(t, job, second.JobID, "the newest attempt has the job's id")
}

func TestFinishAlwaysStoresWhatJSONBCannot(t *testing.T) {
	b := newBench(t, postgres.Config{})
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for i, raw := range []string{
		`"nul \u0000, half \ud800 and \udc00x, whole \ud83d\ude00, not \\u0000"`, `{"n":[1e999999,-1E+99999,1e-99999,1.50]}`, deep,
		"\"bad \xff utf-8\"", `"` + strings.Repeat("9", 10) + `"`, strings.Repeat("9", 140_000),
	} {
		id := fmt.Sprintf("t%d", i)
		b.ready(id, "s")
		f := finish(id, "s")
		f.Result = json.RawMessage(`{"data":` + raw + `}`)
		f.Output.ResultPreview = json.RawMessage(raw)
		f.Output.Output, f.NodeID = "\x00 \xff", "\x00n\xff"
		f.Output.Error = &agent.Failure{Type: "internal", Message: "\x00"}
		done := b.finish(f)
		row, err := b.Result(t.Context(), tenant, id)
		require.NoError(t, err)
		require.NotEmpty(t, row.Data)
		require.Equal(t, done.Output.ResultRef, row.Output.ResultRef)
	}
}

func TestFirstFinisherWins(t *testing.T) {
	b := newBench(t, postgres.Config{})
	const finishers = 8
	for round := range 5 {
		id := fmt.Sprintf("t%d", round)
		b.ready(id, "s")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("said"))))
		done := make([]agent.Finished, finishers)
		complete := b.complete(id, "s")
		require.NoError(t, errors.Join(atOnce(finishers, func(i int) (err error) {
			f := finish(id, "s")
			if i%2 > 0 {
				f = complete
			}
			f.Output.Output = fmt.Sprintf("finisher %d", i)
			done[i], err = b.Finish(t.Context(), f)
			return err
		})...))
		ended := 0
		for i := range finishers {
			if done[i].Ended {
				ended++
				done[i].Ended = false
			}
		}
		require.Equal(t, 1, ended, "one of them has ended it")
		for i := range finishers {
			requireSame(t, done[0], done[i], "all get the first writer's output")
		}
		events := b.events(id)
		require.Len(t, events, 2)
		requireSame(t, done[0].Output, *events[1].Result)
		require.Len(t, b.transcript("s"), 2*(round+1))
	}
}

// complete is the record of a turn that ends with the steps that it has.
func (b *bench) complete(id, session string) agent.FinishRecord {
	b.t.Helper()
	f := finish(id, session)
	var err error
	f.Models, f.Tools, err = b.Steps(b.t.Context(), f.TurnID)
	require.NoError(b.t, err)
	return f
}

// TestFinishAtOnce compares the one round trip that ends most turns with the two that end any turn: both store the same.
func TestFinishAtOnce(t *testing.T) {
	whole := func(f agent.FinishRecord) agent.FinishRecord { return f }
	tests := map[string]struct {
		change func(agent.FinishRecord) agent.FinishRecord
		behind bool // another turn waits
		trips  int64
	}{
		"complete": {change: whole, trips: 1},
		"without steps": {func(f agent.FinishRecord) agent.FinishRecord {
			f.Models, f.Tools = nil, nil
			return f
		}, false, 2},
		"somebody waits": {whole, true, 3},
		"of a job": {func(f agent.FinishRecord) agent.FinishRecord {
			f.JobID = "job"
			return f
		}, false, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Config{})
			measure := b.countTrips()
			begin := func(id string) {
				b.ready(id, "s")
				require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, call("a"))))
				require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "a", 1)))
				require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 2, 1, agent.Text("said"))))
			}
			for _, id := range []string{"first", "t1"} { // the first turn prepares the statements
				begin(id)
				if test.behind {
					b.begin(turn(id+" next", "s"))
				}
				var done agent.Finished
				record := test.change(b.complete(id, "s"))
				trips := measure(func() { done = b.finish(record) })
				require.True(t, done.Ended)
				require.True(t, done.Logged)
				if test.behind {
					require.EqualValues(t, id+" next", done.Next)
					b.ready(id+" next", "s")
					b.finish(finish(id+" next", "s"))
				}
				if id == "t1" {
					require.Equal(t, test.trips, trips)
				}
			}
			lines := b.transcript("s")
			at := slices.Index(lines, "user: question t1")
			require.Equal(t, []string{"user: question t1", "assistant: call(a)", "tool: success(a)", "assistant: said"}, lines[at:at+4])
			require.Equal(t, 1, b.count(`tool_calls WHERE turn_id = 't1' AND status = 'success'`))
			require.Equal(t, 1, b.count(`sessions WHERE holder IS NULL`))
			require.Zero(t, b.count(`turns WHERE state <> 'completed'`))
			row, err := b.Result(t.Context(), tenant, "t1")
			require.NoError(t, err)
			require.Equal(t, "analyst", row.NodeID)
			require.Equal(t, "t1", row.RunID)
			require.Equal(t, "answer t1", row.Output.Output)
			require.Len(t, b.events("t1"), 2)
			require.False(t, b.finish(test.change(b.complete("t1", "s"))).Ended, "once")
		})
	}
}

// TestFinishAtOnceSeesWhoCame queues a turn while the one before it ends. It gets the session, whichever of the two is first.
func TestFinishAtOnceSeesWhoCame(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for round := range 40 {
		holder, next := fmt.Sprintf("t%d", round), turn(fmt.Sprintf("n%d", round), "s")
		b.ready(holder, "s")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(holder, 1, 1, agent.Text("said"))))
		var (
			wg    sync.WaitGroup
			begun agent.Begun
			fault error
		)
		wg.Go(func() { begun, fault = b.Begin(t.Context(), next) })
		done := b.finish(b.complete(holder, "s"))
		wg.Wait()
		require.NoError(t, fault)
		require.Equal(t, begun.Answer == agent.BeginReady, done.Next == "")
		b.ready(string(next.TurnID), "s")
		b.finish(finish(string(next.TurnID), "s"))
	}
}

func TestFinishOfUnknownTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	refused := finish("t1", "s")
	refused.Output.Status, refused.Events[1].Status = agent.TurnFailed, agent.StatusFailed
	for range 2 {
		done := b.finish(refused)
		require.True(t, done.Logged)
		require.Equal(t, refused.Output, done.Output)
	}
	require.Len(t, b.events("t1"), 2)
	require.Zero(t, b.count("turns"))
	require.Zero(t, b.count("agent_results"))

	b.ready("t2", "s")
	foreign := finish("t2", "s")
	foreign.Tenant = "evil"
	_, err := b.Finish(t.Context(), foreign)
	requireCode(t, agent.CodeNotFound, err)
	require.Empty(t, b.events("t2"))

	unended := finish("t2", "s")
	unended.Output.Status = "paused"
	_, err = b.Finish(t.Context(), unended)
	requireCode(t, agent.CodeInvalid, err)
}

func TestFinishIsAtomicWithItsEvents(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	broken := finish("t1", "s")
	broken.Events = broken.Events[:1] // no terminal event: the log refuses
	_, err := b.Finish(t.Context(), broken)
	requireCode(t, agent.CodeInvalid, err)
	require.Zero(t, b.count("agent_results"))
	state, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, state.State)
	require.True(t, b.finish(finish("t1", "s")).Logged)
}

func TestFinishLeavesASeparateLogAlone(t *testing.T) {
	b := newBench(t, postgres.Config{SeparateLog: true})
	b.ready("t1", "s")
	require.False(t, b.finish(finish("t1", "s")).Logged)
	require.False(t, b.finish(finish("t1", "s")).Logged)
	require.False(t, b.finish(finish("never begun", "s")).Logged)
	require.Zero(t, b.count("events"))
}

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

// The row of a job whose work failed says so; the turn stays completed, also when its result has expired.
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

// What a model asks for is bounded in the row, and never keeps its turn from ending.
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
	require.JSONEq(t, `{"omitted_bytes":10242}`, string(calls[152].Args), "a mebibyte in all")
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
	done("other", "t2", job) // job ids come from outside
	done(tenant, "t3", "nightly run #7")
	done(tenant, "t4", "t1") // one named like another turn
	done(tenant, "t5", job)
	done(tenant, "t6", job)
	require.Equal(t, "t6", of(tenant, job), "the newest attempt")
	require.Empty(t, of(tenant, strings.ToUpper(job)), "another job's id")
	require.Equal(t, "t2", of("other", job))
	require.Equal(t, "t3", of(tenant, "nightly run #7"))
	require.Empty(t, of("other", "nightly run #7"))
	require.Equal(t, "t1", of(tenant, "t1"), "turns come first")
	require.Empty(t, of(tenant, "artifact://"+job), "a job is no artifact")
	require.Equal(t, "t3", of("*", "nightly run #7"))
	require.Equal(t, job, b.metadata("t6").JobID, "as it was given, also where the table has another")

	plain := newID()
	done(tenant, plain, "")
	require.Equal(t, plain, of(tenant, plain))
	require.Empty(t, b.metadata(plain).JobID)
}

// TestLedgerRowsAreAddedUpByDay adds rows around midnight in UTC, a row twice, and numbers that cannot be added up.
func TestLedgerRowsAreAddedUpByDay(t *testing.T) {
	b := newBench(t, postgres.Config{})
	charge := func(turn, agentName, user string, step int, model, tokens, usd, created string) {
		b.exec(`
			INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens,
				cost_usd, agent, user_id, created_at)
			VALUES ($2, $3, 1, $1, $4, $5::text::bigint, 1, 2, 3, $6::text::numeric, $7, $8, $9::text::timestamptz) ON CONFLICT DO NOTHING`,
			tenant, turn, step, model, tokens, usd, agentName, user, created)
	}
	charge("t1", "a1", "u1", 1, "m1", "10", "0.5", "2026-03-31 23:59:59.999999Z")
	charge("t1", "a1", "u1", 2, "m1", "10", "0.5", "2026-03-31T20:00:00-05:00")
	charge("t2", "a2", "", 1, "m2", "10", "0.25", "2026-04-01Z")
	charge("gone", "", "", 1, "m2", "10", "0.125", "2026-04-01Z")
	charge("t2", "a2", "", 2, "m2", "-5", "NaN", "2026-04-01Z")
	charge("t2", "a2", "", 3, "m2", "9223372036854775807", "Infinity", "2026-04-01Z")
	charge("t1", "a1", "u1", 3, "m1", "100", "1", "2026-04-01Z")
	charge("gone", "", "", 2, "m1", "100", "2", "2026-04-01Z")
	charge("t1", "a1", "u1", 4, "m1", "-9223372036854775808", "-7", "2026-04-01Z")
	charge("t1", "a1", "u1", 5, "m1", "9223372036854775807", "1e300", "2026-04-01Z")
	charge("t1", "a1", "u1", 3, "m1", "1", "1", "2026-04-01Z")

	sums := column[string](b, `SELECT kind || '/' || name || ' ' || day || ' ' || sum(calls) || ' ' || sum(input_tokens + output_tokens) || ' ' || sum(cost_usd)
		FROM usage_by_day WHERE tenant = $1 GROUP BY kind, name, day ORDER BY kind, name, day`, tenant)
	require.Equal(t, []string{
		"agent/a1 2026-03-31 1 11 0.5", "agent/a1 2026-04-01 4 1000000000114 1.5", "agent/a2 2026-04-01 3 1000000000013 0.25",
		"model/m1 2026-03-31 1 11 0.5", "model/m1 2026-04-01 5 1000000000215 3.5", "model/m2 2026-04-01 4 1000000000024 0.375",
		"tenant/ 2026-03-31 1 11 0.5", "tenant/ 2026-04-01 9 2000000000239 3.875",
		"user/u1 2026-03-31 1 11 0.5", "user/u1 2026-04-01 4 1000000000114 1.5",
	}, sums)
}
