package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// priceDrop is a call of patch_workflow that adds a condition and an e-mail to a workflow.
const priceDrop = `{"workflow_tag":"main","patch_spec":{"operations":[` +
	`{"op":"add","path":"/nodes/-","value":{"id":"price_check","type":"condition","expr":"price < 500"}},` +
	`{"op":"add","path":"/nodes/-","value":{"id":"send_email","type":"task","config":{"action":"email","subject":"Price drop!"}}},` +
	`{"op":"add","path":"/edges/-","value":{"from":"fetch_flights","to":"price_check"}},` +
	`{"op":"add","path":"/edges/-","value":{"from":"price_check","to":"send_email","condition":"true"}}],` +
	`"description":"Add price drop email notification"}}`

// annsMain is the workflow that the tests change.
var annsMain = agent.WorkflowKey{Owner: "ann", Tag: "main"}

// mails makes a sink the mail server of a configuration.
func mails(sink *smtpSink) func(*app.Config) {
	return func(c *app.Config) {
		c.Workflows.SMTP = app.SMTP{Addr: sink.addr, From: "runs@example.com", To: []string{"ops@example.com"}, TLS: "none"}
	}
}

// ran waits for the end of a run and replays it.
func (s *system) ran(door *client.Client, receipt client.RunReceipt) agent.Run {
	s.t.Helper()
	var result agent.RunResult
	require.NoError(s.t, s.Temporal().GetWorkflow(s.t.Context(), receipt.WorkflowID, "").Get(s.t.Context(), &result))
	s.replay("", receipt.WorkflowID, "")
	run, err := door.Run(s.t.Context(), receipt.RunID)
	require.NoError(s.t, err)
	require.Equal(s.t, result.Status, run.Status)
	require.Equal(s.t, result.Version, run.Version)
	require.NotNil(s.t, run.FinishedAt)
	return run
}

// visited are the nodes of a run with how they ended, as "fetch completed".
func visited(run *agent.Run) []string {
	var out []string
	for _, step := range run.Steps {
		out = append(out, step.NodeID+" "+string(step.Status))
	}
	return out
}

// TestPatchTakesEffect: a model changes a workflow, a person agrees, and the next run sends the mail.
// The run that began before keeps its version, and the change can be taken back.
func TestPatchTakesEffect(t *testing.T) {
	t.Parallel()
	patched := make(chan struct{})
	var fetches, told, toldElse atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/told":
			told.Add(1)
			return
		case "/told-else":
			toldElse.Add(1)
			return
		}
		if fetches.Add(1) == 1 { // the run that began before the patch does not get further than this
			select {
			case <-patched:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `[{"flight":"AA1","price":450},{"flight":"BB2","price":700}]`)
	}))
	t.Cleanup(api.Close)
	sink := startSMTPSink(t)
	provider := turnstonetest.NewModel(t, turnstonetest.Call("patch_workflow", priceDrop), turnstonetest.Say("You will get a mail."))
	s := start(t, provider.Use, mails(sink), reach(api), nothingRemembered)
	ctx := t.Context()

	definition := `{"nodes":[{"id":"pause","type":"timer","config":{"duration":"1s"}},` +
		`{"id":"fetch_flights","type":"task","config":{"action":"pipeline","pipeline":[{"step":"http_request","url":"` + api.URL + `/flights"}]}},` +
		`{"id":"tell","type":"task","config":{"action":"webhook","url":"` + api.URL + `/told"}}],` +
		`"edges":[{"from":"pause","to":"fetch_flights"},{"from":"fetch_flights","to":"tell"}]}`
	put, err := s.client.PutWorkflow(ctx, client.WorkflowPut{WorkflowKey: annsMain, Definition: json.RawMessage(definition), By: "ann"})
	require.NoError(t, err)
	require.EqualValues(t, 1, put.Version)
	old, err := s.client.StartRun(ctx, agent.RunRequest{Owner: "ann", Tag: "main"}, "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // it has begun, with version 1
		run, err := s.client.Run(ctx, old.RunID)
		return err == nil && run.Version == 1
	}, 30*time.Second, 20*time.Millisecond)

	receipt, err := s.client.Start(ctx, agent.TurnRequest{
		Message: "add email notification whenever price drops below $500", SessionID: "patch", Context: agent.InvocationContext{UserID: "ann"},
	})
	require.NoError(t, err)
	approval := s.pending(receipt.TurnID)
	require.Equal(t, "patch_workflow", approval.ToolName)
	history, err := s.client.WorkflowPatches(ctx, annsMain, agent.Page{})
	require.NoError(t, err)
	require.Len(t, history.Patches, 1, "nothing is changed before a person agrees")
	decision := agent.Decision{ApprovalID: approval.ApprovalID, Decision: agent.DecisionApprove, By: "ops"}
	require.NoError(t, s.client.Decide(ctx, receipt.TurnID, decision))
	require.Error(t, s.client.Decide(ctx, receipt.TurnID, agent.Decision{
		ApprovalID: approval.ApprovalID, Decision: agent.DecisionReject, By: "bob",
	}), "it is decided")
	out, events := s.follow(ctx, receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, "success", out.ToolCalls[0].Status, toolOutput(events))
	var answer agent.WorkflowPatchResult
	require.NoError(t, json.Unmarshal([]byte(toolOutput(events)), &answer))
	require.NotEmpty(t, answer.PatchID)
	require.EqualValues(t, 2, answer.Version)
	require.Contains(t, provider.Requests()[1].Body, answer.PatchID, "the model is told")
	s.closed(receipt.TurnID)
	s.replay("", receipt.TurnID.WorkflowID(), "")

	moved, err := s.client.PatchWorkflow(ctx, agent.WorkflowPatchRequest{
		WorkflowKey: annsMain, Operations: json.RawMessage(`[{"op":"replace","path":"/nodes/2/config/url","value":"` + api.URL + `/told-else"}]`),
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, moved.Version)
	close(patched)
	first := s.ran(s.client, old)
	require.Equal(t, agent.RunCompleted, first.Status, "%+v", first.Error)
	require.EqualValues(t, 1, first.Version, "it keeps the version that it began with")
	require.Equal(t, []string{"pause completed", "fetch_flights completed", "tell completed"}, visited(&first))
	require.EqualValues(t, 1, told.Load())
	require.Zero(t, toldElse.Load(), "also in what its nodes are told to do")
	require.Empty(t, sink.taken())

	run := func() agent.Run {
		receipt, err := s.client.StartRun(ctx, agent.RunRequest{Owner: "ann", Tag: "main"}, "")
		require.NoError(t, err)
		ended := s.ran(s.client, receipt)
		require.Equal(t, agent.RunCompleted, ended.Status, "%+v", ended.Error)
		return ended
	}
	second := run()
	require.EqualValues(t, 3, second.Version)
	require.ElementsMatch(t, []string{
		"pause completed", "fetch_flights completed", "tell completed", "price_check completed", "send_email completed",
	}, visited(&second))
	require.EqualValues(t, 1, toldElse.Load())
	sent := sink.taken()
	require.Len(t, sent, 1)
	require.Contains(t, sent[0], "Subject: Price drop!")
	require.Contains(t, sent[0], "To: <ops@example.com>")
	require.Contains(t, sent[0], "AA1")
	require.NotContains(t, sent[0], "BB2", "the rows that satisfy the condition")

	reverted, err := s.client.RevertWorkflow(ctx, agent.WorkflowPatchRequest{WorkflowKey: annsMain, Revert: answer.PatchID, By: "ann"})
	require.NoError(t, err)
	require.EqualValues(t, 4, reverted.Version)
	third := run()
	require.EqualValues(t, 4, third.Version)
	require.Len(t, sink.taken(), 1, "no mail any more")
	history, err = s.client.WorkflowPatches(ctx, annsMain, agent.Page{})
	require.NoError(t, err)
	require.Len(t, history.Patches, 4)
	require.Equal(t, answer.PatchID, history.Patches[0].Revert)
	require.Equal(t, answer.PatchID, history.Patches[2].PatchID)
	require.Equal(t, "Add price drop email notification", history.Patches[2].Description)
	require.NotEmpty(t, history.Patches[2].By)
	again, err := s.client.RevertWorkflow(ctx, agent.WorkflowPatchRequest{WorkflowKey: annsMain, Revert: answer.PatchID, By: "ann"})
	require.NoError(t, err)
	require.True(t, again.Unchanged, "it has been taken back")
	require.EqualValues(t, 4, again.Version)
	runs, err := s.client.Runs(ctx, agent.RunQuery{Tag: "main", Status: agent.RunCompleted})
	require.NoError(t, err)
	require.Len(t, runs.Runs, 3)
	require.True(t, strings.HasPrefix(old.WorkflowID, "workflow/default/ann/main/"), old.WorkflowID)
}
