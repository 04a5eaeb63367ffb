package ws

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// socket is one connection.
type socket struct {
	door *Door
	v    *gateway.Call
	conn *websocket.Conn
	log  *zap.Logger

	ctx             context.Context // ends when the socket does
	cancel          context.CancelFunc
	open            context.Context         // ends when the socket begins to close gracefully; its cause is the reason
	closeGracefully context.CancelCauseFunc // cancels open

	out     chan outgoing // frames for the writer
	finish  chan struct{} // closed when no more answers or events will be sent
	written chan struct{} // closed when the writer has ended

	lifeSigns atomic.Int64 // counts frames, pings and pongs of the client
	isReading atomic.Bool  // whether the reader waits for the first byte of a frame
	isWriting atomic.Bool  // whether the writer waits for the client to take a frame

	work sync.WaitGroup // counts follows and requests in flight

	mu            sync.Mutex
	follows       map[string]context.CancelCauseFunc // by id of the frame
	requests      int                                // in flight
	bytesInFlight int64                              // of requests
	tails         map[string]chan struct{}           // by queue: closed when its last message was answered; see enqueue
}

// outgoing is a frame for the writer.
type outgoing struct {
	data        []byte
	beforeWrite func() // nil: nothing to do
}

// newSocket returns a socket without a connection. The caller must call release.
func newSocket(ctx context.Context, d *Door, v *gateway.Call) (s *socket, release func()) {
	l := v.Limits()
	s = &socket{
		door: d, v: v, log: d.cfg.Logger.With(zap.String("request_id", v.RequestID())),
		out: make(chan outgoing, l.StreamBuffer), finish: make(chan struct{}), written: make(chan struct{}),
		follows: map[string]context.CancelCauseFunc{}, tails: map[string]chan struct{}{},
	}
	// The context of the request is not used, because net/http does not define when it ends after the connection was hijacked.
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	gatewayOpen, stop := v.StreamContext(s.ctx)
	s.open, s.closeGracefully = context.WithCancelCause(gatewayOpen)
	return s, func() {
		s.closeGracefully(nil)
		stop()
		s.cancel()
	}
}

// run serves a connection until it has ended. queryErr is the error of the URL's query, if any.
func (s *socket) run(conn *websocket.Conn, netConn net.Conn, query url.Values, queryErr error) {
	s.conn = conn
	conn.SetReadLimit(-1)                                    // readFrame has a limit, and sends an error when it is exceeded
	context.AfterFunc(s.ctx, func() { _ = netConn.Close() }) // interrupts a read, a write and a close handshake
	defer func() { _ = conn.CloseNow() }()
	maxAge := time.AfterFunc(s.door.cfg.MaxAge, func() { s.closeGracefully(errTooOld) })
	defer maxAge.Stop()

	var loops sync.WaitGroup
	disconnected := make(chan struct{})
	loops.Go(func() {
		defer close(disconnected)
		if queryErr == nil {
			queryErr = s.followQuery(query)
		}
		if queryErr != nil {
			s.fail("", queryErr)
		}
		s.read()
	})
	loops.Go(s.write)
	loops.Go(s.keepAlive)
	select {
	case <-disconnected:
	case <-s.open.Done():
		s.drain(disconnected)
	}
	s.cancel()
	s.work.Wait()
	loops.Wait()
}

// drain waits until the follows and requests have ended and their frames are written, and then sends the close frame.
func (s *socket) drain(disconnected <-chan struct{}) {
	idle := make(chan struct{})
	s.mu.Lock() // reserve refuses new work from now on, and accepted work has been added to s.work
	go func() {
		s.work.Wait() // ends with s.ctx at the latest
		close(idle)
	}()
	s.mu.Unlock()
	select {
	case <-idle:
	case <-disconnected:
		return
	}
	close(s.finish)
	<-s.written
	reason := errRestart // if the gateway has closed
	if s.revocation() != nil {
		reason = &closeReason{code: statusUnauthenticated, reason: "unauthenticated"}
	}
	_ = errors.As(context.Cause(s.open), &reason)
	_ = s.conn.Close(reason.code, reason.reason) // waits up to ten seconds for the client's close frame
}

// revocation returns the error of a socket whose credential was revoked, or nil. Queued messages check it before they begin.
func (s *socket) revocation() error {
	if cause := context.Cause(s.open); agent.CodeOf(cause) == agent.CodeUnauthenticated {
		return cause
	}
	return nil
}

// send queues a frame for the writer. It waits while the queue is full, and returns false if the socket has ended.
func (s *socket) send(r *reply) bool { return s.sendThen(r, nil) }

// sendThen is send with a function that the writer calls before it writes the frame.
func (s *socket) sendThen(r *reply, beforeWrite func()) bool {
	data, err := gateway.EncodeJSON(r)
	if err != nil {
		s.log.Error("encode WebSocket frame", zap.String("type", r.Type), zap.String("frame", r.ID), zap.Error(err))
		s.cancel() // the client must notice that a frame is missing
		return false
	}
	select {
	case s.out <- outgoing{bytes.TrimSuffix(data, []byte("\n")), beforeWrite}:
		return true
	case <-s.written:
		return false
	case <-s.ctx.Done():
		return false
	}
}

// fail answers a frame with an error.
func (s *socket) fail(id string, err error) { s.send(s.failure(id, err)) }

// failure returns the frame of an error. The text of an internal error is only logged.
func (s *socket) failure(id string, err error) *reply {
	f, _, wait := gateway.FailureOf(err)
	if f.Type == string(agent.CodeInternal) {
		s.log.Error("WebSocket request", zap.String("frame", id), zap.Error(err))
	}
	return &reply{Type: typeError, ID: id, Error: f, RetryAfterMS: wait.Milliseconds()}
}

// write writes the queued frames until the socket ends or, after finish is closed, the queue is empty.
func (s *socket) write() {
	defer close(s.written)
	for {
		select {
		case o := <-s.out:
			if !s.writeFrame(o) {
				return
			}
		case <-s.finish:
			for len(s.out) > 0 { // no other goroutine receives from it
				if !s.writeFrame(<-s.out) {
					return
				}
			}
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// writeFrame writes one frame. If the client does not take it in time, it ends the socket and returns false.
func (s *socket) writeFrame(o outgoing) bool {
	if o.beforeWrite != nil {
		o.beforeWrite()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.v.Limits().WriteTimeout)
	defer cancel()
	s.isWriting.Store(true)
	defer s.isWriting.Store(false)
	if err := s.conn.Write(ctx, websocket.MessageText, o.data); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Info("a WebSocket client does not read: disconnected", zap.Duration("waited", s.v.Limits().WriteTimeout))
		}
		s.cancel()
		return false
	}
	return true
}

// keepAlive pings a silent client, so that proxies keep the connection and a client that has vanished is noticed.
func (s *socket) keepAlive() {
	tick := time.NewTicker(s.v.Limits().Heartbeat)
	defer tick.Stop()
	for last := int64(0); ; last = s.lifeSigns.Load() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if before := s.lifeSigns.Load(); before == last && !s.ping(before) {
			s.log.Info("a WebSocket client does not answer: disconnected")
			s.cancel()
			return
		}
	}
}

// ping pings the client and reports whether it may be alive. It may be alive without an answer while the socket waits for it to take a frame or to
// send the rest of one. Those waits have their own limits.
func (s *socket) ping(before int64) bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.v.Limits().WriteTimeout)
	defer cancel()
	return s.conn.Ping(ctx) == nil || s.lifeSigns.Load() != before || s.isWriting.Load() || !s.isReading.Load()
}
