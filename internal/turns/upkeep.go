package turns

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// upkeepEvery is the time between two looks at turns that nobody may be driving, wakeEvery the number of looks between two at stalled turns.
	upkeepEvery = 5 * time.Second
	wakeEvery   = 6
	// stalledAfter is how long a turn may take to go on by itself: longer than Temporal takes to replace a dead worker.
	stalledAfter = 15 * time.Second
	// Bounds of one look.
	upkeepTurns   = 200
	upkeepAtOnce  = 8
	upkeepTimeout = time.Minute
)

// Upkeep keeps recorded turns going, and adds up usage in the store.
type Upkeep struct {
	Turns *Turns
	Store UpkeepStore
}

// UpkeepStore finds turns that do not go on by themselves.
type UpkeepStore interface {
	// StalledTurns returns turns of workflows that have had a reason to go on, according to the store, for the time quiet and have not.
	StalledTurns(ctx context.Context, quiet time.Duration, limit int) ([]agent.StalledTurn, error)
	// Stranded calls work with turns that nobody may be driving: recorded by a door longer than age ago and not begun, or direct with a lease
	// that has run out. One process at a time does so; ran is false if it is another one.
	Stranded(ctx context.Context, age time.Duration, limit int, work func(context.Context, []agent.TurnID) error) (ran bool, err error)
	// AddUpUsage moves what model calls were billed since the last time into the sums by day. It returns how many rows that was.
	AddUpUsage(ctx context.Context) (added int64, err error)
}

// Run starts turns that were recorded and not started, takes over direct ones whose process died, wakes stalled ones, and adds up usage by day,
// until ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	for look := 1; ; look++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(upkeepEvery + rand.N(upkeepEvery/2)): // so that processes take turns
		}
		if err := u.StartStranded(ctx); err != nil && ctx.Err() == nil {
			u.Turns.Logger.Warn("start turns that nobody drives", zap.Error(err))
		}
		if err := u.addUpUsage(ctx); err != nil && ctx.Err() == nil {
			u.Turns.Logger.Warn("add up usage by day", zap.Error(err))
		}
		if look%wakeEvery != 0 {
			continue
		}
		woken, err := u.WakeStalledTurns(ctx, stalledAfter)
		if err != nil && ctx.Err() == nil {
			u.Turns.Logger.Warn("wake stalled turns", zap.Error(err))
		}
		if woken > 0 {
			u.Turns.Logger.Info("woke stalled turns", zap.Int("woken", woken))
		}
	}
}

func (u *Upkeep) addUpUsage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	_, err := u.Store.AddUpUsage(ctx)
	return err
}

// StartStranded looks once at the turns that nobody may be driving, unless another process does so now.
func (u *Upkeep) StartStranded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	_, err := u.Store.Stranded(ctx, orphanAfter, upkeepTurns, func(ctx context.Context, ids []agent.TurnID) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(upkeepAtOnce)
		for _, id := range ids {
			g.Go(func() error {
				_, err := u.Turns.EndOrphan(ctx, id)
				return err
			})
		}
		return g.Wait()
	})
	return err
}

// WakeStalledTurns signals workflows that may have missed a decision, a cancel, or that their session is free. It returns how many it has
// signalled. Workflows that make progress are left alone.
func (u *Upkeep) WakeStalledTurns(ctx context.Context, quiet time.Duration) (woken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	stalled, err := u.Store.StalledTurns(ctx, quiet, upkeepTurns)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, t := range stalled {
		told, err := u.wake(ctx, t)
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
		}
		if told {
			woken++
		}
	}
	return woken, errors.Join(errs...)
}

// wake signals one stalled turn, and reports whether it did. The turn of a workflow that no longer exists is ended by its followers.
func (u *Upkeep) wake(ctx context.Context, t agent.StalledTurn) (told bool, err error) {
	workflow, err := u.Turns.Runs.Look(ctx, t.WorkflowID)
	waitsForChild := workflow.Children && t.Reason != agent.StallCancelled
	if err != nil || !workflow.Running || workflow.Busy || waitsForChild {
		return false, err
	}
	switch t.Reason {
	case agent.StallSession:
		return true, u.Turns.Runs.Ready(ctx, t.WorkflowID)
	case agent.StallCancelled:
		return true, u.Turns.Runs.Interrupt(ctx, t.WorkflowID, agent.CancelRequest{Reason: "the turn was cancelled"})
	case agent.StallDecided:
	}
	return u.repeatDecisions(ctx, t)
}

// repeatDecisions signals what was decided, or provided, for the newest step that waited.
func (u *Upkeep) repeatDecisions(ctx context.Context, t agent.StalledTurn) (told bool, err error) {
	approvals, err := u.Turns.Store.Approvals(ctx, t.TurnID)
	if err != nil || len(approvals) == 0 {
		return false, err
	}
	step := approvals[len(approvals)-1].Step
	for i := range approvals {
		p := &approvals[i]
		if p.Step != step || p.By == agent.ExpiredBy { // the workflow itself decides what expires
			continue
		}
		if err := u.Turns.Runs.Resolved(ctx, t.WorkflowID, p); err != nil {
			return false, err
		}
	}
	return true, nil
}
