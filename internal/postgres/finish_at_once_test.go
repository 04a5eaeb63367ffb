package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// complete returns the record of a turn that ends with its stored steps.
func (b *bench) complete(id, session string) agent.FinishRecord {
	b.t.Helper()
	f := finish(id, session)
	var err error
	f.Models, f.Tools, err = b.Steps(b.t.Context(), f.TurnID)
	require.NoError(b.t, err)
	return f
}

// TestFinishAtOnce: ending a turn in one round trip stores the same as ending it in two.
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

// TestFinishAtOnceSeesQueuedTurns queues a turn while the one before it ends. The queued turn gets the session, whichever comes first.
func TestFinishAtOnceSeesQueuedTurns(t *testing.T) {
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
