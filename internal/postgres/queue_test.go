package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestBeginFirstTurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	first := b.ready("t1", "s")
	require.EqualValues(t, 1, first.Cursor)
	require.Equal(t, "hash-1", first.PlanHash)
	require.False(t, first.StartedAt.IsZero())

	again := b.ready("t1", "s")
	require.Equal(t, first.Cursor, again.Cursor)
	require.True(t, first.StartedAt.Equal(again.StartedAt))
	require.Equal(t, []string{"user: question t1"}, b.transcript("s"), "the input is appended once")

	state, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	want := turn("t1", "s")
	require.Equal(t, want, state.Record)
	require.Equal(t, agent.StateRunning, state.State)
	require.EqualValues(t, 1, state.Cursor)
	require.Nil(t, state.Output)

	_, err = b.Turn(t.Context(), "t2")
	requireCode(t, agent.CodeNotFound, err)
}

func TestBeginStoresInputAsGiven(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := turn("t1", "s")
	r.Input = []agent.Message{
		{Role: agent.RoleAssistant, Blocks: []agent.Block{call("c1")}},
		{Role: agent.RoleTool, Blocks: []agent.Block{toolStep("t1", 1, "c1", 1).Result}},
		agent.UserText("and \x00 now? \u2028"),
	}
	require.EqualValues(t, 3, b.begin(r).Cursor)
	prompt, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t1", Tenant: tenant, SessionID: "s", Cursor: 3, Step: 1})
	require.NoError(t, err)
	require.Equal(t, r.Input, prompt)
}

func TestBeginBehindAndBusy(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")

	waiting := b.begin(turn("t2", "s"))
	require.Equal(t, agent.BeginBehind, waiting.Answer)
	require.EqualValues(t, "t1", waiting.Holder)
	require.Equal(t, "turn/t1", waiting.HolderWorkflow)
	require.False(t, waiting.HolderSince.IsZero())
	require.Equal(t, 1, waiting.Position)

	interrupting := turn("t3", "s")
	interrupting.OnBusy = agent.OnBusyInterrupt
	require.Equal(t, 2, b.begin(interrupting).Position)
	require.Equal(t, 1, b.begin(turn("t2", "s")).Position, "another Begin keeps the place")

	rejecting := turn("t4", "s")
	rejecting.OnBusy = agent.OnBusyReject
	busy := b.begin(rejecting)
	require.Equal(t, agent.BeginBusy, busy.Answer)
	require.EqualValues(t, "t1", busy.Holder)

	full := turn("t5", "s")
	full.QueueLimit = 2
	require.Equal(t, agent.BeginOverflow, b.begin(full).Answer)
	require.Equal(t, 3, b.count("turns"), "busy and overflow store nothing")

	full.QueueLimit = 3
	require.Equal(t, 3, b.begin(full).Position)
	b.ready("t6", "other session")
}

func TestBeginRefusesTakenIDs(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	tests := map[string]func(*agent.TurnRecord){
		"other tenant":   func(r *agent.TurnRecord) { r.Tenant = "evil" },
		"other session":  func(r *agent.TurnRecord) { r.SessionID = "s2" },
		"other workflow": func(r *agent.TurnRecord) { r.WorkflowID = "by-hand" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := turn("t1", "s")
			change(&r)
			_, err := b.Begin(t.Context(), r)
			requireCode(t, agent.CodeConflict, err)
			require.NotContains(t, err.Error(), tenant)
			require.Equal(t, 1, b.count("sessions"), "nothing is stored")
		})
	}
}

func TestBeginAdoptsTheWorkflowOfATurnWithoutOne(t *testing.T) {
	b := newBench(t, postgres.Config{})
	direct := turn("t1", "s")
	direct.WorkflowID = ""
	b.begin(direct)
	b.ready("t1", "s")
	state, err := b.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, "turn/t1", state.Record.WorkflowID)
	require.EqualValues(t, 1, state.Cursor)
}

func TestQueueOfFiftyAtOnce(t *testing.T) {
	const turns = 50
	b := newBench(t, postgres.Config{})
	begun := make([]agent.Begun, turns)
	require.NoError(t, errors.Join(atOnce(turns, func(i int) (err error) {
		begun[i], err = b.Begin(t.Context(), turn(fmt.Sprintf("t%02d", i), "s"))
		return err
	})...))
	var (
		order     = make([]string, turns)
		positions []int
	)
	for i := range turns {
		order[begun[i].Position] = fmt.Sprintf("t%02d", i)
		positions = append(positions, begun[i].Position)
		if begun[i].Position == 0 {
			require.Equal(t, agent.BeginReady, begun[i].Answer)
		} else {
			require.Equal(t, agent.BeginBehind, begun[i].Answer)
		}
	}
	slices.Sort(positions)
	for i, p := range positions {
		require.Equal(t, i, p, "one ready, the others behind with positions 1 to 49")
	}

	var want []string
	for i, id := range order {
		again := b.ready(id, "s")
		require.EqualValues(t, 2*i+1, again.Cursor, "the cursor is after the turn before")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("answer "+id))))
		done := b.finish(finish(id, "s"))
		if i+1 < turns {
			require.EqualValues(t, order[i+1], done.Next)
			require.Equal(t, "turn/"+order[i+1], done.NextWorkflow)
		} else {
			require.Empty(t, done.Next)
		}
		want = append(want, "user: question "+id, "assistant: answer "+id)
	}
	require.Equal(t, want, b.transcript("s"))

	page, err := b.Turns(t.Context(), tenant, "s", 0, 1000)
	require.NoError(t, err)
	for i, listed := range page {
		require.EqualValues(t, i+1, listed.Seq)
		require.EqualValues(t, order[i], listed.TurnID)
		require.False(t, listed.Holds)
		require.NotNil(t, listed.FinishedAt)
	}
	require.Len(t, page, turns)
}

func TestHandedOverTurnIsRunningUntilItBegins(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.begin(turn("t2", "s"))
	b.begin(turn("t3", "s"))
	require.EqualValues(t, "t2", b.finish(finish("t1", "s")).Next)

	state, err := b.Turn(t.Context(), "t2")
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, state.State)
	require.Zero(t, state.Cursor)
	require.EqualValues(t, "t2", b.finish(finish("t1", "s")).Next, "a repeated Finish names it again")

	late := b.begin(turn("t4", "s"))
	require.EqualValues(t, "t2", late.Holder)
	require.Equal(t, 2, late.Position)

	require.EqualValues(t, 2, b.ready("t2", "s").Cursor)
	require.Empty(t, b.finish(finish("t1", "s")).Next, "it has begun and is not returned again")
}

func TestCancelledWhileWaiting(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	for _, id := range []string{"t2", "t3", "t4"} {
		b.begin(turn(id, "s"))
	}
	cancelled := finish("t2", "s")
	cancelled.Output.Status, cancelled.Events = agent.TurnCancelled, nil
	require.Empty(t, b.finish(cancelled).Next, "the session is still held")
	require.Equal(t, 1, b.begin(turn("t3", "s")).Position)
	require.Equal(t, 2, b.begin(turn("t4", "s")).Position)
	require.Equal(t, agent.BeginDuplicate, b.begin(turn("t2", "s")).Answer)
	require.EqualValues(t, "t3", b.finish(finish("t1", "s")).Next)

	// t3 holds the session but is cancelled before it begins again.
	cancelled = finish("t3", "s")
	cancelled.Output.Status, cancelled.Events = agent.TurnCancelled, nil
	require.EqualValues(t, "t4", b.finish(cancelled).Next)
	b.ready("t4", "s")
	require.Equal(t, []string{"user: question t1", "user: question t4"}, b.transcript("s"), "a turn that never ran is not in the transcript")
}

// TestBeginClaimsTheStream begins turns whose streams become a process's own in the same transaction.
func TestBeginClaimsTheStream(t *testing.T) {
	b := newBench(t, postgres.Config{})
	claimed := func(id, session string) agent.Begun {
		r := turn(id, session)
		r.Stream = agent.StreamClaim{Owner: "me", Reserve: 7}
		return b.begin(r)
	}
	require.True(t, claimed("t1", "s").Claimed)
	require.Equal(t, 1, b.count(`streams WHERE stream_id = 't1' AND owner = 'me' AND generation = 1 AND reserved = 7`))
	require.False(t, claimed("t1", "s").Claimed, "once")
	require.False(t, claimed("t2", "s").Claimed, "a waiting turn claims no stream")
	require.False(t, b.begin(turn("t3", "free")).Claimed, "no claim was requested")
	require.Equal(t, 1, b.count("streams"))
}

// queueModel is a simple model of Begin and Finish for one session.
type queueModel struct {
	holder     string // "" when the session is free
	begun      bool   // the holder has its input in the transcript
	cursor     map[string]int64
	queue      []string
	done       map[string]bool
	steps      map[string]bool
	transcript []string
}

func (m *queueModel) begin(id string, onBusy agent.OnBusy, limit int) (answer agent.BeginAnswer, position int, cursor int64) {
	at := slices.Index(m.queue, id)
	switch {
	case m.done[id]:
		return agent.BeginDuplicate, 0, 0
	case m.holder == id || m.holder == "":
		if m.holder == "" || !m.begun {
			m.transcript = append(m.transcript, "user: question "+id)
			m.holder, m.begun, m.cursor[id] = id, true, int64(len(m.transcript))
		}
		return agent.BeginReady, 0, m.cursor[id]
	case at >= 0:
		return agent.BeginBehind, at + 1, 0
	case onBusy == agent.OnBusyReject:
		return agent.BeginBusy, 0, 0
	case len(m.queue) >= limit:
		return agent.BeginOverflow, 0, 0
	}
	m.queue = append(m.queue, id)
	return agent.BeginBehind, len(m.queue), 0
}

// finish returns the turn that Finish has to return as the next one.
func (m *queueModel) finish(id string) (next string) {
	at := slices.Index(m.queue, id)
	switch {
	case m.done[id]:
		if m.holder != "" && !m.begun {
			return m.holder
		}
		return ""
	case m.holder != id && at < 0: // never begun
		return ""
	}
	m.done[id] = true
	if m.steps[id] {
		m.transcript = append(m.transcript, "assistant: answer "+id)
	}
	if at >= 0 {
		m.queue = slices.Delete(m.queue, at, at+1)
		return ""
	}
	m.holder, m.begun = "", false
	if len(m.queue) > 0 {
		m.holder, m.queue = m.queue[0], m.queue[1:]
	}
	return m.holder
}

// step reports whether a step of the turn has to be accepted.
func (m *queueModel) step(id string) bool {
	if m.done[id] || m.holder != id && !slices.Contains(m.queue, id) {
		return false
	}
	m.steps[id] = true
	return true
}

func TestQueueFollowsItsModel(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		name := fmt.Sprintf("s%d", round)
		m := queueModel{cursor: map[string]int64{}, done: map[string]bool{}, steps: map[string]bool{}}
		for range rapid.IntRange(1, 25).Draw(rt, "operations") {
			id := fmt.Sprintf("%s-t%d", name, rapid.IntRange(1, 6).Draw(rt, "turn"))
			switch rapid.SampledFrom([]string{"begin", "begin", "begin", "finish", "step"}).Draw(rt, "operation") {
			case "begin":
				r := turn(id, name)
				r.OnBusy = rapid.SampledFrom([]agent.OnBusy{agent.OnBusyQueue, agent.OnBusyReject}).Draw(rt, "on_busy")
				r.QueueLimit = rapid.IntRange(1, 4).Draw(rt, "limit")
				holder := m.holder
				answer, position, cursor := m.begin(id, r.OnBusy, r.QueueLimit)
				got := b.begin(r)
				require.Equal(rt, answer, got.Answer)
				require.Equal(rt, position, got.Position)
				require.Equal(rt, cursor, got.Cursor)
				if position > 0 || answer == agent.BeginBusy {
					require.EqualValues(rt, holder, got.Holder)
				}
			case "finish":
				f := b.complete(id, name)
				f.Events = nil
				next := m.finish(id)
				require.EqualValues(rt, next, b.finish(f).Next)
			case "step":
				err := b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("answer "+id)))
				require.Equal(rt, m.step(id), err == nil, "%v", err)
			}
		}
		if len(m.transcript) > 0 {
			require.Equal(rt, m.transcript, b.transcript(name))
		}
	})
}

// direct returns the record of a direct turn whose lease expires after d.
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
	require.Zero(t, b.lease("t2"), "a durable turn has no lease")

	until := first.LeaseUntil.Add(time.Minute)
	require.True(t, b.renew("t1", until))
	require.Equal(t, until, b.begin(turn("t2", "s")).HolderLease)
	require.True(t, b.renew("t1", first.LeaseUntil))
	require.Equal(t, agent.BeginReady, b.begin(first).Answer)
	require.Equal(t, until, b.lease("t1"), "a lease never gets shorter")

	b.finish(finish("t1", "s"))
	require.False(t, b.renew("t1", until))
	ready := b.ready("t2", "s")
	require.Zero(t, ready.HolderMode)
	require.Zero(t, ready.HolderLease)
	require.False(t, b.renew("t2", until))
	require.False(t, b.renew("t9", until))
}

// A waiting direct turn renews its lease by beginning again, and keeps that lease when it gets the session.
func TestLeaseOfAWaitingTurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	waiting := direct("t2", time.Minute)
	require.Equal(t, agent.BeginBehind, b.begin(waiting).Answer)
	require.False(t, b.renew("t2", waiting.LeaseUntil.Add(time.Hour)))
	waiting.LeaseUntil = waiting.LeaseUntil.Add(time.Minute)
	begun := b.begin(waiting)
	require.Equal(t, agent.BeginBehind, begun.Answer)
	require.Equal(t, 1, begun.Position, "the turn keeps its place")
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

	// The process that handed it over cannot renew or begin it any more.
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

// A workflow that begins a direct turn takes it over, so that only one of them runs it.
func TestWorkflowTakesADirectTurnOver(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := direct("t1", time.Minute)
	b.begin(r)
	require.Equal(t, agent.BeginReady, b.begin(turn("t1", "s")).Answer)
	require.Zero(t, b.lease("t1"))
	require.False(t, b.renew("t1", r.LeaseUntil))
}
