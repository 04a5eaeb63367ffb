package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// events returns the stream's events as the log keeps them.
func (b *bench) events(stream string) []agent.Event {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT event FROM events WHERE stream_id = $1 ORDER BY event_index`, stream)
	require.NoError(b.t, err)
	var all []agent.Event
	for rows.Next() {
		var e agent.Event
		require.NoError(b.t, rows.Scan(&e))
		all = append(all, e)
	}
	require.NoError(b.t, rows.Err())
	return all
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

	rows, err := b.pool.Query(t.Context(),
		`SELECT step || call_id || ' ' || name || ' ' || status || ' ' || ref || ' ' || duration_ms FROM tool_calls ORDER BY step, call_id`)
	require.NoError(t, err)
	var calls []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		calls = append(calls, line)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{
		"1a lookup error cas://sha256:00 7", "1b lookup success  7", "2a lookup unfinished  0", "2d lookup success  7",
	}, calls)
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
	var kind string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT error->>'type' FROM agent_results`).Scan(&kind))
	require.Equal(t, "model_error", kind)
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
		errs := make([]error, finishers)
		var wg sync.WaitGroup
		for i := range finishers {
			f := finish(id, "s")
			if i%2 > 0 {
				f = b.complete(id, "s")
			}
			f.Output.Output = fmt.Sprintf("finisher %d", i)
			wg.Go(func() { done[i], errs[i] = b.Finish(t.Context(), f) })
		}
		wg.Wait()
		ended := 0
		for i := range finishers {
			require.NoError(t, errs[i])
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
