package ws

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// begin starts the work that a frame asks for, or returns an error if it refuses the frame. size is the frame's length in bytes.
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

// reserve counts the bytes of a frame as in flight, or refuses the frame. mu is locked.
func (s *socket) reserve(r *request, size int64) error {
	switch {
	case s.open.Err() != nil:
		return context.Cause(s.open)
	case s.follows[r.ID] != nil:
		return agent.Invalid("id", "%q is the id of a follow that runs", r.ID)
	case s.bytesInFlight > 0 && s.bytesInFlight+size > s.v.Limits().BodyBytes:
		return limitReached(s.bytesInFlight, "bytes of requests in flight")
	}
	s.bytesInFlight += size
	return nil
}

func (s *socket) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytesInFlight -= size
}

// limitReached returns the error for a socket that already has n of something, which is its limit.
func limitReached(n int64, what string) error {
	return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Second, Err: fmt.Errorf("this socket has %d %s already", n, what)}
}

// enqueue adds a message to the queue of its session or turn, so that messages of one session are submitted in the order of their frames. The caller
// waits for ready, unless it is nil, and calls next when the next message may be submitted. mu is locked.
func (s *socket) enqueue(r *request) (ready <-chan struct{}, next func()) {
	key := "turn/" + string(r.TurnID)
	if r.Type == typeTurn {
		if r.Request.SessionID == "" {
			return nil, func() {}
		}
		key = "session/" + string(r.Request.SessionID)
	}
	ready = s.tails[key]
	done := make(chan struct{})
	s.tails[key] = done
	return ready, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tails[key] == done {
			delete(s.tails, key)
		}
		close(done)
	}
}

// wait waits for ready, unless it is nil. Afterwards it returns an error if the credential was revoked meanwhile.
func (s *socket) wait(ready <-chan struct{}) error {
	if ready == nil {
		return nil
	}
	select {
	case <-ready:
	case <-s.ctx.Done():
	}
	return s.revocation()
}

// beginCall starts a request that has one frame as its answer.
func (s *socket) beginCall(r *request, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests >= s.door.cfg.Requests {
		return limitReached(int64(s.requests), "requests in flight")
	}
	if err := s.reserve(r, size); err != nil {
		return err
	}
	s.requests++
	var ready <-chan struct{}
	next := func() {}
	if r.Type == typeMessage {
		ready, next = s.enqueue(r)
	}
	s.work.Go(func() {
		defer next() // after the answer was queued, so that answers have the order of the messages
		var answer *reply
		err := s.wait(ready)
		if err == nil {
			err = recoverPanic(func() (err error) { answer, err = s.call(r); return err })
		}
		if err != nil {
			answer = s.failure(r.ID, err)
		}
		answer.ID = r.ID
		s.sendThen(answer, func() { // only now, so that a client that does not read its answers can have no more requests
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests--
			s.bytesInFlight -= size
		})
	})
	return nil
}

// recoverPanic calls do and returns a panic as an error. net/http does not recover panics of the socket's goroutines.
func recoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// call handles a frame and returns its answer.
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
		return nil, agent.Errorf(agent.CodeInternal, "", "no handler for frames of type %s", r.Type)
	}
}

func acceptedReply(r agent.Receipt) *reply {
	return &reply{Type: typeAccepted, TurnID: r.TurnID, SessionID: r.SessionID, StreamID: r.StreamID, Joined: r.Joined}
}
