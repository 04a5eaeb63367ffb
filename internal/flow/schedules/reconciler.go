package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	pageSize = 100
	// anyTenant lists the definitions of all tenants.
	anyTenant = "*"
	// maxProblems bounds what one round tells of.
	maxProblems = 20
)

// Run reconciles at once and then every so often, until ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return agent.Invalid("every", "want a duration above 0, got %s", every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := k.Reconcile(ctx); err != nil && ctx.Err() == nil {
			k.Logger.Warn("reconcile schedules", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Reconcile makes all schedules be as the stored definitions say, and deletes those for our queue that no definition has. It does what it
// can and returns what it could not.
func (k *Keeper) Reconcile(ctx context.Context) error {
	// What exists is listed first: a schedule that is made meanwhile is not taken for one too many.
	existing, err := k.existing(ctx)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	var problems []error
	note := func(err error) {
		if err != nil && len(problems) < maxProblems {
			problems = append(problems, err)
		}
	}
	query := agent.WorkflowQuery{Tenant: anyTenant, Page: agent.Page{Size: pageSize}}
	for {
		page, err := k.Definitions.Workflows(ctx, query)
		if err != nil {
			return fmt.Errorf("reconcile schedules: %w", err)
		}
		for i := range page.Workflows {
			w := &page.Workflows[i]
			list, err := scheduled(w)
			if err != nil {
				return err // what it wants is not known: nothing is deleted
			}
			for j := range list {
				wanted[ID(w.WorkflowKey, list[j].ID)] = true
				note(k.ensure(ctx, w, &list[j]))
			}
		}
		if query.Token = page.Next; query.Token == "" {
			break
		}
	}
	for _, id := range existing {
		if !wanted[id] {
			note(k.removeOurs(ctx, id))
		}
	}
	return errors.Join(problems...)
}

// removeOurs deletes a schedule that no definition has, unless it is for another queue: other runtimes may keep theirs in the namespace.
func (k *Keeper) removeOurs(ctx context.Context, id string) error {
	found, err := k.Schedules.GetHandle(ctx, id).Describe(ctx)
	if err != nil {
		if isNotFound(err) {
			return nil
		}
		return named(id, err)
	}
	if queueOf(&found.Schedule) != k.TaskQueue {
		return nil
	}
	return k.remove(ctx, id)
}

// existing lists the schedules that start defined workflows.
func (k *Keeper) existing(ctx context.Context) ([]string, error) {
	list, err := k.Schedules.List(ctx, client.ScheduleListOptions{PageSize: pageSize})
	if err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
	}
	var ids []string
	for list.HasNext() {
		s, err := list.Next()
		if err != nil {
			return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
		}
		if ours(s.ID) && s.WorkflowType.Name == workflows.DefinedWorkflowType {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}
