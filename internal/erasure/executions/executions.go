package executions

import (
	"context"
	"errors"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	opDelete = "delete execution"
	// deleteWithin bounds the wait for executions to be gone: Temporal deletes them in its own time.
	deleteWithin = time.Minute
	// lookAgain spaces the looks, growing to lookMost.
	lookAgain = 50 * time.Millisecond
	lookMost  = time.Second
	// runsAtOnce bounds the runs of one id that are deleted before it is looked again: those that continued as new.
	runsAtOnce = 100
)

// Service is the part of Temporal's API that deletes.
type Service interface {
	DescribeWorkflowExecution(ctx context.Context, in *workflowservice.DescribeWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflowExecutions(ctx context.Context, in *workflowservice.ListWorkflowExecutionsRequest, o ...grpc.CallOption) (
		*workflowservice.ListWorkflowExecutionsResponse, error)
	TerminateWorkflowExecution(ctx context.Context, in *workflowservice.TerminateWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.TerminateWorkflowExecutionResponse, error)
	DeleteWorkflowExecution(ctx context.Context, in *workflowservice.DeleteWorkflowExecutionRequest, o ...grpc.CallOption) (
		*workflowservice.DeleteWorkflowExecutionResponse, error)
}

// Executions deletes what Temporal keeps in a namespace.
type Executions struct {
	Service    Service
	Schedules  client.ScheduleClient
	Namespace  string
	ScheduleID func(tenant, name string) string
	Within     time.Duration // how long an execution may take to be gone; 0: 1 min
}

// Delete terminates what runs under a workflow id, deletes all its runs with their histories, and returns how many once they are gone.
// [agent.CodeUnavailable] when some are not in time, with how many were found: they may be asked for again.
func (x *Executions) Delete(ctx context.Context, workflowID string) (int, error) {
	within := x.Within
	if within <= 0 {
		within = deleteWithin
	}
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	seen := map[string]bool{} // by run id: whether it runs no more
	for pause := lookAgain; ; pause = min(2*pause, lookMost) {
		runs, err := x.runs(ctx, workflowID)
		if err != nil {
			return len(seen), trouble(err)
		}
		if len(runs) == 0 {
			return len(seen), nil
		}
		for id, live := range runs {
			if err := x.remove(ctx, workflowID, id, live); err != nil {
				return len(seen), trouble(err)
			}
			seen[id] = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return len(seen), agent.Errorf(agent.CodeUnavailable, opDelete, "%d runs of a workflow are not gone yet", len(runs))
		}
	}
}

// runs are those of a workflow id, by run id, and whether each still runs: the newest, and those that Temporal lists, which learns of them a
// little later.
func (x *Executions) runs(ctx context.Context, workflowID string) (map[string]bool, error) {
	found := map[string]bool{}
	newest, err := x.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: x.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
	})
	switch {
	case err == nil:
		info := newest.GetWorkflowExecutionInfo()
		found[info.GetExecution().GetRunId()] = info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	case !notFound(err):
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

func (x *Executions) remove(ctx context.Context, workflowID, runID string, live bool) error {
	run := &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: runID}
	if live {
		_, err := x.Service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: x.Namespace, WorkflowExecution: run, Reason: "erased", Identity: "erasure",
		})
		if err != nil && !notFound(err) {
			return err
		}
	}
	_, err := x.Service.DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{Namespace: x.Namespace, WorkflowExecution: run})
	if notFound(err) {
		return nil
	}
	return err
}

// DeleteSchedule deletes the schedule of an agent; one that is not there is no error.
func (x *Executions) DeleteSchedule(ctx context.Context, tenant, name string) error {
	err := x.Schedules.GetHandle(ctx, x.ScheduleID(tenant, name)).Delete(ctx)
	if notFound(err) {
		return nil
	}
	return trouble(err)
}

func notFound(err error) bool {
	_, is := errors.AsType[*serviceerror.NotFound](err)
	return is
}

// trouble is without the workflow's id, which a caller may have made of a user's name: it would stay in the history of the erasure.
func trouble(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return agent.Errorf(agent.CodeUnavailable, opDelete, "Temporal answers %T", err)
}
