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
	subprotocol = "turnstone.v1" // for clients that ask for one; it is optional
	channel     = "ws"           // the channel of turns that start here
)

// Config has the limits of a socket. A value of 0 means the default. The limits of frames are those of [gateway.Limits].
type Config struct {
	Follows  int           // turns that a socket follows at a time; default 32
	Requests int           // other requests of a socket that are in flight at a time; default 64
	MaxAge   time.Duration // after which a socket is closed; default 1 h
	Logger   *zap.Logger   // nil: no log
}

// Door is the WebSocket door. Create it with [New].
type Door struct {
	cfg Config

	mu       sync.Mutex
	isClosed bool
	sockets  map[*socket]struct{}
	running  sync.WaitGroup // counts sockets
}

var _ gateway.Door = (*Door)(nil)

// New returns a door.
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

// Shutdown refuses new sockets and closes the open ones gracefully, which [http.Server.Shutdown] does not do. If ctx ends first, it closes the
// remaining connections and returns an error.
func (d *Door) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.isClosed = true
	for s := range d.sockets {
		s.closeGracefully(errRestart)
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	remaining := len(d.sockets)
	for s := range d.sockets {
		s.cancel()
	}
	d.mu.Unlock()
	<-done // soon, because everything of a socket ends with its context
	return fmt.Errorf("cut off %d WebSockets: %w", remaining, ctx.Err())
}

// register adds a socket, which the caller must unregister. It returns an error after Shutdown was called.
func (d *Door) register(s *socket) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed {
		return errRestart
	}
	d.sockets[s] = struct{}{}
	d.running.Add(1)
	return nil
}

func (d *Door) unregister(s *socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sockets, s)
	d.running.Done()
}

// serve is GET /v1/ws. It returns when the socket has ended.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	if !isUpgrade(r) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		v.WriteJSON(http.StatusUpgradeRequired, struct {
			Error *agent.Failure `json:"error"`
		}{&agent.Failure{Type: string(agent.CodeInvalid), Message: "want a WebSocket handshake: GET with Upgrade: websocket"}})
		return nil
	}
	s, release := newSocket(r.Context(), d, v)
	defer release()
	if err := d.register(s); err != nil {
		return err
	}
	defer d.unregister(s)
	keeper := &connKeeper{ResponseWriter: w}
	conn, err := websocket.Accept(keeper, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol},
		// The gateway has checked Origin against its own list.
		InsecureSkipVerify: true,
		// Deflate without a shared window saves little on small events, and a shared window costs 32 KiB or more per connection. Compressing
		// secrets together with text of an attacker would also reveal something about them.
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(context.Context, []byte) bool { s.lifeSigns.Add(1); return true },
		OnPongReceived:  func(context.Context, []byte) { s.lifeSigns.Add(1) },
	})
	if err != nil {
		return agent.Errorf(agent.CodeInvalid, "", "accept WebSocket: %w", err) // Accept has answered
	}
	query, err := v.Parameters("turn_id", "after_index")
	s.run(conn, keeper.conn, query, err)
	return nil
}

// isUpgrade reports whether a request asks for a WebSocket. Accept checks the other parts of the handshake.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && hasToken(r.Header.Values("Connection"), "upgrade") && hasToken(r.Header.Values("Upgrade"), "websocket")
}

// hasToken reports whether a header with comma-separated values contains a token, in any case.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// connKeeper keeps the connection that Accept hijacks. Closing it ends a socket immediately, even during a close handshake.
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

// closeReason is the reason why a socket is closed gracefully.
type closeReason struct {
	code   websocket.StatusCode // of the close frame
	reason string               // of the close frame, at most 123 bytes
	err    error                // for the follows
}

func (f *closeReason) Error() string { return f.err.Error() }
func (f *closeReason) Unwrap() error { return f.err }

// statusUnauthenticated is the close code of a socket whose credential was revoked: status 401 in the range for applications.
const statusUnauthenticated websocket.StatusCode = 4401

// Reasons why sockets are closed gracefully. Their errors are retryable, because the follows themselves did not fail.
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

// errUnfollowed is the cause of a follow that the client has ended.
var errUnfollowed = errors.New("unfollowed")
