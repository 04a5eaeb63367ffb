//go:build unix

package e2e_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// TestForgottenUpdates: what was asked of a turn is stored, the worker dies before Temporal knows that the update was accepted, and nobody
// asks again. The turn finds out by itself.
func TestForgottenUpdates(t *testing.T) {
	binary := build(t, "faults_effect_worker.go")
	t.Run("decision", func(t *testing.T) {
		t.Parallel()
		w, b, id := forgetDecision(t, binary)
		out, events := b.follow(t.Context(), id)
		require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
		require.Equal(t, worldAnswer, out.Output)
		require.Equal(t, 1, count(events, agent.EventApprovalResolved))
		_, effects, _ := w.seen()
		require.Equal(t, 1, effects["pay"])
		b.closed(id)
		b.replay("forgotten_decision", id.WorkflowID(), "")
	})
	t.Run("session", func(t *testing.T) { t.Parallel(); testForgottenSession(t, binary) })
}

// forgetDecision has a turn take a decision by a worker that is cut off from Temporal when it writes the decision, and killed when the
// decision is stored. Another worker takes over; the update is not sent again.
func forgetDecision(t *testing.T, binary string) (*world, *bench, agent.TurnID) {
	t.Helper()
	w := newWorld(t, "", "pay")
	b := newBench(t, w.model)
	toTemporal := newLine(t, b.set.Temporal.Address)
	first := b.spawn(binary, freeAddr(t), []string{"TURNSTONE_TEMPORAL_ADDRESS=" + toTemporal.Addr().String()}, w.server.URL)
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "book it", SessionID: "forgotten"})
	require.NoError(t, err)
	id := receipt.TurnID
	idle(b, id)
	page, err := b.client.Approvals(t.Context(), agent.ApprovalQuery{TurnID: id, State: "pending"})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 1)

	unlock := b.lock("approvals")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = b.Temporal().UpdateWorkflow(ctx, client.UpdateWorkflowOptions{ // it has no answer
			WorkflowID: id.WorkflowID(), UpdateName: workflows.UpdateDecide, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{agent.Decision{ApprovalID: page.Approvals[0].ApprovalID, Decision: agent.DecisionApprove, By: "ops"}},
		})
	}()
	b.awaitWriter("approvals")
	toTemporal.cut()
	leave()
	<-left
	unlock()
	conn := b.connect()
	require.Eventually(t, func() bool {
		var there bool
		err := conn.QueryRow(t.Context(), "SELECT decision IS NOT NULL FROM approvals WHERE turn_id = $1", string(id)).Scan(&there)
		return err == nil && there
	}, 30*time.Second, 10*time.Millisecond, "stored")
	first.end(syscall.SIGKILL)
	b.spawn(binary, freeAddr(t), nil, w.server.URL)
	return w, b, id
}

// testForgottenSession: a session is released and the next turn is its holder, but nobody tells that turn.
func testForgottenSession(t *testing.T, binary string) {
	w := newWorld(t, "", "pay")
	b := newBench(t, w.model)
	worker := b.spawn(binary, freeAddr(t), nil, w.server.URL)
	holder, err := worker.door.Start(t.Context(), agent.TurnRequest{Message: "book it", SessionID: "handed"})
	require.NoError(t, err)
	idle(b, holder.TurnID)
	next, err := worker.door.Start(t.Context(), agent.TurnRequest{Message: thanks, SessionID: "handed", OnBusy: agent.OnBusyQueue})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		v, err := b.Temporal().QueryWorkflow(t.Context(), next.TurnID.WorkflowID(), "", workflows.QueryState)
		var view workflows.TurnView
		return err == nil && v.Get(&view) == nil && view.Status == "queued"
	}, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, b.Temporal().TerminateWorkflow(t.Context(), holder.TurnID.WorkflowID(), "", "test"))
	conn := b.connect()
	for _, sql := range []string{
		"UPDATE sessions SET holder = $2 WHERE holder = $1",
		"UPDATE turns SET state = CASE turn_id WHEN $1 THEN 'failed' ELSE 'running' END, held_at = now() WHERE turn_id IN ($1, $2)",
	} {
		_, err := conn.Exec(t.Context(), sql, string(holder.TurnID), string(next.TurnID))
		require.NoError(t, err)
	}
	out, _ := b.follow(t.Context(), next.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, worldNext, out.Output)
}
