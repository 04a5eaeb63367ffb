package inbox

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// beginPatience is how long a turn that has not begun holds its place among those that start.
	beginPatience = 30 * time.Second
	// joinsInOverload bounds the reads, side by side, that find out whether a request's turn exists while there is no capacity for a new one;
	// joinPatience is how long a request waits for such a read.
	joinsInOverload = 4
	joinPatience    = 250 * time.Millisecond
)

// enterCapacity takes a place among the turns that start, or waits a moment for one.
func (b *Inbox) enterCapacity(ctx context.Context) (leave func(begun bool), err error) {
	if b.Capacity == nil {
		return func(bool) {}, nil
	}
	return b.Capacity.Enter(ctx)
}

// joinInOverload joins the turn that a request names if it exists, and refuses the request otherwise.
func (s *submission) joinInOverload(ctx context.Context, refusal error) (agent.Receipt, int, error) {
	if s.chosen == "" {
		return agent.Receipt{}, 0, refusal
	}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	if s.overloadJoins.Acquire(ctx, 1) != nil {
		return agent.Receipt{}, 0, refusal
	}
	defer s.overloadJoins.Release(1)
	receipt, known := s.findAcceptedTurn(ctx)
	if !known {
		return agent.Receipt{}, 0, refusal
	}
	s.audit(receipt, nil)
	return receipt, 0, nil
}

// awaitBegin gives a turn's place back when its first event is there, which its workflow writes when it begins. Of a turn whose events cannot
// be read it says nothing.
func (b *Inbox) awaitBegin(ctx context.Context, id agent.TurnID, leave func(begun bool)) {
	ctx, cancel := context.WithTimeout(ctx, beginPatience)
	defer cancel()
	for _, err := range b.Log.Follow(ctx, string(id), 0) {
		leave(err == nil || ctx.Err() != nil)
		return
	}
	leave(true)
}
