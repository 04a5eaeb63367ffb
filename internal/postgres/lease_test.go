package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// direct is a turn that a process drives, and that it promises to be heard of after d.
func direct(id string, d time.Duration) agent.TurnRecord {
	r := turn(id, "s")
	r.WorkflowID, r.Mode, r.LeaseUntil = "", agent.ModeDirect, time.Now().Add(d).UTC().Truncate(time.Microsecond)
	return r
}

func (b *bench) lease(id agent.TurnID) time.Time {
	b.t.Helper()
	state, err := b.Turn(b.t.Context(), id)
	require.NoError(b.t, err)
	return state.Lease
}

// renew reports whether a turn still holds its session.
func (b *bench) renew(id agent.TurnID, until time.Time) bool {
	b.t.Helper()
	held, err := b.Renew(b.t.Context(), []agent.TurnID{"other", id}, until)
	require.NoError(b.t, err)
	require.Subset(b.t, []agent.TurnID{id}, held)
	return len(held) == 1
}

func TestDirectTurnsHaveALease(t *testing.T) {
	b := newBench(t, postgres.Config{})
	first := direct("t1", time.Minute)
	require.Equal(t, agent.BeginReady, b.begin(first).Answer)
	require.Equal(t, first.LeaseUntil, b.lease("t1"))
	waiting := b.begin(turn("t2", "s"))
	require.Equal(t, agent.ModeDirect, waiting.HolderMode)
	require.Equal(t, first.LeaseUntil, waiting.HolderLease)
	require.Zero(t, b.lease("t2"), "a durable turn has none")

	until := first.LeaseUntil.Add(time.Minute)
	require.True(t, b.renew("t1", until))
	require.Equal(t, until, b.begin(turn("t2", "s")).HolderLease)
	require.True(t, b.renew("t1", first.LeaseUntil))
	require.Equal(t, agent.BeginReady, b.begin(first).Answer)
	require.Equal(t, until, b.lease("t1"), "a lease never moves back")

	b.finish(finish("t1", "s"))
	require.False(t, b.renew("t1", until))
	ready := b.ready("t2", "s")
	require.Zero(t, ready.HolderMode)
	require.Zero(t, ready.HolderLease)
	require.False(t, b.renew("t2", until))
	require.False(t, b.renew("t9", until))
}

// A direct turn that waits renews by asking again; when it is handed the session it has the lease of the last time it asked.
func TestLeaseOfAWaitingTurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	waiting := direct("t2", time.Minute)
	require.Equal(t, agent.BeginBehind, b.begin(waiting).Answer)
	require.False(t, b.renew("t2", waiting.LeaseUntil.Add(time.Hour)))
	waiting.LeaseUntil = waiting.LeaseUntil.Add(time.Minute)
	begun := b.begin(waiting)
	require.Equal(t, agent.BeginBehind, begun.Answer)
	require.Equal(t, 1, begun.Position, "the place is kept")
	require.Equal(t, waiting.LeaseUntil, b.lease("t2"))

	require.EqualValues(t, "t2", b.finish(finish("t1", "s")).Next)
	require.Equal(t, waiting.LeaseUntil, b.begin(turn("t3", "s")).HolderLease)
	waiting.LeaseUntil = waiting.LeaseUntil.Add(time.Minute)
	require.Equal(t, agent.BeginReady, b.begin(waiting).Answer)
	require.Equal(t, waiting.LeaseUntil, b.begin(turn("t3", "s")).HolderLease)
	require.True(t, b.renew("t2", waiting.LeaseUntil.Add(time.Minute)))
}

func TestHandOver(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := direct("t1", time.Minute)
	b.begin(r)
	for range 2 {
		require.NoError(t, b.HandOver(t.Context(), "t1", "turn/t1", agent.FallbackPerson))
	}
	requireCode(t, agent.CodeConflict, b.HandOver(t.Context(), "t1", "turn/other", agent.FallbackPerson))
	requireCode(t, agent.CodeNotFound, b.HandOver(t.Context(), "t9", "turn/t9", agent.FallbackPerson))
	state, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, agent.ModeDurable, state.Record.Mode)
	require.Equal(t, "turn/t1", state.Record.WorkflowID)
	require.Zero(t, state.Lease)

	// The process that handed it over, or thinks that it has not, is told to stop.
	require.False(t, b.renew("t1", r.LeaseUntil))
	_, err = b.Begin(t.Context(), r)
	requireCode(t, agent.CodeConflict, err)
	waiting := b.begin(turn("t2", "s"))
	require.Equal(t, agent.ModeDurable, waiting.HolderMode)
	require.Zero(t, waiting.HolderLease)
	require.Equal(t, "turn/t1", waiting.HolderWorkflow)
	require.Equal(t, agent.BeginReady, b.begin(turn("t1", "s")).Answer)

	b.finish(finish("t1", "s"))
	requireCode(t, agent.CodeConflict, b.HandOver(t.Context(), "t1", "turn/t1", agent.FallbackPerson))
	require.Equal(t, agent.BeginDuplicate, b.begin(r).Answer)
}

func TestHandOverOfAWaitingTurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.begin(direct("t2", time.Minute))
	require.NoError(t, b.HandOver(t.Context(), "t2", "turn/t2", agent.FallbackStop))
	done := b.finish(finish("t1", "s"))
	require.EqualValues(t, "t2", done.Next)
	require.Equal(t, "turn/t2", done.NextWorkflow)
	require.Equal(t, agent.BeginReady, b.begin(turn("t2", "s")).Answer)
}

// A workflow that begins a direct turn takes it over: two must not drive it.
func TestWorkflowTakesADirectTurnOver(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := direct("t1", time.Minute)
	b.begin(r)
	require.Equal(t, agent.BeginReady, b.begin(turn("t1", "s")).Answer)
	require.Zero(t, b.lease("t1"))
	require.False(t, b.renew("t1", r.LeaseUntil))
}
