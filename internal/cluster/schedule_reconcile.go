package cluster

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
	// maxErrors bounds the errors that one reconciliation returns.
	maxErrors = 20
)

// reconciliation is the desired state of all schedules of one kind.
type reconciliation struct {
	// Workflow is the type of workflow that the schedules start.
	Workflow string
	// IsOurs reports whether an id belongs to a schedule of this kind. Only such schedules are deleted.
	IsOurs func(id string) bool
	// Desired yields all schedules that should exist. An error without an id means that the list is incomplete, and ends the
	// reconciliation before anything is deleted. An error with an id concerns that schedule alone, which is left as it is.
	Desired iter.Seq2[desiredSchedule, error]
	// IsDeleted reports whether a schedule that was not among the desired ones is really gone: it may have been stored meanwhile. nil: it is.
	IsDeleted func(ctx context.Context, id string) (bool, error)
}

// Reconcile creates and updates Temporal's schedules to match the desired ones, and deletes the others of our task queue. It goes on after an
// error and returns all errors, joined.
func (s *scheduleSyncer) Reconcile(ctx context.Context, r reconciliation) error {
	// The existing schedules are listed first, so that a schedule created meanwhile is not deleted.
	existing, err := s.listExisting(ctx, &r)
	if err != nil {
		return err
	}
	desired := map[string]bool{}
	var failed boundedErrors
	for d, err := range r.Desired {
		if err != nil && d.ID == "" {
			return fmt.Errorf("reconcile schedules: %w", err)
		}
		desired[d.ID] = true
		if err == nil {
			err = s.Ensure(ctx, &d, false)
		}
		failed.add(err)
	}
	for _, id := range existing {
		if desired[id] {
			continue
		}
		isDeleted := r.IsDeleted == nil
		if !isDeleted {
			isDeleted, err = r.IsDeleted(ctx, id)
			failed.add(err)
		}
		if isDeleted {
			failed.add(s.removeOfQueue(ctx, id))
		}
	}
	return errors.Join(failed...)
}

// listExisting returns the ids of Temporal's schedules of the kind that r is about.
func (s *scheduleSyncer) listExisting(ctx context.Context, r *reconciliation) ([]string, error) {
	list, err := s.schedules.List(ctx, client.ScheduleListOptions{PageSize: pageSize})
	if err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
	}
	var ids []string
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return nil, agent.Errorf(agent.CodeUnavailable, "reconcile schedules", "list: %w", err)
		}
		if r.IsOurs(entry.ID) && entry.WorkflowType.Name == r.Workflow {
			ids = append(ids, entry.ID)
		}
	}
	return ids, nil
}

// boundedErrors is a list of at most maxErrors errors.
type boundedErrors []error

func (b *boundedErrors) add(err error) {
	if err != nil && len(*b) < maxErrors {
		*b = append(*b, err)
	}
}

// reconcileEvery calls reconcile at once and then at each interval, until ctx ends. It logs errors and goes on.
func reconcileEvery(ctx context.Context, interval time.Duration, logger *zap.Logger, reconcile func(context.Context) error) error {
	if interval <= 0 {
		return agent.Invalid("every", "want a duration above 0, got %s", interval)
	}
	tick := time.NewTicker(interval)
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
