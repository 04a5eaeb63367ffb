package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestStepsComeBackAsSaved(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	reply := modelStep("t1", 1, 2, agent.Block{Type: agent.BlockReasoning, Reasoning: "hm\x00", Signature: "sig"}, call("c1"), call("c2"))
	reply.Verdict.Calls = []agent.CallVerdict{{ID: "c1", Name: "lookup", Local: true}, {ID: "c2", Name: "lookup"}}
	reply.Calls = append([]agent.UsageEntry{{Epoch: 1, Model: "small", Usage: agent.Usage{InputTokens: 9, CostUSD: 0.1}}}, reply.Calls...)
	answer := toolStep("t1", 1, "c1", 1)
	answer.Data = json.RawMessage(`[{"price":1.50,"id":"\u0000","big":123456789012345678901234567890}]`)
	answer.Dataset, answer.CacheHit = dataset(cas("1"), 3), true
	bare := toolStep("t1", 1, "c2", 1)
	bare.Args, bare.Data, bare.Preview = nil, nil, nil
	require.NoError(t, b.SaveModelStep(t.Context(), reply))
	require.NoError(t, b.SaveToolStep(t.Context(), answer))
	require.NoError(t, b.SaveToolStep(t.Context(), bare))

	m, ok, err := b.ModelStep(t.Context(), reply.Key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, reply, m)
	said, result, err := b.CallSteps(t.Context(), answer.Key)
	require.NoError(t, err)
	require.Equal(t, &reply, said)
	require.Equal(t, &answer, result)
	stored, ok, err := b.ToolStep(t.Context(), answer.Key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, answer, stored)

	models, tools, err := b.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, []agent.ModelStep{reply}, models)
	require.Equal(t, []agent.ToolStep{answer, bare}, tools)

	_, ok, err = b.ModelStep(t.Context(), agent.StepKey{TurnID: "t1", Step: 2})
	require.NoError(t, err)
	require.False(t, ok)
	said, result, err = b.CallSteps(t.Context(), agent.StepKey{TurnID: "t1", Step: 1, CallID: "c3"})
	require.NoError(t, err)
	require.Equal(t, &reply, said)
	require.Nil(t, result)
}

func TestFirstStepStands(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	first := modelStep("t1", 1, 1, agent.Text("first"))
	require.NoError(t, b.SaveModelStep(t.Context(), first))
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("second"))))
	m, _, err := b.ModelStep(t.Context(), first.Key)
	require.NoError(t, err)
	require.Equal(t, first, m)

	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t1", 1, "c1", 1)))
	other := toolStep("t1", 1, "c1", 1)
	other.DurationMS = 99
	require.NoError(t, b.SaveToolStep(t.Context(), other))
	result, _, err := b.ToolStep(t.Context(), other.Key)
	require.NoError(t, err)
	require.EqualValues(t, 7, result.DurationMS)
	require.Equal(t, 1, b.count("usage_ledger"))
}

func TestOvertakenProducersAreFenced(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	old := b.epoch("t1", "model/1")
	require.Greater(t, b.epoch("t1", "model/1"), old)
	require.ErrorIs(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, old, agent.Text("zombie"))), agent.ErrFenced)
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, old+1, agent.Text("alive"))))

	old = b.epoch("t1", "tool/1/c1")
	b.epoch("t1", "tool/1/c1")
	require.ErrorIs(t, b.SaveToolStep(t.Context(), toolStep("t1", 1, "c1", old)), agent.ErrFenced)
	require.Equal(t, 1, b.count("turn_steps"))
	require.Equal(t, 2, b.count("usage_ledger"), "the costs of the overtaken attempt are in the ledger")

	b.finish(finish("t1", "s"))
	require.ErrorIs(t, b.SaveModelStep(t.Context(), modelStep("t1", 2, 1, agent.Text("late"))), agent.ErrFenced)
	require.ErrorIs(t, b.SaveToolStep(t.Context(), toolStep("t1", 1, "c9", 1)), agent.ErrFenced)
	require.Equal(t, 1, b.count("turn_steps"))
}

func TestStepsOfUnknownTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	foreign := modelStep("t1", 1, 1, agent.Text("x"))
	foreign.Tenant = "evil"
	requireCode(t, agent.CodeNotFound, b.SaveModelStep(t.Context(), foreign))
	requireCode(t, agent.CodeNotFound, b.SaveModelStep(t.Context(), modelStep("t9", 1, 1, agent.Text("x"))))
	requireCode(t, agent.CodeNotFound, b.SaveToolStep(t.Context(), toolStep("t9", 1, "c1", 1)))
	requireCode(t, agent.CodeInvalid, b.SaveToolStep(t.Context(), toolStep("t1", 1, "", 1)))
	requireCode(t, agent.CodeNotFound, b.ChargeUsage(t.Context(), foreign.Key, "evil", foreign.Calls))
	require.Zero(t, b.count("usage_ledger"))
}

func TestLedgerCountsEachEpochOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	failed := []agent.UsageEntry{{Epoch: 1, Model: "small", Usage: agent.Usage{InputTokens: 100, CostUSD: 0.1}}}
	key := agent.StepKey{TurnID: "t1", Step: 1}
	for range 2 {
		require.NoError(t, b.ChargeUsage(t.Context(), key, tenant, failed))
		step := modelStep("t1", 1, 2, agent.Text("x"))
		step.Calls = append(step.Calls, failed...)
		require.NoError(t, b.SaveModelStep(t.Context(), step))
	}
	require.NoError(t, b.ChargeUsage(t.Context(), key, tenant, nil))
	var (
		rows, cached, reasoning int
		cost                    string
	)
	require.NoError(t, b.pool.QueryRow(t.Context(),
		`SELECT count(*), sum(cached_tokens), sum(reasoning_tokens), sum(cost_usd)::text FROM usage_ledger WHERE tenant = $1`, tenant).
		Scan(&rows, &cached, &reasoning, &cost))
	require.Equal(t, 2, rows)
	require.Equal(t, 3, cached)
	require.Equal(t, 2, reasoning)
	require.Equal(t, "0.1125", cost, "money is decimal")
}

// A step that is stored while its turn ends is either in the transcript or refused.
func TestFinishAndStepAreSerialized(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for i := range 20 {
		id := fmt.Sprintf("t%d", i)
		b.ready(id, id)
		var (
			wg                 sync.WaitGroup
			saveErr, finishErr error
		)
		wg.Go(func() { saveErr = b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("said"))) })
		wg.Go(func() { _, finishErr = b.Finish(t.Context(), finish(id, id)) })
		wg.Wait()
		require.NoError(t, finishErr)
		if want := 2; saveErr == nil {
			require.Len(t, b.transcript(id), want)
		} else {
			require.ErrorIs(t, saveErr, agent.ErrFenced)
			require.Len(t, b.transcript(id), want-1)
		}
	}
}

// Feedback comes after the reply and the results of its calls, in the prompt and in the transcript.
func TestFeedback(t *testing.T) {
	b := newBench(t, postgres.Config{})
	cursor := b.ready("t1", "s").Cursor
	told := func(m agent.ModelStep, feedback string) agent.ModelStep {
		m.Feedback = feedback
		return m
	}
	steps := []agent.ModelStep{
		told(modelStep("t1", 1, 1, agent.Text("{")), "no JSON"),
		told(modelStep("t1", 2, 1, call("c1"), call("c2")), "too many calls"),
		told(modelStep("t1", 3, 1), "say something"),
		modelStep("t1", 4, 1, agent.Text("{}")),
	}
	for _, m := range steps {
		require.NoError(t, b.SaveModelStep(t.Context(), m))
	}
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t1", 2, "c1", 1)))
	want := []string{
		"user: question t1",
		"assistant: {", "user: no JSON",
		"assistant: call(c1) call(c2)", "tool: success(c1) error(c2)", "user: too many calls",
		"user: say something",
		"assistant: {}",
	}
	q := agent.PromptQuery{TurnID: "t1", Cursor: cursor, History: agent.HistoryLoad}
	for step, n := range map[int]int{1: 1, 2: 3, 3: 6, 4: 7, 5: 8} {
		q.Step = step
		require.Equal(t, want[:n], b.prompt(q), "step %d", step)
	}
	models, _, err := b.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, steps, models)
	m, ok, err := b.ModelStep(t.Context(), steps[0].Key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, steps[0], m)

	b.finish(finish("t1", "s"))
	require.Equal(t, want, b.transcript("s"))
	cursor = b.ready("t2", "s").Cursor
	q = agent.PromptQuery{TurnID: "t2", Cursor: cursor, History: agent.HistoryLoad, Step: 1}
	require.Equal(t, append(want, "user: question t2"), b.prompt(q), "later turns see the same conversation")
}

func TestFeedbackCountsInThePromptsBudget(t *testing.T) {
	b := newBench(t, postgres.Config{PromptBytes: 3000})
	cursor := b.ready("t1", "s").Cursor
	for step := 1; step <= 3; step++ {
		m := modelStep("t1", step, 1, agent.Text("x"))
		m.Feedback = strings.Repeat("y", 1200)
		require.NoError(t, b.SaveModelStep(t.Context(), m))
	}
	got := b.prompt(agent.PromptQuery{TurnID: "t1", Cursor: cursor, History: agent.HistoryLoad, Step: 4})
	require.Len(t, got, 5, "the input and the newest two exchanges")
}

func TestTurnsKeepTheirRequest(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := turn("t1", "s")
	r.OutputSchema = json.RawMessage(`{"type":"object", "required":["b","a"]}`)
	r.Mode, r.Parent, r.Limits = agent.ModeDurable, "t0", &agent.Limits{ModelCalls: 3, CostUSD: 0.25}
	b.begin(r)
	state, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.JSONEq(t, string(r.OutputSchema), string(state.Record.OutputSchema))
	r.OutputSchema = state.Record.OutputSchema
	require.Equal(t, r, state.Record)
}

// TestCachedSteps compares the cached steps of a process with those in the database.
func TestCachedSteps(t *testing.T) {
	here, elsewhere := true, false
	for name, test := range map[string]struct {
		second     bool // who stores the second call's result
		last       bool // and the last reply
		promptRead int64
		stepsRead  int64
	}{
		"all stored here":               {here, here, 0, 0},
		"a result stored elsewhere":     {elsewhere, here, 1, 1},
		"the last reply from elsewhere": {here, elsewhere, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Config{})
			other := postgres.NewStore(b.pool, postgres.Config{})
			measure := b.countTrips()
			at := func(here bool) *postgres.Store {
				if here {
					return b.Store
				}
				return other
			}
			for _, id := range []string{"warm up", "t1"} {
				cursor := b.ready(id, "s-"+id).Cursor
				q := agent.PromptQuery{TurnID: agent.TurnID(id), Tenant: tenant, SessionID: agent.SessionID("s-" + id), Cursor: cursor, Step: 1}
				_, _, err := b.Prompt(t.Context(), q)
				require.NoError(t, err)
				require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, call("c2"), call("c1"))))
				require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "c1", 1)))
				require.NoError(t, at(test.second).SaveToolStep(t.Context(), toolStep(id, 1, "c2", 1)))
				q.Step = 2
				want, _, err := other.Prompt(t.Context(), q)
				require.NoError(t, err)
				read := measure(func() {
					got, stored, err := b.Prompt(t.Context(), q)
					require.NoError(t, err)
					require.Nil(t, stored)
					requireSame(t, want, got)
				})
				require.NoError(t, at(test.last).SaveModelStep(t.Context(), modelStep(id, 2, 1, agent.Text("said"))))
				models, tools, err := postgres.NewStore(b.pool, postgres.Config{}).Steps(t.Context(), agent.TurnID(id))
				require.NoError(t, err)
				readAll := measure(func() {
					gotModels, gotTools, err := b.Steps(t.Context(), agent.TurnID(id))
					require.NoError(t, err)
					requireSame(t, models, gotModels)
					requireSame(t, tools, gotTools)
				})
				if id == "t1" {
					require.Equal(t, test.promptRead, read)
					require.Equal(t, test.stepsRead, readAll)
				}
				b.finish(b.complete(id, "s-"+id))
			}
		})
	}
}

// TestFinishWithStaleSteps ends a turn with the cached steps of one process, after another process has stored one more.
func TestFinishWithStaleSteps(t *testing.T) {
	b := newBench(t, postgres.Config{})
	other := postgres.NewStore(b.pool, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("one"))))
	record := b.complete("t1", "s")
	require.NoError(t, other.SaveModelStep(t.Context(), modelStep("t1", 2, 1, agent.Text("two"))))
	require.Len(t, b.complete("t1", "s").Models, 1, "this process does not know the step")
	done := b.finish(record)
	require.True(t, done.Stale)
	require.Zero(t, b.count("agent_results"))
	record = b.complete("t1", "s")
	require.Len(t, record.Models, 2)
	require.True(t, b.finish(record).Ended)
}

// eventRow is a fake for the events of a log: one row, written in the transaction of a step.
type eventRow struct {
	generation, last int64
	committed        *bool // nil until Done
}

func (e *eventRow) Position() (generation, last int64) { return e.generation, e.last }

func (e *eventRow) Queue(b *pgx.Batch) {
	b.Queue(`UPDATE streams SET last_index = 7 WHERE stream_id = 't1' AND generation = $1`, e.generation)
}

func (e *eventRow) Done(committed bool) { e.committed = &committed }

// A step is stored together with its events or not at all.
func TestStepIsStoredWithItsEvents(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.epoch("t1", "model/1")
	b.exec(`UPDATE streams SET generation = 1`)
	step := modelStep("t1", 1, 1, agent.Text("first"))
	for _, e := range []*eventRow{{generation: 9, last: 7}, {generation: 1, last: 8}} { // of another owner, or not all stored
		step.Events = e
		require.ErrorIs(t, b.SaveModelStep(t.Context(), step), agent.ErrEventsNotStored)
		require.True(t, *e.committed)
		require.Zero(t, b.count("turn_steps"))
	}
	step.Key.TurnID = "none"
	e := &eventRow{generation: 1, last: 7}
	step.Fence.StreamID, step.Events = "none", e
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(b.SaveModelStep(t.Context(), step)))

	step = modelStep("t1", 1, 1, agent.Text("first"))
	step.Events = &eventRow{generation: 1, last: 7}
	require.NoError(t, b.SaveModelStep(t.Context(), step))
	require.Equal(t, 1, b.count("turn_steps"))
	require.Equal(t, 1, b.count("usage_ledger"), "billed once")
	tool := toolStep("t1", 1, "c1", 1)
	tool.Events = &eventRow{generation: 9, last: 7}
	require.ErrorIs(t, b.SaveToolStep(t.Context(), tool), agent.ErrEventsNotStored)
}
