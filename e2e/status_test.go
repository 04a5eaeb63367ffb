package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestTurnsAreFoundByStatus: Temporal finds a turn that failed or waits by its status, and shows the beginning of its message. With
// fail_workflows the workflow of a failed turn fails.
func TestTurnsAreFoundByStatus(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`),
		turnstonetest.Refuse(401, ""))
	s := start(t, provider.Use, func(c *app.Config) { c.Temporal.FailWorkflows = true })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "order\n it", SessionID: "shop"})
	require.NoError(t, err)
	found := s.awaitListed(receipt.TurnID, `TurnstoneStatus = "waiting"`)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, found.GetStatus())
	turn, err := s.client.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	require.Len(t, turn.Pending, 1)
	require.NoError(t, s.client.Decide(t.Context(), receipt.TurnID, agent.Decision{
		ApprovalID: turn.Pending[0].ApprovalID, Decision: agent.DecisionReject, By: "ann",
	}))
	out, _ := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnFailed, out.Status)
	found = s.awaitListed(receipt.TurnID, `TurnstoneStatus = "failed" AND TurnstoneStopReason = "model_error"`)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, found.GetStatus())
	s.replay("failed_workflow", receipt.TurnID.WorkflowID(), "")

	described, err := s.Temporal().DescribeWorkflowExecution(t.Context(), receipt.TurnID.WorkflowID(), "")
	require.NoError(t, err)
	require.Equal(t, `"order it"`, string(described.GetExecutionConfig().GetUserMetadata().GetSummary().GetData()))
}

// awaitListed waits until Temporal lists a turn's workflow by a query.
func (s *system) awaitListed(id agent.TurnID, query string) (found *workflowpb.WorkflowExecutionInfo) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page, err := s.Temporal().ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 20})
		for _, e := range page.GetExecutions() {
			if e.GetExecution().GetWorkflowId() == id.WorkflowID() {
				found = e
			}
		}
		return err == nil && found != nil
	}, 20*time.Second, 50*time.Millisecond, query)
	return found
}
