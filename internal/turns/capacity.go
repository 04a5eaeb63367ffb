package turns

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxBeginTime is how long a turn that has not begun keeps its place among those that start.
	maxBeginTime = 30 * time.Second
	// maxOverloadReads bounds the reads, side by side, that find a request's turn while there is no capacity for a new one. A request waits at most
	// maxOverloadWait for such a read.
	maxOverloadReads = 4
	maxOverloadWait  = 250 * time.Millisecond
)

// Capacity bounds how many turns start at the same time; admission.Capacity does.
type Capacity interface {
	// Enter takes a place among the turns that start, or waits a moment for one. A refusal is [agent.CodeUnavailable]: nothing was started. leave
	// gives the place back; begun says that the turn has begun by then.
	Enter(ctx context.Context) (leave func(begun bool), err error)
}

// leaveCapacity gives a request's place back: at once, or when the workflow that it has started begins.
func (s *submission) leaveCapacity(ctx context.Context, leave func(begun bool), started bool) {
	if started && s.mode != agent.ModeDirect {
		go s.awaitBegin(context.WithoutCancel(ctx), s.req.TurnID, leave)
		return
	}
	leave(started) // a driver's Submit returns when the turn has begun
}

// awaitBegin gives a turn's place back when its first event is there, which its workflow writes when it begins. If the events cannot be read, the turn
// does not count as begun.
func (b *Inbox) awaitBegin(ctx context.Context, id agent.TurnID, leave func(begun bool)) {
	ctx, cancel := context.WithTimeout(ctx, maxBeginTime)
	defer cancel()
	for _, err := range b.Turns.Log.Follow(ctx, string(id), 0) {
		leave(err == nil || ctx.Err() != nil)
		return
	}
	leave(true)
}

// joinInOverload joins the turn that a request names if it exists, and refuses the request otherwise.
func (s *submission) joinInOverload(ctx context.Context, refusal error) (agent.Receipt, int, error) {
	if s.idField == "" {
		return agent.Receipt{}, 0, refusal
	}
	ctx, cancel := context.WithTimeout(ctx, maxOverloadWait)
	defer cancel()
	if s.overloadReads.Acquire(ctx, 1) != nil {
		return agent.Receipt{}, 0, refusal
	}
	defer s.overloadReads.Release(1)
	return s.joinOrRefuse(ctx, refusal)
}
