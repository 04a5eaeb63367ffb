//go:build unix

package e2e_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// directBoundary is a point at which the process that drives a direct turn is killed; no person is asked in such a turn.
type directBoundary struct {
	hold    moment
	seen    func(b *bench, id agent.TurnID)
	calls   int    // in the transcript
	effects int    // that the first tool has taken
	shown   string // what a viewer has read
}

func directBoundaries() map[string]directBoundary {
	return map[string]directBoundary{
		"direct model speaks":          {hold: firstBegun, seen: text("see"), shown: worldIntro},
		"direct tool entered":          {hold: entered("book"), calls: 2, shown: worldIntro},
		"direct tool took effect":      {hold: done("book"), calls: 2, effects: 1, shown: worldIntro},
		"direct one tool of two ended": {hold: entered("reserve"), seen: stored(1, callID(0)), calls: 2, effects: 1, shown: worldIntro},
		"direct model speaks again":    {hold: secondBegun, seen: text("done"), calls: 2, effects: 1, shown: worldIntro + worldAnswer},
	}
}

// testKilledDirect kills the process that drives a direct turn. Nobody goes on with it: when its lease has run out another process
// ends it, says so once, and frees the session. What it had asked for is not done again.
func testKilledDirect(t *testing.T, binary string, c directBoundary) {
	w := newWorld(t, c.hold, "book", "reserve")
	b := newBench(t, w.model)
	driver := b.spawn(binary, freeAddr(t), nil, w.server.URL)
	receipt, err := driver.door.Start(t.Context(), agent.TurnRequest{Message: "book it", SessionID: "direct", Mode: agent.ModeDirect})
	require.NoError(t, err)
	viewer := live(t, b.client, receipt.TurnID)
	await(t, w.held, string(c.hold))
	if c.seen != nil {
		c.seen(b, receipt.TurnID)
	}
	driver.end(syscall.SIGKILL)

	view, err := b.client.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, view.State, "its lease has not run out")
	_, err = b.connect().Exec(t.Context(), "UPDATE turns SET lease_until = now() - interval '1 second' WHERE turn_id = $1", string(receipt.TurnID))
	require.NoError(t, err) // as after a minute of silence

	view, err = b.client.Turn(t.Context(), receipt.TurnID) // who looks finds out
	require.NoError(t, err)
	require.Equal(t, string(agent.TurnFailed), view.State)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, err := b.client.Start(ctx, agent.TurnRequest{Message: thanks, SessionID: receipt.SessionID})
	require.NoError(t, err)
	after, _ := b.follow(ctx, next.TurnID)
	require.Equal(t, worldNext, after.Output, "the session is free")

	out, events := b.follow(ctx, receipt.TurnID)
	require.Equal(t, agent.TurnFailed, out.Status)
	require.Equal(t, agent.StopTerminated, out.StopReason)
	require.NotNil(t, out.Error)
	require.Equal(t, c.shown, streamtest.Shown(events))
	require.Equal(t, events, viewer(), "who stayed saw what there is to see")
	b.resumes(ctx, receipt.TurnID, events)
	b.answered(ctx, receipt, c.calls)
	_, err = b.Temporal().DescribeWorkflowExecution(ctx, receipt.TurnID.WorkflowID(), "")
	require.Error(t, err, "no workflow")
	var n int
	require.NoError(t, b.connect().QueryRow(ctx, "SELECT count(*) FROM agent_results WHERE turn_id = $1", string(receipt.TurnID)).Scan(&n))
	require.Equal(t, 1, n)
	asked, taken, _ := w.seen()
	for m, n := range asked {
		require.Equal(t, 1, n, "asked for again: %s", m)
	}
	require.Equal(t, c.effects, taken["book"])
}
