package schedules

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	pageSize = 100
	// anyTenant lists the definitions of all tenants.
	anyTenant = "*"
)

// Run reconciles at once and then every so often, until ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration) error {
	return clockwork.Every(ctx, every, k.Logger, k.Reconcile)
}

// Reconcile makes all schedules be as the stored definitions say, and deletes those for our queue that no definition has. It does what it
// can and returns what it could not.
func (k *Keeper) Reconcile(ctx context.Context) error {
	return k.clock.Reconcile(ctx, clockwork.Round{
		Workflow: workflows.DefinedWorkflowType, Wanted: k.stored(ctx), Ours: func(id string) bool { return strings.HasPrefix(id, prefix) },
	})
}

// stored are the schedules of all definitions.
func (k *Keeper) stored(ctx context.Context) iter.Seq2[clockwork.Want, error] {
	return func(yield func(clockwork.Want, error) bool) {
		for query := (agent.WorkflowQuery{Tenant: anyTenant, Page: agent.Page{Size: pageSize}}); ; {
			page, err := k.Definitions.Workflows(ctx, query)
			if err != nil {
				yield(clockwork.Want{}, err)
				return
			}
			for i := range page.Workflows {
				w := &page.Workflows[i]
				list, err := scheduled(w)
				if err != nil {
					yield(clockwork.Want{}, err)
					return
				}
				for j := range list {
					if !yield(wantOf(w, &list[j]), nil) {
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
