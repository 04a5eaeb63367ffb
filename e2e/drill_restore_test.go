//go:build unix

package e2e_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// drillRestore restores PostgreSQL from an old dump: Temporal knows turns that the database does not. It has one of each kind that
// docs/guides/operations.md names.
func drillRestore(t *testing.T, binary string, _ int) {
	server := startPostgres(t, postgresHome(t))
	execute(t, server.DSN(), "CREATE DATABASE turnstone")
	database := server.DSNFor("turnstone")
	s := newSite(t, binary, 1, func(c *siteConfig) {
		c.postgres, c.database, c.env = server, database, []string{"TURNSTONE_SHUTDOWN_TIMEOUT=8s"}
	})
	e := &errands{site: s}
	releaseRunning, releaseEnded, releaseLate := s.outside.hold("running"), s.outside.hold("ended"), s.outside.hold("late-running")

	completed := e.submit("completed", "", "book")
	require.NoError(t, e.view(t.Context(), completed))
	waiting := e.submit("waiting", "", "pay")
	s.awaitEvent(waiting.receipt.TurnID, agent.EventApprovalRequested)
	running := e.submit("running", "busy")
	s.awaitText(running.receipt.TurnID, "running")
	behind := e.submit("behind", "busy")
	ended := e.submit("ended", "")
	s.awaitText(ended.receipt.TurnID, "ended")

	dump := filepath.Join(t.TempDir(), "turnstone.dump")
	runProgram(t, postgresProgram(t, "pg_dump"), "--format=custom", "--no-owner", "--file="+dump, database)

	releaseEnded()
	require.NoError(t, e.view(t.Context(), ended))
	lateCompleted := e.submit("late-completed", "", "book")
	require.NoError(t, e.view(t.Context(), lateCompleted))
	lateWaiting := e.submit("late-waiting", "", "pay")
	s.awaitEvent(lateWaiting.receipt.TurnID, agent.EventApprovalRequested)
	lateRunning := e.submit("late-running", "late")
	s.awaitText(lateRunning.receipt.TurnID, "late-running")
	lateBehind := e.submit("late-behind", "late")

	s.stopWorkers()
	execute(t, server.DSN(), "DROP DATABASE turnstone WITH (FORCE)")
	execute(t, server.DSN(), "CREATE DATABASE turnstone")
	runProgram(t, postgresProgram(t, "pg_restore"), "--exit-on-error", "--no-owner", "--single-transaction", "--dbname="+database, dump)
	releaseRunning()
	releaseLate()
	s.replaceWorker(0, syscall.SIGKILL)
	s.workers[0].awaitReady()

	for _, known := range []*errand{completed, waiting, running, behind} {
		known.events = nil // the log begins anew behind the dump
		known.fault = e.view(t.Context(), known)
		require.NoError(t, e.fault(known), "%s, known to the dump", known.name)
	}
	// It ran when the dump was made and ended before the restore: nobody drives it, and whoever asks for it ends it.
	view, err := s.client.Turn(t.Context(), ended.receipt.TurnID)
	require.NoError(t, err)
	require.NotNil(t, view.Output, "%s: %s", ended.name, view.State)
	require.Equal(t, agent.StopTerminated, view.Output.StopReason)
	_, err = s.client.Turn(t.Context(), lateCompleted.receipt.TurnID)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
	calls, _ := s.outside.taken("book", lateCompleted.name)
	require.Equal(t, 1, calls, "its effect has happened")
	err = s.client.Cancel(t.Context(), lateWaiting.receipt.TurnID, agent.CancelRequest{By: "ops"})
	t.Logf("cancelling the turn that waits for a person and has no record: %v", err)
	for _, late := range []*errand{lateWaiting, lateRunning, lateBehind} {
		d := s.awaitClosed(late.receipt.TurnID.WorkflowID())
		t.Logf("%s: %s", late.name, d)
	}
	s.verifyStored()
	s.awaitIdle("AgentTurn")
}

// submit starts one turn in a session; without one it has a session of its own.
func (e *errands) submit(name string, session agent.SessionID, tools ...string) *errand {
	e.t.Helper()
	if session == "" {
		session = agent.SessionID(name)
	}
	next := &errand{name: name, session: session, tools: tools}
	require.NoError(e.t, e.accept(e.t.Context(), next), name)
	return next
}

// awaitClosed waits until a workflow has ended and returns how.
func (s *site) awaitClosed(workflowID string) string {
	s.t.Helper()
	c := s.dialTemporal()
	var status string
	require.Eventually(s.t, func() bool {
		d, err := c.DescribeWorkflowExecution(s.t.Context(), workflowID, "")
		status = d.GetWorkflowExecutionInfo().GetStatus().String()
		return err == nil && d.GetWorkflowExecutionInfo().GetCloseTime() != nil
	}, stalled, 100*time.Millisecond, "%s ends", workflowID)
	return status
}
