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
	// upkeepInterval is the time between two rounds of Upkeep, a little more at random. Each wakeRounds rounds it looks for stalled turns.
	upkeepInterval = 5 * time.Second
	wakeRounds     = 6
	// stalledAfter is how long a turn may take to continue by itself. It is longer than Temporal takes to replace a dead worker.
	stalledAfter = 15 * time.Second
	// Bounds of one round.
	maxUpkeepTurns    = 200
	maxParallelUpkeep = 8
	upkeepTimeout     = time.Minute
)

// Upkeep continues recorded turns that have been abandoned or have stalled, and adds up usage in the store.
type Upkeep struct {
	Turns *Turns
	Store UpkeepStore
}

// UpkeepStore finds turns that do not continue by themselves.
type UpkeepStore interface {
	// StalledTurns returns durable turns that, according to the store, should have continued at least minAge ago and have not.
	StalledTurns(ctx context.Context, minAge time.Duration, limit int) ([]agent.StalledTurn, error)
	// Stranded calls work with turns that may have been abandoned: recorded at least minAge ago and not begun, or direct with an expired lease. Only one
	// process at a time does so; ran is false in the others.
	Stranded(ctx context.Context, minAge time.Duration, limit int, work func(context.Context, []agent.TurnID) error) (ran bool, err error)
	// AddUpUsage adds the new rows of the ledger to the daily sums, and returns their number.
	AddUpUsage(ctx context.Context) (added int64, err error)
}

// Run starts turns that were recorded but not started, takes over direct turns whose process died, wakes stalled turns, and adds up usage by day, until
// ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(upkeepInterval + rand.N(upkeepInterval/2)): // spreads the rounds of several processes
		}
		if err := u.StartStranded(ctx); err != nil && ctx.Err() == nil {
			u.Turns.Logger.Warn("start turns that nobody drives", zap.Error(err))
		}
		if err := u.addUpUsage(ctx); err != nil && ctx.Err() == nil {
			u.Turns.Logger.Warn("add up usage by day", zap.Error(err))
		}
		if round%wakeRounds != 0 {
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

// StartStranded starts or ends the turns that have been abandoned, unless another process is doing so.
func (u *Upkeep) StartStranded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	_, err := u.Store.Stranded(ctx, orphanAfter, maxUpkeepTurns, func(ctx context.Context, ids []agent.TurnID) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(maxParallelUpkeep)
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

// WakeStalledTurns signals workflows that may have missed a decision, a cancellation, or that they hold their session. It does not signal workflows that
// make progress. It returns the number of workflows that it has signalled.
func (u *Upkeep) WakeStalledTurns(ctx context.Context, minAge time.Duration) (woken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	stalled, err := u.Store.StalledTurns(ctx, minAge, maxUpkeepTurns)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, t := range stalled {
		isWoken, err := u.wake(ctx, t)
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
		}
		if isWoken {
			woken++
		}
	}
	return woken, errors.Join(errs...)
}

// wake signals one stalled turn, and reports whether it did. It does nothing if the workflow no longer exists: the followers of that turn end it.
func (u *Upkeep) wake(ctx context.Context, t agent.StalledTurn) (isWoken bool, err error) {
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

// repeatDecisions signals the decisions and provided results of the newest step that waited.
func (u *Upkeep) repeatDecisions(ctx context.Context, t agent.StalledTurn) (isWoken bool, err error) {
	approvals, err := u.Turns.Store.Approvals(ctx, t.TurnID)
	if err != nil || len(approvals) == 0 {
		return false, err
	}
	step := approvals[len(approvals)-1].Step
	for i := range approvals {
		p := &approvals[i]
		if p.Step != step || p.By == agent.ExpiredBy { // the workflow finds expired approvals itself
			continue
		}
		if err := u.Turns.Runs.Resolved(ctx, t.WorkflowID, p); err != nil {
			return false, err
		}
	}
	return true, nil
}
