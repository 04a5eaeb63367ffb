package cluster

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// Run reconciles at once and then at each interval, until ctx ends.
func (s *WorkflowSchedules) Run(ctx context.Context, interval time.Duration) error {
	return reconcileEvery(ctx, interval, s.Logger, s.Reconcile)
}

// Reconcile makes Temporal's schedules match the stored definitions of all tenants, and deletes those of our task queue that no definition
// declares. It goes on after an error and returns all errors, joined.
func (s *WorkflowSchedules) Reconcile(ctx context.Context) error {
	return s.syncer.Reconcile(ctx, reconciliation{
		Workflow: workflows.DefinedWorkflowType, Desired: s.desired(ctx), IsOurs: func(id string) bool { return strings.HasPrefix(id, idPrefix) },
	})
}

// desired yields the schedules that the newest versions of all definitions declare.
func (s *WorkflowSchedules) desired(ctx context.Context) iter.Seq2[desiredSchedule, error] {
	return func(yield func(desiredSchedule, error) bool) {
		for query := (agent.WorkflowQuery{Tenant: agent.AnyTenant, Page: agent.Page{Size: pageSize}}); ; {
			page, err := s.Definitions.Workflows(ctx, query)
			if err != nil {
				yield(desiredSchedule{}, err)
				return
			}
			for i := range page.Workflows {
				w := &page.Workflows[i]
				declared, err := declaredSchedules(w)
				if err != nil {
					yield(desiredSchedule{}, err)
					return
				}
				for j := range declared {
					if !yield(makeWorkflowSchedule(w, &declared[j]), nil) {
						return
					}
				}
			}
			if query.Token = page.Next; query.Token == "" {
				return
			}
		}
	}
}
