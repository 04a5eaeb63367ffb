package ws

import (
	"context"
	"errors"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// beginFollow starts to follow a turn. For a frame of type turn, it submits the turn first. The last frame of a follow is done, ok (after unfollow)
// or error.
func (s *socket) beginFollow(r *request, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.follows); n >= s.door.cfg.Follows {
		return limitReached(int64(n), "follows")
	}
	leave, err := s.v.Enter() // before the turn is submitted, so that a refused frame starts no turn
	if err != nil {
		return err
	}
	if err := s.reserve(r, size); err != nil {
		leave()
		return err
	}
	ctx, cancel := context.WithCancelCause(s.open)
	s.follows[r.ID] = cancel
	f := &follow{socket: s, id: r.ID, turn: r.TurnID}
	if r.AfterIndex != nil {
		f.after = *r.AfterIndex
	}
	begin := f.find
	if r.Type == typeTurn {
		ready, next := s.enqueue(r)
		request := r.Request
		begin = func() (gateway.TurnView, error) {
			defer next()
			if err := s.wait(ready); err != nil {
				return gateway.TurnView{}, err
			}
			return f.submit(request)
		}
	}
	s.work.Go(func() {
		defer cancel(nil)
		var v gateway.TurnView
		err := recoverPanic(func() (err error) { v, err = begin(); return err })
		begin = nil // it refers to the request, which is not needed while the turn is followed
		s.release(size)
		if err == nil {
			err = recoverPanic(func() error { return f.run(ctx, &v) })
		}
		leave()
		f.finish(err)
	})
	return nil
}

// unfollow ends a follow. The follow's own last frame is the answer.
func (s *socket) unfollow(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.follows[id]
	if cancel == nil {
		return agent.FieldErrorf(agent.CodeNotFound, "id", "no follow %q runs", id)
	}
	cancel(errUnfollowed)
	return nil
}

// follow is one turn that a socket follows.
type follow struct {
	*socket

	id    string
	turn  agent.TurnID
	after int64
}

// submit submits the turn and sends the frame accepted.
func (f *follow) submit(r *agent.TurnRequest) (gateway.TurnView, error) {
	receipt, err := f.v.Submit(f.ctx, channel, r)
	if err != nil {
		return gateway.TurnView{}, err
	}
	f.turn = receipt.TurnID
	answer := acceptedReply(receipt)
	answer.ID = f.id
	f.send(answer)
	if receipt.Joined {
		return f.find()
	}
	f.after = 0 // the offset of the frame is for a turn that existed before
	return gateway.TurnView{TurnID: receipt.TurnID}, nil
}

// find returns the turn to follow.
func (f *follow) find() (gateway.TurnView, error) { return f.v.Turn(f.ctx, f.turn) }

// run sends the turn's events to the last one, after which it returns nil.
func (f *follow) run(ctx context.Context, v *gateway.TurnView) error {
	hasEnded, err := gateway.Resumable(v, f.after)
	if hasEnded || err != nil {
		return err
	}
	for e, err := range f.v.Follow(ctx, v.TurnID, f.after) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if !f.send(&reply{Type: typeEvent, ID: f.id, Event: &e}) || e.Terminal() {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn: follow it again", v.TurnID)
}

// finish frees the id and sends the last frame of the follow. Its turn id distinguishes it from the error of another frame with the same id.
func (f *follow) finish(err error) {
	f.mu.Lock()
	delete(f.follows, f.id)
	f.mu.Unlock()
	last := &reply{Type: typeDone}
	switch {
	case errors.Is(err, errUnfollowed):
		last.Type = typeOK
	case err != nil:
		last = f.failure(f.id, err)
	}
	last.ID, last.TurnID = f.id, f.turn
	f.send(last)
}
