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

// defaultIdleCheck is how long a follower waits for an event before it checks that somebody drives the turn.
const defaultIdleCheck = 30 * time.Second

// Follow yields a turn's events. During a silence it checks that somebody drives the turn, and ends the stream with FAILED if nobody does: a terminated
// workflow writes no last event.
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

// watchSilence checks a turn after every silence, until the function that it returns is called. lastEvent is the time of its last event in Unix
// nanoseconds. A turn that waits for a person may be silent for days.
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
		if rest := b.IdleCheck - time.Since(time.Unix(0, lastEvent.Load())); rest > 0 {
			timer.Reset(rest)
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

// endSilentTurn ends a turn that nobody drives: it writes the terminal event to the turn's stream.
func (ts *Turns) endSilentTurn(ctx context.Context, id agent.TurnID) error {
	tail, err := ts.Log.Tail(ctx, string(id))
	if err != nil || tail.Closed {
		return err
	}
	t, err := ts.Store.Turn(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // the workflow and the stream may still exist
		t.Record.TurnID = id
	case err != nil:
		return err
	}
	_, err = ts.EndIfOrphaned(ctx, &t)
	return err
}
