package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// TestStepsThatAreStoredLater saves the result of a call that waits for the next transaction of its turn.
func TestStepsThatAreStoredLater(t *testing.T) {
	finishAll := func(b *bench) { require.True(b.t, b.finish(b.complete("t1", "s")).Ended) }
	for name, test := range map[string]struct {
		next  func(b *bench)
		steps int
	}{
		"by the next step": {func(b *bench) {
			require.NoError(b.t, b.SaveModelStep(b.t.Context(), modelStep("t1", 2, 1, call("b"))))
		}, 3},
		"by the end of the turn": {func(b *bench) {
			last := modelStep("t1", 2, 1, agent.Text("said"))
			last.Later = true
			require.NoError(b.t, b.SaveModelStep(b.t.Context(), last))
			require.Equal(b.t, 1, b.count("turn_steps"))
			finishAll(b)
			require.Equal(b.t, []string{"user: question t1", "assistant: call(a)", "tool: success(a)", "assistant: said"}, b.transcript("s"))
			require.Equal(b.t, 2, b.count("usage_ledger"))
		}, 3},
		"by an end with a failure": {func(b *bench) {
			f := b.complete("t1", "s")
			f.Output.Status, f.Events[len(f.Events)-1].Status = agent.TurnFailed, agent.StatusFailed
			require.True(b.t, b.finish(f).Ended)
			require.Len(b.t, b.transcript("s"), 3)
		}, 2},
		"when asked to": {func(b *bench) { require.NoError(b.t, b.StoreLater(b.t.Context(), "t1")) }, 2},
		"before steps are read": {func(b *bench) {
			_, ok, err := b.ToolStep(b.t.Context(), toolStep("t1", 1, "a", 1).Key)
			require.NoError(b.t, err)
			require.True(b.t, ok)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Config{})
			b.ready("t1", "s")
			require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("a"))))
			tool := toolStep("t1", 1, "a", 1)
			tool.Later = true
			require.NoError(t, b.SaveToolStep(t.Context(), tool))
			require.Equal(t, 1, b.count("turn_steps"))
			_, result, err := b.CallSteps(t.Context(), tool.Key)
			require.NoError(t, err)
			require.NotNil(t, result, "this process knows it")
			require.Equal(t, 1, b.count("turn_steps"))
			test.next(b)
			require.Equal(t, test.steps, b.count("turn_steps"))
		})
	}
}

// TestRefusedLaterSteps: a step of a producer that was overtaken while it waited is an error of whatever was to store it, and nothing ends.
func TestRefusedLaterSteps(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	last := modelStep("t1", 1, b.epoch("t1", "model/1"), agent.Text("zombie"))
	last.Later = true
	require.NoError(t, b.SaveModelStep(t.Context(), last))
	record := b.complete("t1", "s")
	b.epoch("t1", "model/1")
	_, err := b.Finish(t.Context(), record)
	require.ErrorIs(t, err, agent.ErrFenced)
	require.Zero(t, b.count("turn_steps")+b.count("agent_results"))
	require.Equal(t, 1, b.count("turns WHERE state = 'running'"))
	require.Equal(t, 1, b.count("usage_ledger"), "what the zombie spent is on the bill")
}

// TestLaterStepsOutliveTheDatabase: a transaction that fails gives the steps back.
func TestLaterStepsOutliveTheDatabase(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("a"))))
	tool := toolStep("t1", 1, "a", 1)
	tool.Later = true
	require.NoError(t, b.SaveToolStep(t.Context(), tool))
	_, err := b.pool.Exec(t.Context(), `ALTER TABLE turn_steps RENAME TO away`)
	require.NoError(t, err)
	require.Error(t, b.StoreLater(t.Context(), "t1"))
	_, err = b.pool.Exec(t.Context(), `ALTER TABLE away RENAME TO turn_steps`)
	require.NoError(t, err)
	require.NoError(t, b.StoreLater(t.Context(), "t1"))
	require.Equal(t, 2, b.count("turn_steps"))
}

func TestLargeStepsAreStoredAtOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	last := modelStep("t1", 1, 1, agent.Text(strings.Repeat("x", 64<<10)))
	last.Later = true
	require.NoError(t, b.SaveModelStep(t.Context(), last))
	require.Equal(t, 1, b.count("turn_steps"))
}
