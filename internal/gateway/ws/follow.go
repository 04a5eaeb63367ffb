package ws

import (
	"context"
	"errors"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// beginFollow starts a follow, and for a frame of type turn the turn before it. Its last frame is done, ok (unfollow) or error.
func (s *socket) beginFollow(r *request, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.follows); n >= s.door.cfg.Follows {
		return tooMuch(int64(n), "follows")
	}
	leave, err := s.v.Enter() // before anything else: a refusal must mean that nothing runs
	if err != nil {
		return err
	}
	if err := s.hold(r, size); err != nil {
		leave()
		return err
	}
	ctx, cancel := context.WithCancelCause(s.open)
	s.follows[r.ID] = cancel
	f := &follow{socket: s, id: r.ID, turn: r.TurnID}
	if r.AfterIndex != nil {
		f.after = *r.AfterIndex
	}
	find := f.find
	if r.Type == typeTurn {
		ready, next := s.lineUp(r)
		request := r.Request
		find = func() (gateway.TurnView, error) {
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
		err := recoverPanic(func() (err error) { v, err = find(); return err })
		find = nil // it holds the request, and a follow may be long
		s.release(size)
		if err == nil {
			err = recoverPanic(func() error { return f.run(ctx, &v) })
		}
		leave()
		f.over(err)
	})
	return nil
}

// unfollow ends a follow: what ends it is answered in the order of its events.
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

// submit starts a turn and says so.
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
	f.after = 0 // a new turn has no past to skip
	return gateway.TurnView{TurnID: receipt.TurnID}, nil
}

// find looks up the turn to follow.
func (f *follow) find() (gateway.TurnView, error) { return f.v.Turn(f.ctx, f.turn) }

// run sends the events of a turn until its end, which is no error.
func (f *follow) run(ctx context.Context, v *gateway.TurnView) error {
	over, err := gateway.Resumable(v, f.after)
	if over || err != nil {
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

// over frees the id and sends the last frame that bears it. The turn id tells it from the error of another frame.
func (f *follow) over(err error) {
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
