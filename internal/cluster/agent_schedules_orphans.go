package cluster

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// orphanAge is how old an unfinished run must be before it is checked: until then its workflow is expected to end it.
	orphanAge = 2 * time.Minute
	// unknownAge is how old an unfinished run must be to count as ended when Temporal does not know its workflow.
	unknownAge = time.Hour
	// maxOrphans bounds the runs that one reconciliation checks.
	maxOrphans = 100
)

// endOrphanedRuns ends the runs whose workflow was terminated, for example by the overlap policy terminate_other.
func (a *AgentSchedules) endOrphanedRuns(ctx context.Context) error {
	runs, err := a.Store.LongRuns(ctx, orphanAge, maxOrphans)
	if err != nil {
		return err
	}
	var failed boundedErrors
	for i := range runs {
		r := &runs[i]
		isOrphaned, err := a.isOrphaned(ctx, r)
		if err == nil && isOrphaned {
			_, err = a.Store.FinishScheduleRun(ctx, agent.ScheduleEnd{
				Tenant: r.Tenant, RunID: r.RunID, Status: string(agent.TurnFailed), EndedAt: time.Now(),
				Error: &agent.Failure{Type: string(agent.StopTerminated), Message: "its workflow was ended from outside; its turn may have gone on"},
			})
		}
		failed.add(err)
	}
	return errors.Join(failed...)
}

// isOrphaned reports whether the workflow of an unfinished run no longer runs.
func (a *AgentSchedules) isOrphaned(ctx context.Context, r *agent.ScheduleRun) (bool, error) {
	found, err := a.Starter.DescribeWorkflowExecution(ctx, r.Workflow, "")
	switch {
	case isNotFound(err):
		return time.Since(r.StartedAt) > unknownAge, nil
	case err != nil:
		return false, agent.Errorf(agent.CodeUnavailable, "settle runs of schedules", "workflow %q: %w", r.Workflow, err)
	}
	return found.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
