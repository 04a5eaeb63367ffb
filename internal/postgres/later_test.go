package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// TestStepsThatAreStoredLater saves a step that is stored with the next transaction of its turn.
func TestStepsThatAreStoredLater(t *testing.T) {
	for name, test := range map[string]struct {
		next  func(b *bench)
		steps int
	}{
		"by the next step": {func(b *bench) {
			require.NoError(b.t, b.SaveModelStep(b.t.Context(), modelStep("t1", 2, 1, call("b"))))
		}, 3},
		"by the end of the turn": {func(b *bench) {
			require.True(b.t, b.finish(b.complete("t1", "s")).Ended)
			require.Equal(b.t, []string{"user: question t1", "assistant: call(a)", "tool: success(a)"}, b.transcript("s"))
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
			require.NotNil(t, result, "the process has cached it")
			require.Equal(t, 1, b.count("turn_steps"))
			test.next(b)
			require.Equal(t, test.steps, b.count("turn_steps"))
		})
	}
}

// TestRefusedLaterSteps: if a step in memory has been fenced meanwhile, the call that was to store it returns the error, and the turn does
// not end.
func TestRefusedLaterSteps(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("a"))))
	tool := toolStep("t1", 1, "a", b.epoch("t1", "tool/1/a"))
	tool.Later = true
	require.NoError(t, b.SaveToolStep(t.Context(), tool))
	b.epoch("t1", "tool/1/a")
	_, err := b.Finish(t.Context(), finish("t1", "s"))
	require.ErrorIs(t, err, agent.ErrFenced)
	require.Equal(t, 1, b.count("turn_steps"))
	require.Zero(t, b.count("agent_results"))
}

// TestLaterStepsOutliveTheDatabase: steps stay in memory if the transaction fails.
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
	tool := toolStep("t1", 1, "a", 1)
	tool.Data, tool.Later = json.RawMessage(`"`+strings.Repeat("x", 64<<10)+`"`), true
	require.NoError(t, b.SaveToolStep(t.Context(), tool))
	require.Equal(t, 1, b.count("turn_steps"))
}
