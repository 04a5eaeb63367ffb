package schedule

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	pageSize = 100
	// maxProblems bounds what one round tells of.
	maxProblems = 20
)

// Reconcile makes all of Temporal's schedules be as the stored ones say, and deletes those for our queue that nobody has stored. It does
// what it can and returns what it could not.
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
	page := agent.Page{Size: pageSize}
	for {
		found, err := k.Store.Schedules(ctx, agent.AnyTenant, page)
		if err != nil {
			return fmt.Errorf("reconcile schedules: %w", err) // what is wanted is not known: nothing is deleted
		}
		for i := range found.Schedules {
			s := &found.Schedules[i]
			wanted[ID(s.Tenant, s.Name)] = true
			note(k.ensure(ctx, s, false))
		}
		if page.Token = found.Next; page.Token == "" {
			break
		}
	}
	for _, id := range existing {
		if !wanted[id] {
			note(k.removeOurs(ctx, id))
		}
	}
	note(k.settle(ctx))
	return errors.Join(problems...)
}

// removeOurs deletes a schedule that nobody has stored, unless it is for another queue: other runtimes may keep theirs in the namespace.
func (k *Keeper) removeOurs(ctx context.Context, id string) error {
	tenant, name, ours := owner(id)
	if !ours {
		return nil
	}
	if _, err := k.Store.Schedule(ctx, tenant, name); agent.CodeOf(err) != agent.CodeNotFound {
		return err // it was made meanwhile, or nobody knows
	}
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

// existing lists the schedules that start runs of agents.
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
		if _, _, ours := owner(s.ID); ours && s.WorkflowType.Name == workflows.ScheduledRunType {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}
