package clockwork

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	pageSize = 100
	// maxProblems bounds what one round tells of.
	maxProblems = 20
)

// Round is what [Keeper.Reconcile] makes true.
type Round struct {
	// Workflow is the type that the schedules start, and Ours says of an id whether it is one of theirs: nothing else is deleted.
	Workflow string
	Ours     func(id string) bool
	// Wanted are all that there are to be. An error without an id says that it is not known what is wanted, and ends the round before
	// anything is deleted; one with an id is that schedule's own, which then stays as it is.
	Wanted iter.Seq2[Want, error]
	// Gone is asked before a schedule that was not wanted is deleted: it may have been made meanwhile. nil: it is gone.
	Gone func(ctx context.Context, id string) (bool, error)
}

// Reconcile makes all of Temporal's schedules be as they are wanted, and deletes those for our queue that nobody wants. It does what it can
// and returns what it could not.
func (k *Keeper) Reconcile(ctx context.Context, r Round) error {
	// What exists is listed first: a schedule that is made meanwhile is not taken for one too many.
	existing, err := k.existing(ctx, &r)
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
	for w, err := range r.Wanted {
		if err != nil && w.ID == "" {
			return fmt.Errorf("reconcile schedules: %w", err)
		}
		wanted[w.ID] = true
		if err == nil {
			err = k.Ensure(ctx, &w, false)
		}
		note(err)
	}
	for _, id := range existing {
		if wanted[id] {
			continue
		}
		gone := r.Gone == nil
		if !gone {
			gone, err = r.Gone(ctx, id)
			note(err)
		}
		if gone {
			note(k.removeOurs(ctx, id))
		}
	}
	return errors.Join(problems...)
}

// existing lists the schedules of a round.
func (k *Keeper) existing(ctx context.Context, r *Round) ([]string, error) {
	list, err := k.schedules.List(ctx, client.ScheduleListOptions{PageSize: pageSize})
	if err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
	}
	var ids []string
	for list.HasNext() {
		s, err := list.Next()
		if err != nil {
			return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
		}
		if r.Ours(s.ID) && s.WorkflowType.Name == r.Workflow {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// Every reconciles at once and then every so often, until ctx ends; what goes wrong is logged.
func Every(ctx context.Context, every time.Duration, logger *zap.Logger, reconcile func(context.Context) error) error {
	if every <= 0 {
		return agent.Invalid("every", "want a duration above 0, got %s", every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := reconcile(ctx); err != nil && ctx.Err() == nil {
			logger.Warn("reconcile schedules", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
