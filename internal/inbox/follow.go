package inbox

import (
	"context"
	"iter"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Follow yields a turn's events. While nothing happens it makes sure that somebody still runs the turn, and ends the stream with
// FAILED when nobody does: a terminated workflow says no last word (DESIGN §4).
func (b *Inbox) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		heard := make(chan struct{}, 1)
		var wg sync.WaitGroup
		wg.Go(func() { b.watch(ctx, id, heard) })
		defer wg.Wait()
		defer stop()
		for e, err := range b.Log.Follow(ctx, string(id), after) {
			select {
			case heard <- struct{}{}:
			default:
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// watch ends an orphaned turn's stream after a silence. A turn that waits for a person is silent for days and well.
func (b *Inbox) watch(ctx context.Context, id agent.TurnID, heard <-chan struct{}) {
	idle := time.NewTimer(b.IdleCheck)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
		case <-idle.C:
			if err := b.settle(ctx, id); err != nil && ctx.Err() == nil {
				b.Logger.Warn("checking a silent turn", zap.String("turn", string(id)), zap.Error(err))
			}
		}
		idle.Reset(b.IdleCheck)
	}
}

// settle gives a turn whose workflow is gone its terminal event.
func (b *Inbox) settle(ctx context.Context, id agent.TurnID) error {
	tail, err := b.Log.Tail(ctx, string(id))
	if err != nil || tail.Closed {
		return err
	}
	t, err := b.Store.Turn(ctx, id)
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return err
	}
	_, err = b.endOrphan(ctx, id, &t)
	return err
}
