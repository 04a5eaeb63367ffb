//go:build unix

package e2e_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// boundary is a point between two steps of a turn at which its worker is killed. The turn asks for two tools side by side: the first
// one has an effect, may not be repeated and waits for a person; the second one may be repeated.
type boundary struct {
	hold  moment // the world holds the worker there
	table string // the worker is held when it writes to this table, locked when the moment has come or the turn waits for a person
	cut   bool   // then it may write, but has lost Temporal: what it has done is there, and nobody was told
	seen  func(b *bench, id agent.TurnID)

	early   bool   // the worker dies before a person has decided
	waits   bool   // the person's decision has its answer before the worker dies
	local   bool   // the second tool has no side effects: it is a local activity
	calls   bool   // so are the model calls
	unknown bool   // nobody knows whether the first tool has taken effect
	effects int    // that it has taken
	either  bool   // or the call was cut off, which nobody can tell from here
	again   moment // the request that may come twice; everything else is asked for once
}

// boundaries are in the order of the turn.
func boundaries() map[string]boundary {
	return map[string]boundary{
		"model asked":                   {early: true, hold: firstAsked, effects: 1, again: firstAsked},
		"model speaks":                  {early: true, hold: firstBegun, seen: text("see"), effects: 1, again: firstAsked},
		"reply not stored":              {early: true, table: "turn_steps", effects: 1, again: firstAsked},
		"approval not asked for":        {early: true, table: "approvals", effects: 1},
		"reply stored":                  {early: true, table: "turn_steps", cut: true, seen: stored(1, ""), effects: 1},
		"approval asked for":            {early: true, table: "approvals", cut: true, seen: event(agent.EventApprovalRequested, ""), effects: 1},
		"waits for a person":            {early: true, seen: idle, effects: 1},
		"decision not stored":           {table: "approvals", effects: 1},
		"decision stored":               {table: "events", effects: 1},
		"decision told":                 {table: "approvals", cut: true, seen: event(agent.EventApprovalResolved, ""), effects: 1},
		"decision answered":             {waits: true, effects: 1, either: true, again: entered("reserve")},
		"tool entered":                  {hold: entered("pay"), unknown: true, again: entered("reserve")},
		"tool took effect":              {hold: done("pay"), unknown: true, effects: 1, again: entered("reserve")},
		"tool ended and not stored":     {table: "turn_steps", seen: event(agent.EventToolEnd, callID(0)), unknown: true, effects: 1, again: entered("reserve")},
		"one tool of two ended":         {hold: entered("reserve"), seen: stored(1, callID(0)), effects: 1, again: entered("reserve")},
		"the other tool of two ended":   {hold: entered("pay"), seen: stored(1, callID(1)), unknown: true},
		"both tools ended":              {table: "turn_steps", cut: true, seen: bothStored, effects: 1},
		"model asked again":             {hold: secondAsked, effects: 1, again: secondAsked},
		"model speaks again":            {hold: secondBegun, seen: text("done"), effects: 1, again: secondAsked},
		"last reply not stored":         {hold: secondAsked, table: "turn_steps", effects: 1, again: secondAsked},
		"last reply stored":             {hold: secondAsked, table: "turn_steps", cut: true, seen: stored(2, ""), effects: 1},
		"turn not stored":               {table: "agent_results", effects: 1},
		"turn over":                     {table: "agent_results", cut: true, seen: event(agent.EventStatus, ""), effects: 1},
		"local model asked":             {calls: true, early: true, hold: firstAsked, effects: 1, again: firstAsked},
		"local model speaks":            {calls: true, early: true, hold: firstBegun, seen: text("see"), effects: 1, again: firstAsked},
		"local reply not stored":        {calls: true, early: true, table: "turn_steps", effects: 1, again: firstAsked},
		"local reply stored":            {calls: true, early: true, table: "turn_steps", cut: true, seen: stored(1, ""), effects: 1},
		"local model asked again":       {calls: true, hold: secondAsked, effects: 1, again: secondAsked},
		"local last reply stored":       {calls: true, hold: secondAsked, table: "turn_steps", cut: true, seen: stored(2, ""), effects: 1},
		"local tool entered":            {local: true, hold: entered("look"), effects: 1, again: entered("look")},
		"local tool ended, other in it": {local: true, hold: entered("pay"), seen: stored(1, callID(1)), unknown: true},
	}
}

// TestKilledAtEveryBoundary kills the worker once at every boundary of a turn with two tools and an approval, as the kernel does. The
// next worker ends the turn as if nothing had happened: one result, no effect twice, one contiguous stream.
func TestKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	binary := build(t, "faults_effect_worker.go")
	for name, c := range boundaries() {
		t.Run(name, func(t *testing.T) { t.Parallel(); testKilledAt(t, binary, c) })
	}
	for name, c := range directBoundaries() {
		t.Run(name, func(t *testing.T) { t.Parallel(); testKilledDirect(t, binary, c) })
	}
}

func testKilledAt(t *testing.T, binary string, c boundary) {
	second := "reserve"
	if c.local {
		second = "look"
	}
	w := newWorld(t, c.hold, "pay", second)
	b := newBench(t, w.model)
	toTemporal := newLine(t, b.set.Temporal.Address)
	var env []string
	if c.calls {
		env = localCalls()
	}
	first := b.spawn(binary, freeAddr(t), append([]string{"TURNSTONE_TEMPORAL_ADDRESS=" + toTemporal.Addr().String()}, env...), w.server.URL)
	unlock := func() {}
	if c.early && c.table != "" {
		unlock = b.lock(c.table)
	}
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "book it", SessionID: "boundary"})
	require.NoError(t, err)
	id := receipt.TurnID
	viewer := live(t, b.client, id)

	var decided <-chan error
	if !c.early {
		b.awaitEvent(id, agent.EventApprovalRequested)
		if c.table != "" && c.hold == "" {
			unlock = b.lock(c.table)
		}
		decided = b.decides(id)
	}
	if c.hold != "" {
		await(t, w.held, string(c.hold))
		if c.table != "" {
			unlock = b.lock(c.table)
			close(w.let)
		}
	}
	if c.table != "" {
		b.awaitWriter(c.table)
	}
	if c.cut {
		toTemporal.cut()
		unlock()
		unlock = func() {}
	}
	if c.waits {
		require.NoError(t, <-decided)
	}
	if c.seen != nil {
		c.seen(b, id)
	}
	first.end(syscall.SIGKILL)
	unlock()

	b.spawn(binary, freeAddr(t), env, w.server.URL)
	if c.early {
		b.awaitEvent(id, agent.EventApprovalRequested)
		decided = b.decides(id)
	}
	if !c.waits {
		require.NoError(t, <-decided)
	}
	b.survived(w, &c, receipt, viewer)
}

// decides approves what a turn waits for, as a person does: again and again until there is an answer.
func (b *bench) decides(id agent.TurnID) <-chan error {
	answered := make(chan error, 1)
	page, err := b.client.Approvals(b.t.Context(), agent.ApprovalQuery{TurnID: id, State: "pending"})
	require.NoError(b.t, err)
	require.Len(b.t, page.Approvals, 1)
	decision := agent.Decision{ApprovalID: page.Approvals[0].ApprovalID, Decision: agent.DecisionApprove, By: "ops"}
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	go func() {
		defer cancel()
		for {
			err := b.client.Decide(ctx, id, decision)
			if agent.CodeOf(err) == agent.CodeConflict { // the turn ended before its answer came
				if turn, getErr := b.client.Turn(ctx, id); getErr == nil && turn.Output != nil {
					err = nil
				}
			}
			if agent.CodeOf(err) != agent.CodeUnavailable || ctx.Err() != nil {
				answered <- err
				return
			}
		}
	}()
	return answered
}

// lock keeps everybody from writing to a table until the function it returns is called. Who reads may go on.
func (b *bench) lock(table string) (unlock func()) {
	b.t.Helper()
	conn := b.connect()
	_, err := conn.Exec(b.t.Context(), "BEGIN; LOCK TABLE "+table+" IN SHARE MODE")
	require.NoError(b.t, err)
	return func() { require.NoError(b.t, conn.Close(context.Background())) }
}

// awaitWriter waits until somebody wants to write to a locked table.
func (b *bench) awaitWriter(table string) {
	b.t.Helper()
	conn := b.connect()
	require.Eventually(b.t, func() bool {
		var waiting bool
		err := conn.QueryRow(b.t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND relation = $1::regclass AND mode = 'RowExclusiveLock' AND NOT granted)`, table).Scan(&waiting)
		return err == nil && waiting
	}, 30*time.Second, 10*time.Millisecond, "somebody writes to %s", table)
}

// connect opens a connection to the workers' database for as long as the test runs.
func (b *bench) connect() *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.set.Database.URL.Reveal())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // closed already, perhaps
	return conn
}

// text waits until a turn has said something.
func text(words string) func(*bench, agent.TurnID) {
	return func(b *bench, id agent.TurnID) { b.awaitText(id, words) }
}

// event waits for an event, of a call if one is given. A status is the last one.
func event(kind agent.EventType, call agent.CallID) func(*bench, agent.TurnID) {
	return func(b *bench, id agent.TurnID) {
		b.t.Helper()
		ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
		defer cancel()
		for e, err := range b.client.Follow(ctx, id, 0) {
			require.NoError(b.t, err)
			if e.Type == kind && (call == "" || e.ToolCallID == call) && (kind != agent.EventStatus || e.Terminal()) {
				return
			}
		}
		require.Fail(b.t, "the stream ended")
	}
}

// stored waits until the result of a call is stored, or without one the reply of a step.
func stored(step int, call agent.CallID) func(*bench, agent.TurnID) {
	return func(b *bench, id agent.TurnID) {
		conn := b.connect()
		require.Eventually(b.t, func() bool {
			var there bool
			err := conn.QueryRow(b.t.Context(), "SELECT EXISTS (SELECT FROM turn_steps WHERE turn_id = $1 AND step = $2 AND call_id = $3)",
				string(id), step, string(call)).Scan(&there)
			return err == nil && there
		}, 30*time.Second, 10*time.Millisecond, "step %d, %s: stored", step, call)
	}
}

// bothStored waits until the results of both calls are stored.
func bothStored(b *bench, id agent.TurnID) {
	stored(1, callID(0))(b, id)
	stored(1, callID(1))(b, id)
}

// idle waits until a turn waits for a person and its workflow knows.
func idle(b *bench, id agent.TurnID) {
	b.awaitEvent(id, agent.EventApprovalRequested)
	require.Eventually(b.t, func() bool {
		d, err := b.Temporal().DescribeWorkflowExecution(b.t.Context(), id.WorkflowID(), "")
		return err == nil && d.GetPendingWorkflowTask() == nil && len(d.GetPendingActivities()) == 0
	}, 30*time.Second, 10*time.Millisecond, "the workflow waits")
}
