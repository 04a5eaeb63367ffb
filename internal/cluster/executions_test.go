package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/workflows"
)

// executionServer has runs of workflows, the newest first. A deleted one is gone after a few looks.
type executionServer struct {
	client.ScheduleClient
	client.ScheduleHandle

	runs    []run
	slow    int // looks that a deleted run is still there for
	err     error
	calls   []string
	started []client.StartWorkflowOptions
	input   []any
}

type run struct {
	workflow, id string
	live, hidden bool // hidden: Temporal does not list it yet
	dying        int
}

func (t *executionServer) find(id string) []*workflowpb.WorkflowExecutionInfo {
	var found []*workflowpb.WorkflowExecutionInfo
	for i := range t.runs {
		r := &t.runs[i]
		if r.workflow != id {
			continue
		}
		status := enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		if r.live {
			status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		}
		found = append(found, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: r.id}, Status: status,
		})
	}
	return found
}

func (t *executionServer) DescribeWorkflowExecution(_ context.Context, in *workflowservice.DescribeWorkflowExecutionRequest, _ ...grpc.CallOption) (
	*workflowservice.DescribeWorkflowExecutionResponse, error,
) {
	for i := range t.runs {
		if t.runs[i].dying > 0 {
			t.runs[i].dying--
		}
	}
	t.runs = slices.DeleteFunc(t.runs, func(r run) bool { return r.dying == 1 })
	found := t.find(in.GetExecution().GetWorkflowId())
	if t.err != nil || len(found) == 0 {
		return nil, errors.Join(t.err, serviceerror.NewNotFound("none"))
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: found[0]}, nil
}

func (t *executionServer) ListWorkflowExecutions(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest, _ ...grpc.CallOption) (
	*workflowservice.ListWorkflowExecutionsResponse, error,
) {
	if t.err != nil {
		return nil, t.err
	}
	t.calls = append(t.calls, in.GetNamespace()+" "+in.GetQuery())
	found := t.find("turn/1")
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: slices.DeleteFunc(found, func(i *workflowpb.WorkflowExecutionInfo) bool {
		return slices.ContainsFunc(t.runs, func(r run) bool { return r.id == i.GetExecution().GetRunId() && r.hidden })
	})}, nil
}

func (t *executionServer) TerminateWorkflowExecution(_ context.Context, in *workflowservice.TerminateWorkflowExecutionRequest, _ ...grpc.CallOption) (
	*workflowservice.TerminateWorkflowExecutionResponse, error,
) {
	t.calls = append(t.calls, "terminate "+in.GetWorkflowExecution().GetRunId())
	return nil, serviceerror.NewNotFound("it has ended meanwhile")
}

func (t *executionServer) DeleteWorkflowExecution(_ context.Context, in *workflowservice.DeleteWorkflowExecutionRequest, _ ...grpc.CallOption) (
	*workflowservice.DeleteWorkflowExecutionResponse, error,
) {
	id := in.GetWorkflowExecution().GetRunId()
	for i := range t.runs {
		if t.runs[i].id == id && t.runs[i].dying == 0 {
			t.calls = append(t.calls, "delete "+id)
			t.runs[i].dying = t.slow + 2
		}
	}
	return &workflowservice.DeleteWorkflowExecutionResponse{}, nil
}

func (t *executionServer) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	t.calls = append(t.calls, "schedule "+id)
	return t
}

func (t *executionServer) Delete(context.Context) error { return t.err }

func (t *executionServer) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, w any, args ...any) (client.WorkflowRun, error) {
	t.started, t.input = append(t.started, o), append([]any{w}, args...)
	return nil, t.err
}

func (t *executionServer) executions() *Executions {
	return &Executions{
		Client: t, Service: t, Schedules: t, Namespace: "ns", Timeout: time.Second,
	}
}

func TestExecutionsAreDeleted(t *testing.T) {
	world := &executionServer{slow: 1, runs: []run{
		{workflow: "turn/1", id: "r3", live: true, hidden: true}, {workflow: "turn/1", id: "r2"}, {workflow: "turn/1", id: "r1"}, {workflow: "turn/2", id: "other"},
	}}
	n, err := world.executions().Delete(t.Context(), "turn/1")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, world.runs, 1, "of another workflow")
	require.Contains(t, world.calls, "terminate r3")
	require.NotContains(t, world.calls, "terminate r2")
	for _, id := range []string{"r1", "r2", "r3"} {
		require.Contains(t, world.calls, "delete "+id)
	}
	require.Contains(t, world.calls, `ns WorkflowId = "turn/1"`)
	n, err = world.executions().Delete(t.Context(), `a"b\`)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Contains(t, world.calls, `ns WorkflowId = "a\"b\\"`)

	world = &executionServer{slow: 1 << 20, runs: []run{{workflow: "turn/1", id: "r1"}}}
	slow := world.executions()
	slow.Timeout = 100 * time.Millisecond
	n, err = slow.Delete(t.Context(), "turn/1")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Equal(t, 1, n, "as many as there were")

	world.err = serviceerror.NewPermissionDenied("not turn/ann", "")
	_, err = world.executions().Delete(t.Context(), "turn/ann")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.NotContains(t, err.Error(), "ann", "it stays in a history")
}

func TestExecutionsDeleteSchedule(t *testing.T) {
	world := &executionServer{}
	require.NoError(t, world.executions().DeleteSchedule(t.Context(), "acme", "daily"))
	require.Equal(t, []string{"schedule schedule/acme/daily"}, world.calls)
	world.err = serviceerror.NewNotFound("none")
	require.NoError(t, world.executions().DeleteSchedule(t.Context(), "acme", "daily"))
	world.err = serviceerror.NewUnavailable("away")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(world.executions().DeleteSchedule(t.Context(), "acme", "daily")))
}

func TestErasureIsStarted(t *testing.T) {
	world := &executionServer{}
	r := erasure.Ref{Tenant: "acme", ErasureID: "e1"}
	require.NoError(t, world.executions().Start(t.Context(), r))
	require.Equal(t, "erasure/acme/e1", world.started[0].ID)
	require.Equal(t, workflows.TaskQueue, world.started[0].TaskQueue)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, world.started[0].WorkflowIDConflictPolicy)
	require.Equal(t, []any{workflows.ErasureType, r}, world.input, "whose data it is stays in the store")
	world.err = errors.New("away")
	require.Error(t, world.executions().Start(t.Context(), r))
}
