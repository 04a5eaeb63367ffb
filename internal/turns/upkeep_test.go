package turns_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// age makes a turn so old that nobody is about to start it.
func (o *office) age(id agent.TurnID) {
	o.t.Helper()
	_, err := o.pool.Exec(o.t.Context(), `UPDATE turns SET created_at = created_at - interval '1 minute', held_at = held_at - interval '1 minute',
		lease_until = lease_until - interval '1 minute' WHERE turn_id = $1`, id)
	require.NoError(o.t, err)
}

// recover has upkeep look once, and returns the turn.
func (o *office) recover(id agent.TurnID) agent.TurnState {
	o.t.Helper()
	require.NoError(o.t, o.StartStranded(o.t.Context()))
	turn, err := o.store.Turn(o.t.Context(), id)
	require.NoError(o.t, err)
	return turn
}

// TestUnknownStart: a turn that is recorded is accepted, whatever becomes of its start. Upkeep starts it if nobody has, and a repeated request
// joins it.
func TestUnknownStart(t *testing.T) {
	away := agent.Errorf(agent.CodeUnavailable, "", "dial tcp 10.0.0.7:7233: connection refused")
	for name, c := range map[string]struct {
		session agent.SessionID
		fault   func(o *office)
		started bool // in spite of the fault
	}{
		"Temporal is away":               {"", func(o *office) { o.away = away }, false},
		"Temporal is away, in a session": {"s", func(o *office) { o.away = away }, false},
		"Temporal has too much to do":    {"", func(o *office) { o.away = agent.Errorf(agent.CodeRateLimited, "", "busy") }, false},
		"the answer is lost":             {"", func(o *office) { o.answer = agent.Errorf(agent.CodeUnavailable, "", "late") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			c.fault(o)
			e := agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.IdempotencyKey, r.SessionID = "k", c.session })}
			receipt, err := o.Submit(t.Context(), e)
			require.NoError(t, err)
			require.True(t, receipt.StartUnknown)
			id := receipt.TurnID
			turn, err := o.store.Turn(t.Context(), id)
			require.NoError(t, err, "what is recorded can be read")
			require.Nil(t, turn.Output)

			o.away, o.answer = nil, nil
			require.Nil(t, o.recover(id).Output)
			_, started := o.input(id)
			require.Equal(t, c.started, started, "whoever recorded it may be starting it")
			o.age(id)
			require.Nil(t, o.recover(id).Output)
			request, started := o.input(id)
			require.True(t, started)
			require.Empty(t, request.Message, "it is started by its id")
			again, err := o.Submit(t.Context(), e)
			require.NoError(t, err)
			require.True(t, again.Joined)
			require.False(t, again.StartUnknown)
			require.Len(t, o.started, 1)
		})
	}
}

// TestUnknownRecord: an error means that nothing is recorded; where nobody can find out, the turn is accepted.
func TestUnknownRecord(t *testing.T) {
	lost := &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("%w: connection lost", agent.ErrOutcomeUnknown)}
	away := agent.Errorf(agent.CodeUnavailable, "begin turn", "no connection")
	for name, c := range map[string]struct {
		begins            []error
		refused, accepted bool // accepted: nobody knows whether it is recorded
	}{
		"the database is away":                    {[]error{away}, true, false},
		"the answer is lost":                      {[]error{lost}, false, false},
		"the answer is lost, and then it is away": {[]error{lost, away}, false, true},
		"both answers are lost":                   {[]error{lost, lost}, false, true},
	} {
		for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				o := newOffice(t)
				o.begins = c.begins
				receipt, err := o.Submit(t.Context(), agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.TurnID, r.Mode = "t1", mode })})
				require.Equal(t, c.refused, err != nil, "%v", err)
				require.Equal(t, c.accepted, receipt.StartUnknown)
				_, err = o.store.Turn(t.Context(), "t1")
				require.Equal(t, c.refused, agent.CodeOf(err) == agent.CodeNotFound)
				if c.refused {
					require.Empty(t, o.started)
					return
				}
				o.age("t1")
				o.recover("t1")
				_, started := o.input("t1")
				require.True(t, started)
			})
		}
	}
}

// TestRefusedStart: a turn that Temporal will never start has ended when the caller is told so.
func TestRefusedStart(t *testing.T) {
	o := newOffice(t)
	o.away = agent.Errorf(agent.CodeDenied, "", "no")
	_, err := o.Submit(t.Context(), agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.TurnID = "t1" })})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Equal(t, agent.StopTerminated, o.ended("t1").StopReason)
}

// TestTurnsOfWorkflowsAreTheirs: a turn that a workflow has recorded is started by it.
func TestTurnsOfWorkflowsAreTheirs(t *testing.T) {
	o := newOffice(t)
	req := hello(func(r *agent.TurnRequest) { r.TurnID = "t1" })
	_, err := o.acts.Begin(t.Context(), req, turns.BeginTurnInput{WorkflowID: "turn/t1"})
	require.NoError(t, err)
	o.age("t1")
	require.Nil(t, o.recover("t1").Output)
	require.Empty(t, o.started)
}

// TestDirectTurnThatDidNotBegin: one that is recorded and fails before it is driven becomes durable, at once or when its lease has run out, and
// the same request joins a turn that runs.
func TestDirectTurnThatDidNotBegin(t *testing.T) {
	e := agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.IdempotencyKey, r.Mode = "k", agent.ModeDirect })}
	t.Run("the log failed", func(t *testing.T) {
		o := newOffice(t)
		o.broken = 1
		receipt, err := o.Submit(t.Context(), e)
		require.NoError(t, err)
		_, started := o.input(receipt.TurnID)
		require.True(t, started)
		turn, err := o.store.Turn(t.Context(), receipt.TurnID)
		require.NoError(t, err)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
		require.Equal(t, agent.FallbackTrouble, turn.Record.Fallback)
	})
	t.Run("and Temporal too", func(t *testing.T) {
		o := newOffice(t)
		o.broken, o.away = 1, agent.Errorf(agent.CodeUnavailable, "", "away")
		receipt, err := o.Submit(t.Context(), e)
		require.NoError(t, err)
		require.True(t, receipt.StartUnknown)
		o.away = nil
		o.age(receipt.TurnID)
		again, err := o.Submit(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, receipt.TurnID, again.TurnID)
		_, started := o.input(receipt.TurnID)
		require.True(t, started, "the repeated request has it run")
		turn := o.recover(receipt.TurnID)
		require.Nil(t, turn.Output)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
	})
	t.Run("nobody asks again", func(t *testing.T) {
		o := newOffice(t)
		o.broken, o.away = 1, agent.Errorf(agent.CodeUnavailable, "", "away")
		receipt, err := o.Submit(t.Context(), e)
		require.NoError(t, err)
		o.away = nil
		o.age(receipt.TurnID)
		turn := o.recover(receipt.TurnID)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
		require.Equal(t, agent.FallbackLost, turn.Record.Fallback)
		_, started := o.input(receipt.TurnID)
		require.True(t, started)
	})
}

// TestOverload: one turn too many is refused before anything happens, and says when to come again; a request whose turn exists joins it.
func TestOverload(t *testing.T) {
	capacity := admission.NewCapacity(1) // nothing begins so soon
	o := newOffice(t, func(_ *office, c *turns.InboxConfig) { c.Capacity = capacity })
	keyed := agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.IdempotencyKey = "k" })}
	first, err := o.Submit(t.Context(), keyed)
	require.NoError(t, err)
	for err == nil {
		_, err = capacity.Enter(t.Context())
	}
	places := o.places()
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		_, err = o.Submit(t.Context(), agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.TurnID, r.Mode = "t2", mode })})
		var refusal *agent.Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, agent.CodeUnavailable, refusal.Code)
		require.Positive(t, refusal.RetryAfter)
		require.Contains(t, agent.FailureOf(err).Message, "nothing was started")
	}
	const refusals = 1000
	began := time.Now()
	for range refusals {
		_, err = o.Submit(t.Context(), agent.Envelope{Request: hello(nil)})
		require.Error(t, err)
	}
	require.Less(t, time.Since(began), refusals*5*time.Millisecond, "a refusal is cheap")
	require.Equal(t, places, o.places())
	_, err = o.store.Turn(t.Context(), "t2")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	again, err := o.Submit(t.Context(), keyed)
	require.NoError(t, err)
	require.Equal(t, first.TurnID, again.TurnID)
	require.True(t, again.Joined)
}

// TestNextInLineKeepsTheHolder: a message that waits behind a turn that nobody drives starts that turn if it can go on, and does not end it.
func TestNextInLineKeepsTheHolder(t *testing.T) {
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		t.Run(string(mode), func(t *testing.T) {
			o := newOffice(t)
			record := agent.TurnRecord{TurnID: "holder", Tenant: "acme", SessionID: "s", Mode: mode, StartByID: true}
			_, err := o.store.Begin(t.Context(), record)
			require.NoError(t, err)
			o.age("holder")
			e := agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.TurnID, r.SessionID = "next", "s" })}
			_, err = o.Submit(t.Context(), e)
			require.NoError(t, err)
			begun, err := o.acts.Begin(t.Context(), e.Request, turns.BeginTurnInput{WorkflowID: "turn/next", RunID: "r", Again: true})
			require.NoError(t, err)
			require.Equal(t, turns.VerdictBehind, begun.Verdict)
			_, started := o.input("holder")
			require.True(t, started)
			holder, err := o.store.Turn(t.Context(), "holder")
			require.NoError(t, err)
			require.Nil(t, holder.Output)
		})
	}
}

func TestEndOrphan(t *testing.T) {
	o := newOffice(t)
	ended, err := o.acts.EndOrphan(t.Context(), "unheard-of")
	require.NoError(t, err)
	require.False(t, ended)
	r, err := o.Submit(t.Context(), agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.SessionID = "s" })})
	require.NoError(t, err)
	ended, err = o.acts.EndOrphan(t.Context(), r.TurnID)
	require.NoError(t, err)
	require.False(t, ended, "its workflow runs")
	_, err = o.acts.Finish(t.Context(), turns.StoreTurnInput{TurnID: r.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	ended, err = o.acts.EndOrphan(t.Context(), r.TurnID)
	require.NoError(t, err)
	require.True(t, ended)
}

// TestTerminatedTurnsHoldNoPlace: whoever comes next finds out that their workflow is gone.
func TestTerminatedTurnsHoldNoPlace(t *testing.T) {
	o := newOffice(t, bounded(t, 1))
	first, err := o.Submit(t.Context(), agent.Envelope{Request: hello(func(r *agent.TurnRequest) { r.SessionID = "s" })})
	require.NoError(t, err)
	o.mu.Lock()
	o.closed[first.TurnID.WorkflowID()] = true
	o.mu.Unlock()
	_, err = o.Submit(t.Context(), agent.Envelope{Request: hello(nil)})
	require.NoError(t, err)
	require.Equal(t, agent.StopTerminated, o.ended(first.TurnID).StopReason)
}
