//go:build unix

package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// upgradeFrom is the commit whose worker begins what this checkout's worker ends. TURNSTONE_DRILL_FROM names another.
const upgradeFrom = "b594d70"

// drillUpgrade replaces workers of an earlier commit one after the other, as docs/guides/operations.md says, while turns run, a schedule fires, and a process, a
// conversation, approvals and a session's queue wait. All of it goes on and ends.
func drillUpgrade(t *testing.T, binary string, load int) {
	from := cmp.Or(os.Getenv("TURNSTONE_DRILL_FROM"), upgradeFrom)
	s := newSite(t, buildAt(t, from), 2)
	temporal := s.dialTemporal()
	ctx := t.Context()
	_, err := s.client.CreateSchedule(ctx, &agent.Schedule{Name: "often", Message: "errand scheduled", Cron: []string{"*/5 * * * * * *"}})
	require.NoError(t, err)
	start := func(id, kind, input string) {
		_, err := temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{ID: id, TaskQueue: s.set.Temporal.TaskQueue}, kind, json.RawMessage(input))
		require.NoError(t, err)
	}
	update := func(id, name, input string) error {
		handle, err := temporal.UpdateWorkflow(ctx, temporalclient.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: name, Args: []any{json.RawMessage(input)}, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return handle.Get(ctx, nil)
	}
	start("process", workflows.IntelligentProcessType, `{"steps":[{"name":"one","message":"errand process-1 pay"},
		{"name":"two","message":"errand process-2","needs_approval":true,"question":"Go on?"}]}`)
	talk := workflows.ConversationID("default", "talk")
	start(talk, workflows.ConversationType, `{"session_id":"talk","idle_timeout":"1h"}`)
	require.NoError(t, update(talk, "message", `{"message":"errand talk-1 pay"}`))
	require.NoError(t, update(talk, "message", `{"message":"errand talk-2"}`))
	waiting := &errands{site: s}
	var all []*errand
	for i := range 5 {
		all = append(all, waiting.submit(fmt.Sprintf("waiting-%d", i), "", "pay", "look"))
	}
	all = append(all, waiting.submit("line-holder", "line", "pay"))
	for i := range 10 {
		all = append(all, waiting.submit(fmt.Sprintf("line-%d", i), "line"))
	}
	s.awaitApprovals(8)

	e := s.begin(load)
	e.awaitDone(load / 4)
	s.binary = binary
	for i := range s.workers {
		s.replaceWorker(i, syscall.SIGTERM)
		s.workers[i].awaitReady()
		e.awaitDone((i + 2) * load / 4)
	}
	upgraded := time.Now()

	for _, next := range all {
		next.fault = waiting.view(ctx, next) // which approves
		require.NoError(t, e.fault(next), next.name)
	}
	require.Eventually(t, func() bool {
		s.approveAll()
		return update("process", "answer", `{"question":"two","choice":"approve","by":"ops"}`) == nil
	}, stalled, 200*time.Millisecond, "the process asks between its steps")
	var process workflows.IntelligentProcessResult
	require.NoError(t, temporal.GetWorkflow(ctx, "process", "").Get(ctx, &process))
	require.Equal(t, workflows.IntelligentCompleted, process.Status, "%+v", process.Error)
	require.NoError(t, temporal.SignalWorkflow(ctx, talk, "", workflows.SignalClose, nil))
	var said workflows.ConversationResult
	require.NoError(t, temporal.GetWorkflow(ctx, talk, "").Get(ctx, &said))
	require.Equal(t, 2, said.Turns, "%+v", said)

	runs := 0
	require.Eventually(t, func() bool {
		page, err := s.client.ScheduleRuns(ctx, "often", agent.Page{Size: 100})
		runs = 0
		for i := range page.Runs {
			if r := &page.Runs[i]; r.EndedAt != nil && r.EndedAt.After(upgraded) && r.Status == string(agent.TurnCompleted) {
				runs++
			}
		}
		return err == nil && runs >= 2
	}, time.Minute, 100*time.Millisecond, "the schedule goes on")
	require.NoError(t, s.client.DeleteSchedule(ctx, "often"))
	e.awaitDone(load)
	e.finished.Wait()
	require.Empty(t, e.faults(), "%s", e)
	for _, kind := range []string{"ScheduledRun", workflows.ConversationType, workflows.IntelligentProcessType, "AgentTurn"} {
		s.awaitIdle(kind)
	}
	s.verifyStored()
	t.Logf("upgraded from %s; %s", from, e)
}

// awaitApprovals waits until so many approvals wait for a person.
func (s *site) awaitApprovals(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page, err := s.client.Approvals(s.t.Context(), agent.ApprovalQuery{State: "pending", Limit: 500})
		return err == nil && len(page.Approvals) >= n
	}, time.Minute, 50*time.Millisecond, "%d approvals wait", n)
}

// approveAll approves whatever waits for a person now.
func (s *site) approveAll() {
	page, err := s.client.Approvals(s.t.Context(), agent.ApprovalQuery{State: "pending", Limit: 500})
	if err != nil {
		return // the caller comes again
	}
	for i := range page.Approvals {
		a := &page.Approvals[i]
		_ = s.client.Decide(s.t.Context(), a.TurnID, agent.Decision{ApprovalID: a.ApprovalID, Decision: agent.DecisionApprove, By: "ops"}) // as above
	}
}

// buildAt builds the worker of another commit.
func buildAt(t *testing.T, commit string) string {
	t.Helper()
	source := t.TempDir()
	archive := filepath.Join(t.TempDir(), "source.tar")
	runProgram(t, "git", "-C", "..", "archive", "--output="+archive, commit)
	runProgram(t, "tar", "-x", "-f", archive, "-C", source)
	binary := filepath.Join(t.TempDir(), "worker-"+commit)
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "faults_effect_worker.go")
	cmd.Dir = filepath.Join(source, "e2e")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
