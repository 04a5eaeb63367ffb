package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// TestKeptSteps compares what a process knows of the steps that it stored with what the database has.
func TestKeptSteps(t *testing.T) {
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

// TestFinishWithStaleSteps ends a turn with the steps that one process knows, while another has stored one more.
func TestFinishWithStaleSteps(t *testing.T) {
	b := newBench(t, postgres.Config{})
	other := postgres.NewStore(b.pool, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("one"))))
	record := b.complete("t1", "s")
	require.NoError(t, other.SaveModelStep(t.Context(), modelStep("t1", 2, 1, agent.Text("two"))))
	require.Len(t, b.complete("t1", "s").Models, 1, "nobody told this process")
	done := b.finish(record)
	require.True(t, done.Stale)
	require.Zero(t, b.count("agent_results"))
	record = b.complete("t1", "s")
	require.Len(t, record.Models, 2)
	require.True(t, b.finish(record).Ended)
}
