package turns

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// defaultIdleCheck is the default of [InboxConfig.IdleCheck].
const defaultIdleCheck = 30 * time.Second

// Follow yields a turn's events. When no event comes for [InboxConfig.IdleCheck], it checks that something still runs the turn and, if not, ends the
// stream with FAILED, because a terminated workflow writes no last event.
func (b *Inbox) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		var lastEvent atomic.Int64
		lastEvent.Store(time.Now().UnixNano())
		defer b.watchSilence(ctx, id, &lastEvent)()
		for e, err := range b.Turns.Log.Follow(ctx, string(id), after) {
			lastEvent.Store(time.Now().UnixNano())
			if !yield(e, err) {
				return
			}
		}
	}
}

// watchSilence checks a turn each time it has had no event for IdleCheck, until stop is called. lastEvent is the time of the turn's last event in Unix
// nanoseconds. A turn that waits for a person may have no event for days.
func (b *Inbox) watchSilence(ctx context.Context, id agent.TurnID, lastEvent *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.Mutex
	var timer *time.Timer
	checking.Lock()
	defer checking.Unlock()
	timer = time.AfterFunc(b.IdleCheck, func() {
		checking.Lock()
		defer checking.Unlock()
		if ctx.Err() != nil {
			return
		}
		if wait := b.IdleCheck - time.Since(time.Unix(0, lastEvent.Load())); wait > 0 {
			timer.Reset(wait)
			return
		}
		if err := b.Turns.endSilentTurn(ctx, id); err != nil && ctx.Err() == nil {
			b.Turns.Logger.Warn("checking a silent turn", zap.String("turn", string(id)), zap.Error(err))
		}
		timer.Reset(b.IdleCheck)
	})
	return func() {
		cancel()
		checking.Lock()
		defer checking.Unlock()
		timer.Stop()
	}
}

// endSilentTurn ends a turn, and its stream with the terminal event, if nothing runs the turn any more.
func (ts *Turns) endSilentTurn(ctx context.Context, id agent.TurnID) error {
	tail, err := ts.Log.Tail(ctx, string(id))
	if err != nil || tail.Closed {
		return err
	}
	t, err := ts.Store.Turn(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // not recorded, but it may have a workflow and a stream
		t.Record.TurnID = id
	case err != nil:
		return err
	}
	_, err = ts.EndIfOrphaned(ctx, &t)
	return err
}
