package inbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// recorder is a Temporal that keeps the last thing that it was asked, and answers with what it is given.
type recorder struct {
	client.Client

	options   client.StartWorkflowOptions
	input     any
	signal    string
	described *workflowservice.DescribeWorkflowExecutionResponse
	err       error
}

func (r *recorder) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	r.options, r.input = o, args[0]
	return nil, r.err
}

func (r *recorder) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	r.signal, r.input = id+" "+name, arg
	return r.err
}

func (r *recorder) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return r.described, r.err
}

// TestStart: a workflow is started with its turn's id and nothing of the request, and with its search attributes if the namespace knows them.
func TestStart(t *testing.T) {
	for _, known := range []bool{false, true} {
		rec := &recorder{}
		runs := &inbox.Runs{Temporal: rec, TaskQueue: "turnstone", SearchAttributes: func() bool { return known }}
		require.NoError(t, runs.Start(t.Context(), turns.TurnRef{TurnID: "t1", Tenant: "acme", SessionID: "s", Agent: "clerk", Summary: "hello"}))
		require.Equal(t, "hello", rec.options.StaticSummary)
		require.Equal(t, "turn/t1", rec.options.ID)
		require.Equal(t, agent.TurnRequest{TurnID: "t1", SessionID: "s", Context: agent.InvocationContext{Tenant: "acme"}}, rec.input)
		want := temporal.SearchAttributes{}
		if known {
			want = workflows.TurnAttributes("acme", "clerk", "s")
		}
		require.Equal(t, want, rec.options.TypedSearchAttributes)
	}
	rec := &recorder{err: serviceerror.NewWorkflowExecutionAlreadyStarted("", "", "")}
	runs := &inbox.Runs{Temporal: rec}
	require.NoError(t, runs.Start(t.Context(), turns.TurnRef{TurnID: "t1", SessionID: "s"}), "a workflow is started once")
	require.Equal(t, "session s", rec.options.StaticSummary)
	for want, err := range map[agent.Code]error{
		agent.CodeUnavailable: serviceerror.NewUnavailable("away"),
		agent.CodeDenied:      serviceerror.NewPermissionDenied("no", ""),
		agent.CodeRateLimited: &serviceerror.ResourceExhausted{},
	} {
		rec.err = err
		require.Equal(t, want, agent.CodeOf(runs.Start(t.Context(), turns.TurnRef{TurnID: "t1"})))
	}
}

func TestLook(t *testing.T) {
	info := func(s enumspb.WorkflowExecutionStatus) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Status: s}
	}
	running := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	cases := map[string]struct {
		described *workflowservice.DescribeWorkflowExecutionResponse
		err       error
		want      turns.WorkflowState
	}{
		"missing": {nil, serviceerror.NewNotFound(""), turns.WorkflowState{}},
		"waits":   {&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info(running)}, nil, turns.WorkflowState{Exists: true, Running: true}},
		"closed": {
			&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)},
			nil,
			turns.WorkflowState{Exists: true},
		},
		"has a task": {
			&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info(running), PendingWorkflowTask: &workflowpb.PendingWorkflowTaskInfo{}},
			nil,
			turns.WorkflowState{Exists: true, Running: true, Busy: true},
		},
		"has an activity": {
			&workflowservice.DescribeWorkflowExecutionResponse{
				WorkflowExecutionInfo: info(running), PendingActivities: []*workflowpb.PendingActivityInfo{{}},
			},
			nil,
			turns.WorkflowState{Exists: true, Running: true, Busy: true},
		},
		"has a child": {
			&workflowservice.DescribeWorkflowExecutionResponse{
				WorkflowExecutionInfo: info(running), PendingChildren: []*workflowpb.PendingChildExecutionInfo{{}},
			},
			nil,
			turns.WorkflowState{Exists: true, Running: true, Children: true},
		},
	}
	for name, c := range cases {
		got, err := (&inbox.Runs{Temporal: &recorder{described: c.described, err: c.err}}).Look(t.Context(), "turn/t1")
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

// TestResolved: a workflow is signalled the decision itself, and of a client-side tool's result the id alone.
func TestResolved(t *testing.T) {
	rec := &recorder{}
	runs := &inbox.Runs{Temporal: rec}
	a := agent.Approval{ApprovalID: "x", Decision: agent.DecisionEdit, DecidedArgs: []byte(`{"amount":90}`), By: "ann"}
	require.NoError(t, runs.Resolved(t.Context(), "turn/t1", &a))
	require.Equal(t, "turn/t1 decide", rec.signal)
	require.Equal(t, agent.Decision{ApprovalID: "x", Decision: agent.DecisionEdit, Args: []byte(`{"amount":90}`), By: "ann"}, rec.input)
	a.Kind = agent.WaitClientTool
	require.NoError(t, runs.Resolved(t.Context(), "turn/t1", &a))
	require.Equal(t, "turn/t1 provide", rec.signal)
	require.Equal(t, agent.ProvidedResult{ToolCallID: "x"}, rec.input)
}
