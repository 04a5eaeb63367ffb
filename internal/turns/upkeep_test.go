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

// ageTurn makes a turn so old that it counts as abandoned.
func (o *inboxHarness) ageTurn(id agent.TurnID) {
	o.t.Helper()
	_, err := o.pool.Exec(o.t.Context(), `UPDATE turns SET created_at = created_at - interval '1 minute', held_at = held_at - interval '1 minute',
		lease_until = lease_until - interval '1 minute' WHERE turn_id = $1`, id)
	require.NoError(o.t, err)
}

// startStranded runs upkeep once and returns the turn.
func (o *inboxHarness) startStranded(id agent.TurnID) agent.TurnState {
	o.t.Helper()
	require.NoError(o.t, o.StartStranded(o.t.Context()))
	return o.turn(id)
}

// TestUnknownStart: a recorded turn is accepted, even if its start fails. Upkeep starts it, and a repeated request joins it.
func TestUnknownStart(t *testing.T) {
	away := agent.Errorf(agent.CodeUnavailable, "", "dial tcp 10.0.0.7:7233: connection refused")
	for name, c := range map[string]struct {
		session agent.SessionID
		fault   func(o *inboxHarness)
		started bool // although the call fails
	}{
		"Temporal is away":               {"", func(o *inboxHarness) { o.temporalErr = away }, false},
		"Temporal is away, in a session": {"s", func(o *inboxHarness) { o.temporalErr = away }, false},
		"Temporal has too much to do":    {"", func(o *inboxHarness) { o.temporalErr = agent.Errorf(agent.CodeRateLimited, "", "busy") }, false},
		"the answer is lost":             {"", func(o *inboxHarness) { o.startErr = agent.Errorf(agent.CodeUnavailable, "", "late") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newInboxHarness(t)
			c.fault(o)
			e := agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey, r.SessionID = "k", c.session })}
			receipt := o.submit(e)
			require.True(t, receipt.StartUnknown)
			id := receipt.TurnID
			turn, err := o.store.Turn(t.Context(), id)
			require.NoError(t, err, "what is recorded can be read")
			require.Nil(t, turn.Output)

			o.temporalErr, o.startErr = nil, nil
			require.Nil(t, o.startStranded(id).Output)
			_, started := o.input(id)
			require.Equal(t, c.started, started, "its start may be under way")
			o.ageTurn(id)
			require.Nil(t, o.startStranded(id).Output)
			request, started := o.input(id)
			require.True(t, started)
			require.Empty(t, request.Message, "the turn is started by its id")
			again := o.submit(e)
			require.True(t, again.Joined)
			require.False(t, again.StartUnknown)
			require.Len(t, o.started, 1)
		})
	}
}

// TestUnknownRecord: an error means that nothing was recorded. If the outcome is unknown, the turn is accepted.
func TestUnknownRecord(t *testing.T) {
	lost := &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("%w: connection lost", agent.ErrOutcomeUnknown)}
	away := agent.Errorf(agent.CodeUnavailable, "begin turn", "no connection")
	for name, c := range map[string]struct {
		beginErrs         []error
		refused, accepted bool // accepted, because the outcome is unknown
	}{
		"the database is away":                    {[]error{away}, true, false},
		"the answer is lost":                      {[]error{lost}, false, false},
		"the answer is lost, and then it is away": {[]error{lost, away}, false, true},
		"both answers are lost":                   {[]error{lost, lost}, false, true},
	} {
		for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				o := newInboxHarness(t)
				o.beginErrs = c.beginErrs
				receipt, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.TurnID, r.Mode = "t1", mode })})
				require.Equal(t, c.refused, err != nil, "%v", err)
				require.Equal(t, c.accepted, receipt.StartUnknown)
				_, err = o.store.Turn(t.Context(), "t1")
				require.Equal(t, c.refused, agent.CodeOf(err) == agent.CodeNotFound)
				if c.refused {
					require.Empty(t, o.started)
					return
				}
				o.ageTurn("t1")
				o.startStranded("t1")
				_, started := o.input("t1")
				require.True(t, started)
			})
		}
	}
}

// TestRefusedStart: if Temporal refuses to start a turn, the turn has ended when the caller gets the error.
func TestRefusedStart(t *testing.T) {
	o := newInboxHarness(t)
	o.temporalErr = agent.Errorf(agent.CodeDenied, "", "no")
	_, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.TurnID = "t1" })})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Equal(t, agent.StopTerminated, o.waitForResult("t1").StopReason)
}

// TestTurnsOfWorkflowsAreTheirs: upkeep does not start a turn that a workflow has recorded.
func TestTurnsOfWorkflowsAreTheirs(t *testing.T) {
	o := newInboxHarness(t)
	req := helloRequest(func(r *agent.TurnRequest) { r.TurnID = "t1" })
	_, err := o.acts.Begin(t.Context(), req, turns.BeginTurnInput{WorkflowID: "turn/t1"})
	require.NoError(t, err)
	o.ageTurn("t1")
	require.Nil(t, o.startStranded("t1").Output)
	require.Empty(t, o.started)
}

// TestDirectTurnThatDidNotBegin: a direct turn that is recorded and fails before it runs becomes durable, at once or when its lease
// expires, and a repeated request joins it.
func TestDirectTurnThatDidNotBegin(t *testing.T) {
	e := agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey, r.Mode = "k", agent.ModeDirect })}
	t.Run("the log failed", func(t *testing.T) {
		o := newInboxHarness(t)
		o.failingWrites = 1
		receipt := o.submit(e)
		_, started := o.input(receipt.TurnID)
		require.True(t, started)
		turn := o.turn(receipt.TurnID)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
		require.Equal(t, agent.FallbackTrouble, turn.Record.Fallback)
	})
	t.Run("and Temporal too", func(t *testing.T) {
		o := newInboxHarness(t)
		o.failingWrites, o.temporalErr = 1, agent.Errorf(agent.CodeUnavailable, "", "away")
		receipt := o.submit(e)
		require.True(t, receipt.StartUnknown)
		o.temporalErr = nil
		o.ageTurn(receipt.TurnID)
		again := o.submit(e)
		require.Equal(t, receipt.TurnID, again.TurnID)
		_, started := o.input(receipt.TurnID)
		require.True(t, started, "the repeated request starts it")
		turn := o.startStranded(receipt.TurnID)
		require.Nil(t, turn.Output)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
	})
	t.Run("nobody asks again", func(t *testing.T) {
		o := newInboxHarness(t)
		o.failingWrites, o.temporalErr = 1, agent.Errorf(agent.CodeUnavailable, "", "away")
		receipt := o.submit(e)
		o.temporalErr = nil
		o.ageTurn(receipt.TurnID)
		turn := o.startStranded(receipt.TurnID)
		require.Equal(t, agent.ModeDurable, turn.Record.Mode)
		require.Equal(t, agent.FallbackLost, turn.Record.Fallback)
		_, started := o.input(receipt.TurnID)
		require.True(t, started)
	})
}

// TestOverload: without capacity, a new turn is refused with a time to retry, and a request whose turn exists joins it.
func TestOverload(t *testing.T) {
	capacity := admission.NewCapacity(1) // turns do not begin meanwhile
	o := newInboxHarness(t, func(_ *inboxHarness, c *turns.InboxConfig) { c.Capacity = capacity })
	keyed := agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey = "k" })}
	first := o.submit(keyed)
	var err error
	for err == nil {
		_, err = capacity.Enter(t.Context())
	}
	places := o.places()
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		_, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.TurnID, r.Mode = "t2", mode })})
		var refusal *agent.Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, agent.CodeUnavailable, refusal.Code)
		require.Positive(t, refusal.RetryAfter)
		require.Contains(t, agent.FailureOf(err).Message, "nothing was started")
	}
	const refusals = 1000
	began := time.Now()
	for range refusals {
		_, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(nil)})
		require.Error(t, err)
	}
	require.Less(t, time.Since(began), refusals*5*time.Millisecond, "a refusal does not read the store")
	require.Equal(t, places, o.places())
	_, err = o.store.Turn(t.Context(), "t2")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	again := o.submit(keyed)
	require.Equal(t, first.TurnID, again.TurnID)
	require.True(t, again.Joined)
}

// TestNextInLineKeepsTheHolder: a message that waits behind an abandoned turn starts that turn if it can run, and does not end it.
func TestNextInLineKeepsTheHolder(t *testing.T) {
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		t.Run(string(mode), func(t *testing.T) {
			o := newInboxHarness(t)
			record := agent.TurnRecord{TurnID: "holder", Tenant: "acme", SessionID: "s", Mode: mode, StartByID: true}
			_, err := o.store.Begin(t.Context(), record)
			require.NoError(t, err)
			o.ageTurn("holder")
			e := agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.TurnID, r.SessionID = "next", "s" })}
			o.submit(e)
			begun, err := o.acts.Begin(t.Context(), e.Request, turns.BeginTurnInput{WorkflowID: "turn/next", RunID: "r", Again: true})
			require.NoError(t, err)
			require.Equal(t, turns.VerdictBehind, begun.Verdict)
			_, started := o.input("holder")
			require.True(t, started)
			holder := o.turn("holder")
			require.Nil(t, holder.Output)
		})
	}
}

func TestEndOrphan(t *testing.T) {
	o := newInboxHarness(t)
	ended, err := o.acts.EndOrphan(t.Context(), "unheard-of")
	require.NoError(t, err)
	require.False(t, ended)
	r := o.submit(agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.SessionID = "s" })})
	ended, err = o.acts.EndOrphan(t.Context(), r.TurnID)
	require.NoError(t, err)
	require.False(t, ended, "its workflow runs")
	_, err = o.acts.Finish(t.Context(), turns.StoreTurnInput{TurnID: r.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	ended, err = o.acts.EndOrphan(t.Context(), r.TurnID)
	require.NoError(t, err)
	require.True(t, ended)
}

// TestTerminatedTurnsHoldNoPlace: the next request finds out that the workflow of a turn is gone, and gets its place.
func TestTerminatedTurnsHoldNoPlace(t *testing.T) {
	o := newInboxHarness(t, bounded(t, 1))
	first := o.submit(agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.SessionID = "s" })})
	o.mu.Lock()
	o.closed[first.TurnID.WorkflowID()] = true
	o.mu.Unlock()
	o.submit(agent.Envelope{Request: helloRequest(nil)})
	require.Equal(t, agent.StopTerminated, o.waitForResult(first.TurnID).StopReason)
}
