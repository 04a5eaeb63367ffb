package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// What the model was told when it was asked again stands behind its reply and the results of its calls, in the prompt of the turn and in
// the transcript alike.
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
