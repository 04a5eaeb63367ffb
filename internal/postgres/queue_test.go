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
	require.Equal(t, 1, b.begin(turn("t2", "s")).Position, "asking again keeps the place")

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
	errs := make([]error, turns)
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() { begun[i], errs[i] = b.Begin(t.Context(), turn(fmt.Sprintf("t%02d", i), "s")) })
	}
	wg.Wait()
	var (
		order     = make([]string, turns)
		positions []int
	)
	for i := range turns {
		require.NoError(t, errs[i])
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
		require.EqualValues(t, 2*i+1, again.Cursor, "the cursor lies behind the turn before")
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
	require.Empty(t, b.finish(finish("t1", "s")).Next, "it has begun: nothing to say")
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

	// t3 holds the session but is cancelled before it hears of it.
	cancelled = finish("t3", "s")
	cancelled.Output.Status, cancelled.Events = agent.TurnCancelled, nil
	require.EqualValues(t, "t4", b.finish(cancelled).Next)
	b.ready("t4", "s")
	require.Equal(t, []string{"user: question t1", "user: question t4"}, b.transcript("s"), "what never ran is not in the transcript")
}

// TestBeginClaimsTheStream begins turns whose streams become a process's in the same transaction.
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
	require.False(t, claimed("t2", "s").Claimed, "it waits, and nobody knows who will drive it")
	require.False(t, b.begin(turn("t3", "free")).Claimed, "nobody asked for it")
	require.Equal(t, 1, b.count("streams"))
}
