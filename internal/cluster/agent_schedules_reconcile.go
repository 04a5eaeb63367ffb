package cluster

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// Run reconciles at once and then at each interval, until ctx ends.
func (a *AgentSchedules) Run(ctx context.Context, interval time.Duration) error {
	return reconcileEvery(ctx, interval, a.Logger, a.Reconcile)
}

// Reconcile makes Temporal's schedules match the stored ones of all tenants, deletes those of our task queue that are not stored, and ends the
// runs whose workflow is gone. It goes on after an error and returns all errors, joined.
func (a *AgentSchedules) Reconcile(ctx context.Context) error {
	err := a.syncer.Reconcile(ctx, reconciliation{
		Workflow: workflows.ScheduledRunType, Desired: a.desired(ctx), IsDeleted: a.isDeleted,
		IsOurs: func(id string) bool { _, _, ok := parseAgentScheduleID(id); return ok },
	})
	return errors.Join(err, a.endOrphanedRuns(ctx))
}

// desired yields the schedule of each stored one.
func (a *AgentSchedules) desired(ctx context.Context) iter.Seq2[desiredSchedule, error] {
	return func(yield func(desiredSchedule, error) bool) {
		for page := (agent.Page{Size: pageSize}); ; {
			found, err := a.Store.Schedules(ctx, agent.AnyTenant, page)
			if err != nil {
				yield(desiredSchedule{}, err)
				return
			}
			for i := range found.Schedules {
				if !yield(makeAgentSchedule(&found.Schedules[i])) {
					return
				}
			}
			if page.Token = found.Next; page.Token == "" {
				return
			}
		}
	}
}

// isDeleted reports whether no schedule is stored under an id.
func (a *AgentSchedules) isDeleted(ctx context.Context, id string) (bool, error) {
	tenant, name, _ := parseAgentScheduleID(id)
	_, err := a.Store.Schedule(ctx, tenant, name)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return true, nil
	}
	return false, err
}
