package ws

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

const (
	path        = "/v1/ws"
	subprotocol = "turnstone.v1" // offered to clients that ask for one; none is needed
	channel     = "ws"           // the channel of turns that start here
)

// Config bounds what one socket may hold. The zero value is good; sizes and times of frames are those of [gateway.Limits].
type Config struct {
	Follows  int           // turns that a socket follows at a time; default 32
	Requests int           // other frames of a socket that are worked on at a time; default 64
	MaxAge   time.Duration // how long a socket lives; default 1 h
	Logger   *zap.Logger   // nil: silent
}

// Door is the WebSocket door. Create it with [New]; mount it by [gateway.Config] Doors; [Door.Shutdown] once.
type Door struct {
	cfg Config

	mu      sync.Mutex
	closed  bool
	sockets map[*socket]struct{}
	running sync.WaitGroup // sockets
}

var _ gateway.Door = (*Door)(nil)

// New makes a door.
func New(cfg Config) *Door {
	if cfg.Follows <= 0 {
		cfg.Follows = 32
	}
	if cfg.Requests <= 0 {
		cfg.Requests = 64
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Door{cfg: cfg, sockets: map[*socket]struct{}{}}
}

// Routes implements [gateway.Door]. The permissions that single frames need are checked by [gateway.Call].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{{Method: http.MethodGet, Path: path, Action: agent.ActionTurnsRead, Handle: d.serve}}
}

// Shutdown refuses new sockets and closes the open ones with a close frame; [http.Server.Shutdown] does not know of them. If ctx ends first,
// it cuts the connections that are left and returns ctx's error.
func (d *Door) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	for s := range d.sockets {
		s.end(errRestart)
	}
	d.mu.Unlock()
	over := make(chan struct{})
	go func() {
		d.running.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	left := len(d.sockets)
	for s := range d.sockets {
		s.cut()
	}
	d.mu.Unlock()
	<-over // soon: nothing outlives a socket's context
	return fmt.Errorf("cut off %d WebSockets: %w", left, ctx.Err())
}

// enter registers a socket. The caller has to call forget.
func (d *Door) enter(s *socket) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errRestart
	}
	d.sockets[s] = struct{}{}
	d.running.Add(1)
	return nil
}

func (d *Door) forget(s *socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sockets, s)
	d.running.Done()
}

// serve is GET /v1/ws. It returns when the socket is over.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	if !upgrades(r) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		v.WriteJSON(http.StatusUpgradeRequired, struct {
			Error *agent.Failure `json:"error"`
		}{&agent.Failure{Type: string(agent.CodeInvalid), Message: "want a WebSocket handshake: GET with Upgrade: websocket"}})
		return nil
	}
	s, release := newSocket(r.Context(), d, v)
	defer release()
	if err := d.enter(s); err != nil {
		return err
	}
	defer d.forget(s)
	wire := &connKeeper{ResponseWriter: w}
	conn, err := websocket.Accept(wire, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol},
		// The gateway has checked Origin already, by its own list.
		InsecureSkipVerify: true,
		// Events are small and many: deflate without a shared window gains little on them, and a shared one costs 32 KiB and more for each
		// connection. Compressing secrets beside what a stranger writes also tells their size.
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(context.Context, []byte) bool { s.lifeSigns.Add(1); return true },
		OnPongReceived:  func(context.Context, []byte) { s.lifeSigns.Add(1) },
	})
	if err != nil {
		return agent.Errorf(agent.CodeInvalid, "", "accept WebSocket: %w", err) // Accept has answered
	}
	query, err := v.Parameters("turn_id", "after_index")
	s.run(conn, wire.conn, query, err)
	return nil
}

// upgrades reports whether a request asks for a WebSocket; the rest of the handshake is Accept's to check.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && names(r.Header.Values("Connection"), "upgrade") && names(r.Header.Values("Upgrade"), "websocket")
}

func names(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// connKeeper keeps the connection that a handler takes over: closing it ends a socket at once, also in the middle of a close handshake.
type connKeeper struct {
	http.ResponseWriter

	conn net.Conn
}

// Hijack implements [http.Hijacker].
func (k *connKeeper) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(k.ResponseWriter).Hijack()
	k.conn = conn
	return conn, buf, err
}

// closeReason is why a socket ends gently: the close frame's code and reason, and what its follows are told.
type closeReason struct {
	code   websocket.StatusCode
	reason string // at most 123 bytes
	err    error
}

func (f *closeReason) Error() string { return f.err.Error() }
func (f *closeReason) Unwrap() error { return f.err }

// statusUnauthenticated is the close code of a socket whose credential does not hold any more: 401, in the range that is ours.
const statusUnauthenticated websocket.StatusCode = 4401

// Why sockets end, besides the gateway's own closing. It is what follows are told, and nothing is wrong with those.
var (
	errRestart = &closeReason{websocket.StatusServiceRestart, "restart", &agent.Error{
		Code: agent.CodeUnavailable, RetryAfter: time.Second,
		Err: errors.New("the server is shutting down: connect again and resume where you are; turns go on meanwhile"),
	}}
	errTooOld = &closeReason{websocket.StatusGoingAway, "reconnect", agent.Errorf(agent.CodeUnavailable, "",
		"the socket has been open for long enough: connect again and resume where you are; turns go on meanwhile")}
	errSlow = &closeReason{websocket.StatusPolicyViolation, "a frame took too long to send", agent.Errorf(agent.CodeUnavailable, "",
		"a frame took too long to send: connect again and resume where you are")}
	errLarge = &closeReason{websocket.StatusMessageTooBig, "a frame was too large", agent.Errorf(agent.CodeUnavailable, "",
		"another frame was too large: connect again and resume where you are")}
)

// errUnfollowed is why a follow ends that its client has had enough of.
var errUnfollowed = errors.New("unfollowed")
