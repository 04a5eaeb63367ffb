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
	effects int // that the first tool has taken in the end
}

func directBoundaries() map[string]directBoundary {
	return map[string]directBoundary{
		"direct model speaks":          {hold: firstBegun, seen: text("see"), effects: 1},
		"direct tool entered":          {hold: entered("book")},
		"direct tool took effect":      {hold: done("book"), effects: 1},
		"direct one tool of two ended": {hold: entered("reserve"), seen: stored(1, callID(0)), effects: 1},
		"direct model speaks again":    {hold: secondBegun, seen: text("done"), effects: 1},
	}
}

// testKilledDirect kills the process that drives a direct turn. When its lease has run out, a workflow goes on with it behind the steps that
// are stored, and what may have taken effect is not done again.
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
	second := b.spawn(binary, freeAddr(t), nil, w.server.URL) // has the tools; the bench itself has not

	view, err := b.client.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, view.State, "its lease has not run out")
	_, err = b.connect().Exec(t.Context(), "UPDATE turns SET lease_until = now() - interval '1 second' WHERE turn_id = $1", string(receipt.TurnID))
	require.NoError(t, err)                                // as after a minute of silence
	_, err = second.door.Turn(t.Context(), receipt.TurnID) // who looks finds out
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, events := b.follow(ctx, receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, worldAnswer, out.Output)
	require.Equal(t, worldIntro+worldAnswer, streamtest.Shown(events))
	require.Equal(t, kept(events), kept(viewer()), "who stayed saw what there is to see")
	b.resumes(ctx, receipt.TurnID, events)
	b.answered(ctx, receipt, 2)
	next, err := b.client.Start(ctx, agent.TurnRequest{Message: thanks, SessionID: receipt.SessionID})
	require.NoError(t, err)
	after, _ := b.follow(ctx, next.TurnID)
	require.Equal(t, worldNext, after.Output, "the session is free")
	var n int
	require.NoError(t, b.connect().QueryRow(ctx, "SELECT count(*) FROM agent_results WHERE turn_id = $1", string(receipt.TurnID)).Scan(&n))
	require.Equal(t, 1, n)
	_, taken, _ := w.seen()
	require.Equal(t, c.effects, taken["book"])
}
