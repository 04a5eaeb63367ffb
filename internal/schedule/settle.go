package schedule

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
)

const (
	// settleAfter is how long a run is left alone: whoever runs it ends it.
	settleAfter = 2 * time.Minute
	// forgotten is how long ago a run began of which Temporal knows nothing any more, when that is taken for its end.
	forgotten = time.Hour
	// maxSettled bounds the runs of a round.
	maxSettled = 100
	// maxProblems bounds what one round tells of.
	maxProblems = 20
)

// settle ends runs whose workflow is gone without a word: somebody terminated it, as the overlap policy terminate_other does.
func (k *Keeper) settle(ctx context.Context) error {
	long, err := k.Store.LongRuns(ctx, settleAfter, maxSettled)
	if err != nil {
		return err
	}
	var problems []error
	for i := range long {
		r := &long[i]
		over, err := k.over(ctx, r)
		if err == nil && over {
			_, err = k.Store.FinishScheduleRun(ctx, agent.ScheduleEnd{
				Tenant: r.Tenant, RunID: r.RunID, Status: string(agent.TurnFailed), EndedAt: time.Now(),
				Error: &agent.Failure{Type: string(agent.StopTerminated), Message: "its workflow was ended from outside; its turn may have gone on"},
			})
		}
		if err != nil && len(problems) < maxProblems {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// over reports whether nothing runs a run any more.
func (k *Keeper) over(ctx context.Context, r *agent.ScheduleRun) (bool, error) {
	found, err := k.Starter.DescribeWorkflowExecution(ctx, r.Workflow, "")
	switch {
	case clockwork.IsNotFound(err):
		return time.Since(r.StartedAt) > forgotten, nil
	case err != nil:
		return false, agent.Errorf(agent.CodeUnavailable, "settle runs of schedules", "workflow %q: %w", r.Workflow, err)
	}
	return found.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
