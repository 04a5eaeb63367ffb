package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

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
	_, result, err := b.CallSteps(t.Context(), other.Key)
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
	require.Equal(t, 2, b.count("usage_ledger"), "what the zombie spent is on the bill")

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

// A step that is being stored while its turn ends is either part of the transcript or refused: never lost, never an orphan.
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
