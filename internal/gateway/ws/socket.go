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

	ctx  context.Context // the socket's life: everything of it ends with it
	cut  context.CancelFunc
	open context.Context // until the socket is to end gently; its cause says why
	end  context.CancelCauseFunc

	out     chan outgoing // frames that wait for the writer
	finish  chan struct{} // closed: nothing comes any more but refusals
	written chan struct{} // closed: nobody writes any more

	lifeSigns atomic.Int64 // of the client, counted
	reading   atomic.Bool  // the reader waits for the client, and for nothing else
	writing   atomic.Bool  // the writer waits for the client to take a frame

	work sync.WaitGroup // follows, and requests in flight

	mu       sync.Mutex
	follows  map[string]context.CancelCauseFunc
	requests int
	held     int64                    // bytes of frames that are worked on
	tails    map[string]chan struct{} // of the queues in which messages wait for the one before
}

// outgoing is a frame on its way to the writer.
type outgoing struct {
	data  []byte
	taken func() // called before it is written, where something waits for its turn; may be nil
}

// newSocket prepares a socket whose connection is yet to come. Release it whatever happens.
func newSocket(ctx context.Context, d *Door, v *gateway.Call) (s *socket, release func()) {
	l := v.Limits()
	s = &socket{
		door: d, v: v, log: d.cfg.Logger.With(zap.String("request_id", v.RequestID())),
		out: make(chan outgoing, l.StreamBuffer), finish: make(chan struct{}), written: make(chan struct{}),
		follows: map[string]context.CancelCauseFunc{}, tails: map[string]chan struct{}{},
	}
	// Not the request's own context: what becomes of that once a connection is taken over is nobody's promise.
	s.ctx, s.cut = context.WithCancel(context.WithoutCancel(ctx))
	closing, stop := v.StreamContext(s.ctx)
	s.open, s.end = context.WithCancelCause(closing)
	return s, func() {
		s.end(nil)
		stop()
		s.cut()
	}
}

// run serves a connection until it is over.
func (s *socket) run(conn *websocket.Conn, wire net.Conn, query url.Values, badQuery error) {
	s.conn = conn
	conn.SetReadLimit(-1)                                                 // read.go has a bound of its own, to say so before it hangs up
	context.AfterFunc(s.ctx, func() { _ = wire.Close() })                 // also in the middle of a read, a write, a close handshake
	defer func() { _ = conn.CloseNow() }()                                // nothing is left to tell
	old := time.AfterFunc(s.door.cfg.MaxAge, func() { s.end(errTooOld) }) // and every follow with it
	defer old.Stop()

	var own sync.WaitGroup
	gone := make(chan struct{})
	own.Go(func() {
		defer close(gone)
		if badQuery == nil {
			badQuery = s.followQuery(query)
		}
		if badQuery != nil {
			s.fail("", badQuery)
		}
		s.read()
	})
	own.Go(s.write)
	own.Go(s.keepAlive)
	select {
	case <-gone:
	case <-s.open.Done():
		s.leave(gone)
	}
	s.cut()
	s.work.Wait()
	own.Wait()
}

// leave ends a socket gently: what runs comes to its end, what waits is written, and the close frame says why.
func (s *socket) leave(gone <-chan struct{}) {
	idle := make(chan struct{})
	s.mu.Lock() // hold refuses new work now, and what it let pass has begun
	go func() {
		s.work.Wait() // ends with s.ctx at the latest
		close(idle)
	}()
	s.mu.Unlock()
	select {
	case <-idle:
	case <-gone:
		return
	}
	close(s.finish)
	<-s.written
	bye := errRestart
	if s.revoked() != nil {
		bye = &closeReason{code: statusUnauthenticated, reason: "unauthenticated"}
	}
	_ = errors.As(context.Cause(s.open), &bye) // else the gateway's own
	_ = s.conn.Close(bye.code, bye.reason)     // within ten seconds; a client that says nothing is gone
}

// revoked is why nothing may begin any more: the credential does not hold. What waits for its turn asks before it begins.
func (s *socket) revoked() error {
	if cause := context.Cause(s.open); agent.CodeOf(cause) == agent.CodeUnauthenticated {
		return cause
	}
	return nil
}

// send queues a frame behind those that wait. It waits for room, which the client makes by reading; false: the socket is over.
func (s *socket) send(r *reply) bool { return s.sendThen(r, nil) }

// sendThen is send, and calls taken when the frame's turn has come, before the client can have it.
func (s *socket) sendThen(r *reply, taken func()) bool {
	data, err := gateway.EncodeJSON(r)
	if err != nil {
		s.log.Error("encode WebSocket frame", zap.String("type", r.Type), zap.String("frame", r.ID), zap.Error(err))
		s.cut() // what comes next must not hide that a frame is missing
		return false
	}
	select {
	case s.out <- outgoing{bytes.TrimSuffix(data, []byte("\n")), taken}:
		return true
	case <-s.written:
		return false
	case <-s.ctx.Done():
		return false
	}
}

// fail answers a frame with an error.
func (s *socket) fail(id string, err error) { s.send(s.failure(id, err)) }

// failure makes a frame of an error. The text of an internal one is for the log alone.
func (s *socket) failure(id string, err error) *reply {
	f, _, wait := gateway.FailureOf(err)
	if f.Type == string(agent.CodeInternal) {
		s.log.Error("WebSocket request", zap.String("frame", id), zap.Error(err))
	}
	return &reply{Type: typeError, ID: id, Error: f, RetryAfterMS: wait.Milliseconds()}
}

// write is the one writer of frames.
func (s *socket) write() {
	defer close(s.written)
	for {
		select {
		case o := <-s.out:
			if !s.put(o) {
				return
			}
		case <-s.finish:
			for len(s.out) > 0 { // nobody else takes from it
				if !s.put(<-s.out) {
					return
				}
			}
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// put writes one frame. A client that does not take it in time is gone: the library hangs up when the context ends.
func (s *socket) put(o outgoing) bool {
	if o.taken != nil {
		o.taken()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.v.Limits().WriteTimeout)
	defer cancel()
	s.writing.Store(true)
	defer s.writing.Store(false)
	if err := s.conn.Write(ctx, websocket.MessageText, o.data); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Info("a WebSocket client does not read: disconnected", zap.Duration("waited", s.v.Limits().WriteTimeout))
		}
		s.cut()
		return false
	}
	return true
}

// keepAlive pings a client that says nothing, so that proxies keep the connection and a dead peer is noticed.
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
			s.cut()
			return
		}
	}
}

// ping reports whether the client may be alive. It may be, unheard, while we wait for it to take a frame or to send the rest of one, which
// have bounds of their own.
func (s *socket) ping(before int64) bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.v.Limits().WriteTimeout)
	defer cancel()
	return s.conn.Ping(ctx) == nil || s.lifeSigns.Load() != before || s.writing.Load() || !s.reading.Load()
}
