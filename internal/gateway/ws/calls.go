package ws

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// begin starts what a frame of so many bytes asks for, or says why not.
func (s *socket) begin(r *request, size int64) error {
	switch r.Type {
	case typePing:
		s.send(&reply{Type: typePong, ID: r.ID})
		return nil
	case typeUnfollow:
		return s.unfollow(r.ID)
	case typeTurn, typeFollow:
		return s.beginFollow(r, size)
	default:
		return s.beginCall(r, size)
	}
}

// hold takes room for a frame; mu is locked.
func (s *socket) hold(r *request, size int64) error {
	switch {
	case s.open.Err() != nil:
		return context.Cause(s.open)
	case s.follows[r.ID] != nil:
		return agent.Invalid("id", "%q is the id of a follow that runs", r.ID)
	case s.held > 0 && s.held+size > s.v.Limits().BodyBytes:
		return tooMuch(s.held, "bytes of requests in flight")
	}
	s.held += size
	return nil
}

func (s *socket) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= size
}

// tooMuch refuses what a socket has no room for: so many of what are there.
func tooMuch(n int64, what string) error {
	return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Second, Err: fmt.Errorf("this socket has %d %s already", n, what)}
}

// lineUp puts a message behind those before it in the same session, so that two that are sent without waiting keep their order. What has
// waited for ready is to call next when the one behind it may go; mu is locked.
func (s *socket) lineUp(r *request) (ready <-chan struct{}, next func()) {
	key := "turn/" + string(r.TurnID)
	if r.Type == typeTurn {
		if r.Request.SessionID == "" {
			return nil, func() {}
		}
		key = "session/" + string(r.Request.SessionID)
	}
	ready = s.tails[key]
	mine := make(chan struct{})
	s.tails[key] = mine
	return ready, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tails[key] == mine {
			delete(s.tails, key)
		}
		close(mine)
	}
}

// wait waits for ready, if there is something to wait for, and says whether what has waited may begin.
func (s *socket) wait(ready <-chan struct{}) error {
	if ready == nil {
		return nil
	}
	select {
	case <-ready:
	case <-s.ctx.Done():
	}
	return s.revoked()
}

// beginCall starts a request that gets one frame as its answer.
func (s *socket) beginCall(r *request, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests >= s.door.cfg.Requests {
		return tooMuch(int64(s.requests), "requests in flight")
	}
	if err := s.hold(r, size); err != nil {
		return err
	}
	s.requests++
	var ready <-chan struct{}
	next := func() {}
	if r.Type == typeMessage {
		ready, next = s.lineUp(r)
	}
	s.work.Go(func() {
		defer next() // behind the answer, so that answers have the order, too
		var answer *reply
		err := s.wait(ready)
		if err == nil {
			err = recoverPanic(func() (err error) { answer, err = s.call(r); return err })
		}
		if err != nil {
			answer = s.failure(r.ID, err)
		}
		answer.ID = r.ID
		s.sendThen(answer, func() { // not before: who does not read his answers gets no more of them
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests--
			s.held -= size
		})
	})
	return nil
}

// recoverPanic makes an error of a panic, as the gateway does for a handler: what asks in the background must not end the process.
func recoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// call does what a frame asks for.
func (s *socket) call(r *request) (*reply, error) {
	ok := &reply{Type: typeOK, TurnID: r.TurnID}
	switch r.Type {
	case typeMessage:
		receipt, position, err := s.v.Message(s.ctx, channel, r.TurnID, r.Request)
		answer := acceptedReply(receipt)
		answer.Position = &position
		return answer, err
	case typeGet:
		v, err := s.v.Turn(s.ctx, r.TurnID)
		return &reply{Type: typeState, TurnID: v.TurnID, Turn: v.Body()}, err
	case typeDecide:
		return ok, s.v.Decide(s.ctx, r.TurnID, *r.Decision)
	case typeProvide:
		return ok, s.v.Provide(s.ctx, r.TurnID, *r.Provided)
	case typeCancel:
		return ok, s.v.Cancel(s.ctx, r.TurnID, agent.CancelRequest{Reason: r.Reason, By: r.By})
	default:
		return nil, agent.Errorf(agent.CodeInternal, "", "nobody answers frames of type %s", r.Type)
	}
}

func acceptedReply(r agent.Receipt) *reply {
	return &reply{Type: typeAccepted, TurnID: r.TurnID, SessionID: r.SessionID, StreamID: r.StreamID, Joined: r.Joined}
}
