//go:build unix

package e2e_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// directBoundary is a point at which the process that drives a direct turn is killed; no person is asked in such a turn.
type directBoundary struct {
	hold    moment
	table   string // the process is held when it writes to this table, locked from the beginning or when the moment has come
	seen    func(b *bench, id agent.TurnID)
	effects int // that the first tool has taken in the end
	again   moment
}

// directBoundaries are in the order of the turn.
func directBoundaries() map[string]directBoundary {
	return map[string]directBoundary{
		"direct model asked":           {hold: firstAsked, effects: 1, again: firstAsked},
		"direct nothing shown stored":  {table: "events", effects: 1, again: firstAsked},
		"direct model speaks":          {hold: firstBegun, seen: text("see"), effects: 1, again: firstAsked},
		"direct reply not stored":      {table: "turn_steps", effects: 1, again: firstAsked},
		"direct tool entered":          {hold: entered("book"), seen: stored(1, "")},
		"direct tool took effect":      {hold: done("book"), seen: stored(1, callID(1)), effects: 1},
		"direct result not stored":     {hold: done("book"), seen: stored(1, callID(1)), table: "turn_steps", effects: 1},
		"direct one tool of two ended": {hold: entered("reserve"), seen: stored(1, callID(0)), effects: 1, again: entered("reserve")},
		"direct model asked again":     {hold: secondAsked, seen: bothStored, effects: 1, again: secondAsked},
		"direct model speaks again":    {hold: secondBegun, seen: text("done"), effects: 1, again: secondAsked},
		"direct last reply not stored": {hold: secondAsked, table: "turn_steps", effects: 1, again: secondAsked},
		"direct turn not stored":       {table: "agent_results", effects: 1},
	}
}

// testKilledDirect kills the process that drives a direct turn. When its lease has run out, upkeep of another process starts a workflow that goes on
// with it behind the steps that are stored, and what may have taken effect is not done again.
func testKilledDirect(t *testing.T, binary string, c directBoundary) {
	w := newWorld(t, c.hold, "book", "reserve")
	b := newBench(t, w.model, func(c *app.Config) { c.Worker.Enabled = false }) // upkeep is for the processes that have the tools
	driver := b.spawn(binary, freeAddr(t), nil, w.server.URL)
	unlock := func() {}
	if c.table != "" && c.hold == "" {
		unlock = b.lock(c.table)
	}
	receipt := agent.Receipt{TurnID: agent.TurnID("direct-" + uuid.NewString()), SessionID: "direct"}
	go func() { // no answer comes if it is killed before the turn has begun
		_, _ = driver.door.Start(t.Context(), agent.TurnRequest{TurnID: receipt.TurnID, SessionID: receipt.SessionID, Message: "book it", Mode: agent.ModeDirect})
	}()
	require.Eventually(t, func() bool {
		view, err := b.client.Turn(t.Context(), receipt.TurnID)
		return err == nil && view.State == agent.StateRunning
	}, 30*time.Second, 10*time.Millisecond, "the turn is recorded")
	viewer := live(t, b.client, receipt.TurnID)
	if c.hold != "" {
		await(t, w.held, string(c.hold))
		if c.seen != nil {
			c.seen(b, receipt.TurnID)
		}
		if c.table != "" {
			unlock = b.lock(c.table)
			close(w.let)
		}
	}
	if c.table != "" {
		b.awaitWriter(c.table)
	}
	driver.end(syscall.SIGKILL)
	killed := time.Now()
	unlock()
	second := b.spawn(binary, freeAddr(t), nil, w.server.URL)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, events := b.follow(ctx, receipt.TurnID)
	t.Logf("ended %s after its process was killed", time.Since(killed).Round(time.Millisecond))
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, worldAnswer, out.Output)
	require.Equal(t, worldIntro+worldAnswer, streamtest.Shown(events))
	require.Equal(t, kept(events), kept(viewer()), "who stayed saw what there is to see")
	b.resumes(ctx, receipt.TurnID, events)
	b.answered(ctx, receipt, 2)
	next, err := second.door.Start(ctx, agent.TurnRequest{Message: thanks, SessionID: receipt.SessionID})
	require.NoError(t, err)
	after, _ := b.follow(ctx, next.TurnID)
	require.Equal(t, worldNext, after.Output, "the session is free")
	var n int
	require.NoError(t, b.connect().QueryRow(ctx, "SELECT count(*) FROM agent_results WHERE turn_id = $1", string(receipt.TurnID)).Scan(&n))
	require.Equal(t, 1, n)
	asked, taken, _ := w.seen()
	require.Equal(t, c.effects, taken["book"])
	for _, m := range []moment{firstAsked, secondAsked, entered("book"), entered("reserve")} {
		most := 1
		if m == c.again {
			most = 2
		}
		require.LessOrEqual(t, asked[m], most, "asked for again: %s", m)
	}
}
