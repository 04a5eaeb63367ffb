package e2e_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// forgottenUpdate is a change of a turn that the store has and that its workflow was never told.
type forgottenUpdate struct {
	queued bool // the turn waits for its session; else for a person
	record func(b *storeBench, id, holder agent.TurnID)
	signal string // that upkeep sends
	status agent.TurnStatus
	calls  int // of the tool

	found, signalled string // names of the histories to keep for replay; "": none
}

func forgottenUpdates() map[string]forgottenUpdate {
	return map[string]forgottenUpdate{
		"decision": {
			record: (*storeBench).approve, signal: workflows.UpdateDecide, status: agent.TurnCompleted, calls: 1,
			found: "decision_found", signalled: "decision_signalled",
		},
		"cancel": {
			record: (*storeBench).cancel, signal: workflows.UpdateCancel, status: agent.TurnCancelled, found: "cancel_found",
		},
		"cancel in the queue": {
			queued: true, record: (*storeBench).cancel, signal: workflows.UpdateCancel, status: agent.TurnCancelled,
			found: "queued_cancel_found",
		},
		"released session": {
			queued: true, record: (*storeBench).release, signal: workflows.SignalReady, status: agent.TurnCompleted,
			found: "session_found",
		},
	}
}

// TestForgottenUpdates writes to the store what the handler of an update writes there, and sends the workflow nothing. That is what is left
// when a worker dies after the write and Temporal forgets the update. The turn goes on because it looks into the store. If its next look is
// a while off, it goes on because upkeep signals it.
func TestForgottenUpdates(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		if strings.Contains(x.Body, thankYou) {
			turnstonetest.Say("you are welcome")(x)
			return
		}
		notesThenAnswers(x.Body)(x)
	})
	b := newStoreBench(t, provider.Use)
	var all sync.WaitGroup // they mostly wait: all run at once
	defer all.Wait()
	run := func(name string, test func(b *storeBench, c forgottenUpdate), c forgottenUpdate) {
		all.Go(func() { t.Run(name, func(t *testing.T) { test(b.with(t), c) }) })
	}
	for name, c := range forgottenUpdates() {
		run(name+" found by the turn", testFoundByTurn, c)
		run(name+" signalled by upkeep", testSignalledByUpkeep, c)
	}
}

// testFoundByTurn keeps upkeep from helping: it signals only turns whose workflow id is recorded.
func testFoundByTurn(b *storeBench, c forgottenUpdate) {
	id, holder := b.startWaiting(c.queued)
	b.awaitTimers(id, 1)
	b.exec("UPDATE turns SET workflow_id = '' WHERE turn_id = $1", id)
	c.record(b, id, holder)
	require.Empty(b.t, b.awaitEnd(id, c, c.found))
}

// testSignalledByUpkeep records the change right after the turn has looked. It looks again after a minute, and upkeep comes within 45 s.
func testSignalledByUpkeep(b *storeBench, c forgottenUpdate) {
	id, holder := b.startWaiting(c.queued)
	b.awaitTimers(id, 2)
	c.record(b, id, holder)
	// Upkeep leaves changes alone that are less than 15 s old.
	b.exec("UPDATE approvals SET decided_at = decided_at - interval '1 minute' WHERE turn_id = $1", id)
	b.exec("UPDATE turns SET held_at = held_at - interval '1 minute' WHERE turn_id = $1", id)
	require.Equal(b.t, []string{c.signal}, b.awaitEnd(id, c, c.signalled))
}

// storeBench is a service and its store. The service's one tool waits for a person.
type storeBench struct {
	*system
	noted *effects
	pool  *pgxpool.Pool
	store *postgres.Store
	log   *pgstream.Log
}

func newStoreBench(t *testing.T, model func(*app.Config)) *storeBench {
	t.Helper()
	b := &storeBench{noted: &effects{calls: map[agent.TurnID]int{}}}
	set := turnstonetest.Settings(t, model)
	b.system = startService(t, turnstone.Config{Settings: set, Toolkits: []agent.Toolkit{guardedEffects{b.noted}}})
	var err error
	b.pool, err = postgres.Open(t.Context(), postgres.Config{URL: set.Database.URL.Reveal()})
	require.NoError(t, err)
	t.Cleanup(b.pool.Close)
	b.store = postgres.NewStore(b.pool, postgres.Config{})
	b.log, err = pgstream.New(t.Context(), pgstream.Config{Pool: b.pool})
	require.NoError(t, err)
	t.Cleanup(b.log.Stop)
	return b
}

// with returns the bench for a subtest.
func (b *storeBench) with(t *testing.T) *storeBench {
	c := *b
	c.system = &system{Stack: b.Stack, t: t, set: b.set, client: b.client}
	return &c
}

// thankYou is the message that is answered without a tool call.
const thankYou = "thank you"

// startWaiting starts a turn that waits for a person. With queued it returns a turn that waits behind that one.
func (b *storeBench) startWaiting(queued bool) (id, holder agent.TurnID) {
	b.t.Helper()
	session := agent.SessionID(strings.ReplaceAll(b.t.Name(), "/", "-"))
	receipt, err := b.client.Start(b.t.Context(), agent.TurnRequest{Message: "note it", SessionID: session})
	require.NoError(b.t, err)
	holder = receipt.TurnID
	b.pending(holder)
	if !queued {
		return holder, holder
	}
	receipt, err = b.client.Start(b.t.Context(), agent.TurnRequest{Message: thankYou, SessionID: session, OnBusy: agent.OnBusyQueue})
	require.NoError(b.t, err)
	return receipt.TurnID, holder
}

// awaitTimers waits until a turn has started n timers. It starts one before each look into the store.
func (b *storeBench) awaitTimers(id agent.TurnID, n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		started := 0
		for _, e := range b.history(id.WorkflowID(), "").GetEvents() {
			if e.GetTimerStartedEventAttributes() != nil {
				started++
			}
		}
		return started >= n
	}, time.Minute, 250*time.Millisecond, "timer %d of the turn", n)
}

// awaitEnd waits for the end of a turn, checks it, and returns the signals that its workflow received.
func (b *storeBench) awaitEnd(id agent.TurnID, c forgottenUpdate, record string) (signals []string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	out, events := b.follow(ctx, id)
	require.Equal(b.t, c.status, out.Status, "%+v", out.Error)
	require.Equal(b.t, c.calls, b.noted.callCount(id), "tool calls that ran")
	require.Equal(b.t, c.calls, count(events, agent.EventApprovalResolved))
	b.closed(id)
	for _, e := range b.replay(record, id.WorkflowID(), "").GetEvents() {
		require.Nil(b.t, e.GetWorkflowExecutionUpdateAcceptedEventAttributes(), "nobody sent an update")
		if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal != nil {
			signals = append(signals, signal.GetSignalName())
		}
	}
	return signals
}

func (b *storeBench) approve(id, _ agent.TurnID) {
	b.t.Helper()
	_, err := b.store.ResolveApproval(b.t.Context(), id, agent.Decision{
		ApprovalID: b.pending(id).ApprovalID, Decision: agent.DecisionApprove, By: "ops",
	})
	require.NoError(b.t, err)
}

func (b *storeBench) cancel(id, _ agent.TurnID) {
	b.t.Helper()
	require.NoError(b.t, b.log.Cancel(b.t.Context(), string(id)))
}

// release ends the holder of a session. The store hands the session to the next turn.
func (b *storeBench) release(id, holder agent.TurnID) {
	b.t.Helper()
	held, err := b.store.Turn(b.t.Context(), holder)
	require.NoError(b.t, err)
	done, err := b.store.Finish(b.t.Context(), agent.FinishRecord{
		TurnID: holder, Tenant: held.Record.Tenant, SessionID: held.Record.SessionID,
		Output: agent.AgentStepOutput{TurnID: holder, Status: agent.TurnFailed, StopReason: agent.StopTerminated},
		Events: []agent.Event{{Type: agent.EventStatus, Status: agent.StatusFailed}},
	})
	require.NoError(b.t, err)
	require.Equal(b.t, id, done.Next)
	require.NoError(b.t, b.Temporal().TerminateWorkflow(b.t.Context(), holder.WorkflowID(), "", "test"))
}

func (b *storeBench) exec(sql string, id agent.TurnID) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, id)
	require.NoError(b.t, err)
}

// guardedEffects is effects with a tool that waits for a person.
type guardedEffects struct{ *effects }

func (g guardedEffects) Tools() []agent.Tool { return []agent.Tool{g} }

func (g guardedEffects) Spec() agent.ToolSpec {
	spec := g.effects.Spec()
	spec.InherentlySafe = false
	return spec
}
