package turns

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxBeginTime is how long a turn that has not begun keeps its place among the starting turns.
	maxBeginTime = 30 * time.Second
	// While there is no capacity for new turns, at most maxOverloadReads requests at a time look for an existing turn to join. Each takes at most
	// maxOverloadWait.
	maxOverloadReads = 4
	maxOverloadWait  = 250 * time.Millisecond
)

// Capacity bounds how many turns start at the same time. It is implemented by admission.Capacity.
type Capacity interface {
	// Enter takes a place among the starting turns, and may wait briefly for one. A refusal is [agent.CodeUnavailable]. leave gives the place
	// back; begun reports whether the turn has begun.
	Enter(ctx context.Context) (leave func(begun bool), err error)
}

// leaveCapacity gives a request's place back: when the workflow that the request has started begins, or else at once.
func (s *submission) leaveCapacity(ctx context.Context, leave func(begun bool), started bool) {
	if started && s.mode != agent.ModeDirect {
		go s.awaitBegin(context.WithoutCancel(ctx), s.req.TurnID, leave)
		return
	}
	leave(started) // Driver.Submit returns after a direct turn has begun
}

// awaitBegin gives a turn's place back at the turn's first event, which the workflow writes when it begins. If the events cannot be read, the turn
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
