package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// maxUnfinishedRuns is how many runs of a schedule may be unfinished before Trigger refuses another.
const maxUnfinishedRuns = 100

// triggerNamespace is the namespace of the UUIDs made from idempotency keys.
var triggerNamespace = uuid.MustParse("0f6d2a64-93c1-5d0c-8a3b-1f6b4b1c9d27") //nolint:gochecknoglobals // a constant in all but syntax

// Trigger starts a run now, even if the schedule is paused or another run is in progress. Calls with the same key start one run; each call
// without a key starts its own. The run is not started through Temporal's schedule, because that gives two runs of the same second the same
// workflow id.
func (a *AgentSchedules) Trigger(ctx context.Context, tenant, name, key string) (agent.ScheduleTriggered, error) {
	if _, err := a.Store.Schedule(ctx, tenant, name); err != nil {
		return agent.ScheduleTriggered{}, err
	}
	unfinished, err := a.Store.UnfinishedRuns(ctx, tenant, name)
	if err != nil {
		return agent.ScheduleTriggered{}, err
	}
	if unfinished >= maxUnfinishedRuns {
		return agent.ScheduleTriggered{}, &agent.Error{
			Code: agent.CodeRateLimited, RetryAfter: time.Minute,
			Err: fmt.Errorf("%d runs of schedule %q have not ended, at most %d are allowed", unfinished, name, maxUnfinishedRuns),
		}
	}
	id := uuid.NewString()
	if key != "" {
		id = uuid.NewSHA1(triggerNamespace, []byte(tenant+"\x00"+name+"\x00"+key)).String()
	}
	out := agent.ScheduleTriggered{WorkflowID: workflows.ScheduledRunID(tenant, name) + "/trigger-" + id}
	run, err := a.Starter.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: out.WorkflowID, TaskQueue: a.TaskQueue, StaticSummary: "schedule " + name + ", triggered",
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.ScheduledRunType, workflows.ScheduledRunInput{Tenant: tenant, Schedule: name})
	if started, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		out.RunID, out.Joined = started.RunId, true
		return out, nil
	}
	if err != nil {
		return agent.ScheduleTriggered{}, agent.Errorf(agent.CodeUnavailable, "trigger schedule", "%w", err)
	}
	out.RunID = run.GetRunID()
	return out, nil
}
