package schedule

import (
	"context"
	"errors"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
	"github.com/turnstone-run/turnstone/workflows"
)

const pageSize = 100

// Reconcile makes all of Temporal's schedules be as the stored ones say, and deletes those for our queue that nobody has stored. It does
// what it can and returns what it could not.
func (k *Keeper) Reconcile(ctx context.Context) error {
	err := k.clock.Reconcile(ctx, clockwork.Round{
		Workflow: workflows.ScheduledRunType, Wanted: k.stored(ctx), Gone: k.gone,
		Ours: func(id string) bool { _, _, ours := owner(id); return ours },
	})
	return errors.Join(err, k.settle(ctx))
}

// stored are all schedules as they are stored.
func (k *Keeper) stored(ctx context.Context) iter.Seq2[clockwork.Want, error] {
	return func(yield func(clockwork.Want, error) bool) {
		for page := (agent.Page{Size: pageSize}); ; {
			found, err := k.Store.Schedules(ctx, agent.AnyTenant, page)
			if err != nil {
				yield(clockwork.Want{}, err)
				return
			}
			for i := range found.Schedules {
				if !yield(wantOf(&found.Schedules[i])) {
					return
				}
			}
			if page.Token = found.Next; page.Token == "" {
				return
			}
		}
	}
}

// gone reports whether nobody has stored a schedule.
func (k *Keeper) gone(ctx context.Context, id string) (bool, error) {
	tenant, name, _ := owner(id)
	_, err := k.Store.Schedule(ctx, tenant, name)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return true, nil
	}
	return false, err
}
