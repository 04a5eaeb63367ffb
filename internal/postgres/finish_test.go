package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// events returns the stored events of a stream.
func (b *bench) events(stream string) []agent.Event {
	b.t.Helper()
	return column[agent.Event](b, `SELECT event FROM events WHERE stream_id = $1 ORDER BY event_index`, stream)
}

// requireSame compares values by their JSON, in which an absent raw value and null are the same.
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
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 3, 1))) // cancelled before its first reply

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
		require.Equal(t, id, row.JobID, "the turn's id stands for the job")
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
	require.Empty(t, f.Events[1].Result.ResultRef, "the caller's record is not changed")
}

func TestFinishStoresUnusualValues(t *testing.T) {
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
	require.False(t, row.CacheHit, "the provider has not cached anything")
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

func TestFinishStoresWhatJSONBCannotHold(t *testing.T) {
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
		require.Equal(t, 1, ended, "one of the calls has ended the turn")
		for i := range finishers {
			requireSame(t, done[0], done[i], "all get the first writer's output")
		}
		events := b.events(id)
		require.Len(t, events, 2)
		requireSame(t, done[0].Output, *events[1].Result)
		require.Len(t, b.transcript("s"), 2*(round+1))
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

// TestLedgerRowsAreAddedUpByDay adds rows around midnight in UTC, the same row twice, and amounts that are not finite.
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
