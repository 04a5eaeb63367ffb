package relay

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/internal/stream"
	relayv1 "github.com/turnstone-run/turnstone/proto/turnstone/relay/v1"
)

const (
	// gatherTime is the minimum time between two frames for one process.
	gatherTime = 10 * time.Millisecond
	// silentFor is the time without events after which a stream's next event is sent at once.
	silentFor = 500 * time.Millisecond
	// beatInterval is the maximum time between two frames: the follower notices by it that this process is alive.
	beatInterval = time.Second
	// sendPatience is how long a follower may take to receive a frame. A slower one reads the database.
	sendPatience = 2 * time.Second
	// maxFrameBytes bounds a frame, which one event may exceed.
	maxFrameBytes = 1 << 20
)

// follower is another process that follows streams of this one.
type follower struct {
	source  Source
	process string
	wake    chan struct{} // holds one signal: something moved
	hurry   chan struct{} // holds one signal: it should go at once

	mu      sync.Mutex
	over    bool
	follows map[uint64]*follow
	moved   map[*follow]struct{} // with something to read
	gone    []uint64             // that could not be followed
}

// follow is a stream that is followed. Its stream, after and sentAt are used by one goroutine at a time.
type follow struct {
	number uint64
	stream Stream
	after  int64     // index of the newest event that was sent
	sentAt time.Time // guarded by the follower's mutex
}

func newFollower(source Source, process string) *follower {
	return &follower{
		source: source, process: process, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		follows: map[uint64]*follow{}, moved: map[*follow]struct{}{},
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// receive does what the follower asks for, until the call ends.
func (f *follower) receive(call relayv1.RelayService_FollowServer) {
	for {
		request, err := call.Recv()
		if err != nil {
			return
		}
		for _, number := range request.GetUnfollow() {
			f.end(number)
		}
		for _, s := range request.GetFollow() {
			f.begin(s.GetNumber(), s.GetStreamId(), s.GetAfterIndex())
		}
	}
}

// begin follows a stream. What is there already is sent at once.
func (f *follower) begin(number uint64, id string, after int64) {
	follow := &follow{number: number, after: after}
	f.mu.Lock()
	full := f.over || len(f.follows) >= maxFollows || f.follows[number] != nil
	f.mu.Unlock()
	if !full {
		follow.stream = f.source.Open(f.process, id, func() { f.mark(follow) })
	}
	f.mu.Lock()
	switch {
	case follow.stream == nil:
		f.gone = append(f.gone, number)
		signal(f.wake)
	case f.over:
		defer follow.stream.Close()
	default:
		f.follows[number] = follow
	}
	f.mu.Unlock()
	f.mark(follow)
}

// mark notes that a stream may have more to send.
func (f *follower) mark(follow *follow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follows[follow.number] != follow {
		return
	}
	f.moved[follow] = struct{}{}
	signal(f.wake)
	if time.Since(follow.sentAt) > silentFor {
		signal(f.hurry)
	}
}

// end ends the following of a stream.
func (f *follower) end(number uint64) {
	f.mu.Lock()
	follow := f.follows[number]
	delete(f.follows, number)
	delete(f.moved, follow)
	f.mu.Unlock()
	if follow != nil {
		follow.stream.Close()
	}
}

// close ends all.
func (f *follower) close() {
	f.mu.Lock()
	f.over = true
	follows := f.follows
	f.follows = map[uint64]*follow{}
	f.mu.Unlock()
	for _, follow := range follows {
		follow.stream.Close()
	}
}

// send sends what the followed streams have, until the call ends or the follower does not take it in time.
func (f *follower) send(call relayv1.RelayService_FollowServer) error {
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		alive := false
		select {
		case <-f.wake:
		case <-beat.C:
			alive = true
		case <-call.Context().Done():
			return nil
		}
		frame := f.collect()
		if len(frame.GetPieces()) == 0 && !alive {
			continue
		}
		if err := sendInTime(call, frame); err != nil {
			return err
		}
		select {
		case <-time.After(gatherTime):
		case <-f.hurry:
		case <-call.Context().Done():
			return nil
		}
	}
}

// sendInTime gives up on a follower that does not read.
func sendInTime(call relayv1.RelayService_FollowServer, frame *relayv1.FollowResponse) error {
	sent := make(chan error, 1)
	go func() { sent <- call.Send(frame) }() // ends with the call
	select {
	case err := <-sent:
		return err
	case <-time.After(sendPatience):
		return status.Error(codes.ResourceExhausted, "the follower is too slow")
	case <-call.Context().Done():
		return context.Cause(call.Context())
	}
}

// collect returns what is to be sent now.
func (f *follower) collect() *relayv1.FollowResponse {
	f.mu.Lock()
	frame := &relayv1.FollowResponse{Pieces: make([]*relayv1.Piece, 0, len(f.gone)+len(f.moved))}
	for _, number := range f.gone {
		frame.Pieces = append(frame.Pieces, &relayv1.Piece{Number: number, Gone: true})
	}
	f.gone = nil
	moved := make([]*follow, 0, len(f.moved))
	now := time.Now()
	for follow := range f.moved {
		follow.sentAt = now
		moved = append(moved, follow)
	}
	clear(f.moved)
	f.mu.Unlock()
	room := maxFrameBytes
	for _, follow := range moved {
		piece, more := follow.piece(&room)
		if piece != nil {
			frame.Pieces = append(frame.Pieces, piece)
		}
		if more {
			f.mark(follow)
		}
		if piece != nil && (piece.GetClosed() || piece.GetGone()) {
			f.end(follow.number)
		}
	}
	return frame
}

// piece returns what a stream has, as far as there is room, and whether it has more; nil if it has nothing.
func (f *follow) piece(room *int) (piece *relayv1.Piece, more bool) {
	if *room <= 0 {
		return nil, true
	}
	page, ok := f.stream.Read(f.after)
	if !ok {
		return &relayv1.Piece{Number: f.number, Gone: true}, false
	}
	piece = &relayv1.Piece{Number: f.number, Events: make([][]byte, 0, len(page.Events))}
	for i := range page.Events {
		if *room <= 0 {
			break
		}
		body, err := stream.Encode(&page.Events[i])
		if err != nil { // no: it was checked when it came in
			return &relayv1.Piece{Number: f.number, Gone: true}, false
		}
		piece.Events = append(piece.Events, body)
		*room -= len(body)
		f.after = page.Events[i].Meta.EventIndex
	}
	piece.Closed = page.Closed && f.after >= page.Last
	if len(piece.GetEvents()) == 0 && !piece.GetClosed() {
		return nil, false
	}
	return piece, f.after < page.Last
}
