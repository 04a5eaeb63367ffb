package cluster

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	opDeleteExecution = "delete execution"
	// deleteTimeout bounds the wait for deleted executions to be gone: Temporal deletes them asynchronously.
	deleteTimeout = time.Minute
	// minDeletePause and maxPause space the requests whether they are gone.
	minDeletePause = 50 * time.Millisecond
	maxDeletePause = time.Second
	// runsAtOnce bounds the runs of one workflow id that are deleted before they are listed again.
	runsAtOnce = 100
)

// ExecutionService is the part of Temporal's API that deletes.
type ExecutionService interface {
	DescribeWorkflowExecution(ctx context.Context, in *workflowservice.DescribeWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflowExecutions(ctx context.Context, in *workflowservice.ListWorkflowExecutionsRequest, o ...grpc.CallOption) (
		*workflowservice.ListWorkflowExecutionsResponse, error)
	TerminateWorkflowExecution(ctx context.Context, in *workflowservice.TerminateWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.TerminateWorkflowExecutionResponse, error)
	DeleteWorkflowExecution(ctx context.Context, in *workflowservice.DeleteWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.DeleteWorkflowExecutionResponse, error)
}

// ErasureStarter starts workflows; a [client.Client] does.
type ErasureStarter interface {
	ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Executions starts and deletes workflow executions in a namespace. TaskQueue and Timeout may be empty.
type Executions struct {
	Client    ErasureStarter
	Service   ExecutionService
	Schedules client.ScheduleClient
	Namespace string
	TaskQueue string        // of the workflow Erasure; empty: [workflows.TaskQueue]
	Timeout   time.Duration // until a deleted execution must be gone; 0: 1 min
}

var (
	_ erasure.Starter        = (*Executions)(nil)
	_ erasure.HistoryDeleter = (*Executions)(nil)
)

// Start starts the workflow of an erasure, unless it is running.
func (x *Executions) Start(ctx context.Context, r erasure.Ref) error {
	_, err := x.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: erasure.WorkflowID(r.Tenant, r.ErasureID), TaskQueue: cmp.Or(x.TaskQueue, workflows.TaskQueue), StaticSummary: "erasure",
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.ErasureType, r)
	return err
}

// Delete terminates and deletes all runs of a workflow id with their histories, and returns how many there were, once they are gone. The error is
// [agent.CodeUnavailable] if some are not gone in time; the number then counts those that were found, and Delete may be repeated.
func (x *Executions) Delete(ctx context.Context, workflowID string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(x.Timeout, 0), deleteTimeout))
	defer cancel()
	found := map[string]bool{} // by run id
	for pause := minDeletePause; ; pause = min(2*pause, maxDeletePause) {
		runs, err := x.runs(ctx, workflowID)
		if err != nil {
			return len(found), hideWorkflowID(err)
		}
		if len(runs) == 0 {
			return len(found), nil
		}
		for id, running := range runs {
			if err := x.deleteRun(ctx, workflowID, id, running); err != nil {
				return len(found), hideWorkflowID(err)
			}
			found[id] = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return len(found), agent.Errorf(agent.CodeUnavailable, opDeleteExecution, "%d runs of a workflow are not gone yet", len(runs))
		}
	}
}

// runs returns the runs of a workflow id, and whether each is running. Temporal lists a new run with a delay, so that the newest one is asked for by
// itself.
func (x *Executions) runs(ctx context.Context, workflowID string) (map[string]bool, error) {
	found := map[string]bool{}
	newest, err := x.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: x.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
	})
	switch {
	case err == nil:
		info := newest.GetWorkflowExecutionInfo()
		found[info.GetExecution().GetRunId()] = info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	case !isNotFound(err):
		return nil, err
	}
	listed, err := x.Service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: x.Namespace, PageSize: runsAtOnce, Query: `WorkflowId = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(workflowID) + `"`,
	})
	if err != nil {
		return nil, err
	}
	for _, info := range listed.GetExecutions() {
		id := info.GetExecution().GetRunId()
		found[id] = found[id] || info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	return found, nil
}

func (x *Executions) deleteRun(ctx context.Context, workflowID, runID string, running bool) error {
	run := &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: runID}
	if running {
		_, err := x.Service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: x.Namespace, WorkflowExecution: run, Reason: "erased", Identity: "erasure",
		})
		if err != nil && !isNotFound(err) {
			return err
		}
	}
	_, err := x.Service.DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{Namespace: x.Namespace, WorkflowExecution: run})
	if isNotFound(err) {
		return nil
	}
	return err
}

// DeleteSchedule deletes the schedule of an agent. A missing one is no error.
func (x *Executions) DeleteSchedule(ctx context.Context, tenant, name string) error {
	err := x.Schedules.GetHandle(ctx, agentScheduleID(tenant, name)).Delete(ctx)
	if isNotFound(err) {
		return nil
	}
	return hideWorkflowID(err)
}

// hideWorkflowID returns an error without the workflow's id, which may contain a user's name: errors stay in the history of the erasure.
func hideWorkflowID(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return agent.Errorf(agent.CodeUnavailable, opDeleteExecution, "Temporal answers %T", err)
}
