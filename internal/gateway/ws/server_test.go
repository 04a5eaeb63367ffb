package ws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

// testTimeout is how long a test waits for something before it fails.
const testTimeout = 30 * time.Second

// runtime is a fake runtime that also counts the events that followers read.
type runtime struct {
	*gatewaytest.Runtime

	eventsRead atomic.Int64
	followErr  error                           // if not nil, Follow yields it instead of events
	onDecide   func(ctx context.Context) error // if not nil, Decide calls it instead of Decided
	onMessage  func()                          // if not nil, called before a message is submitted
}

func (rt *runtime) MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, int, error) {
	if rt.onMessage != nil {
		rt.onMessage()
	}
	return rt.Runtime.MessageFrom(ctx, id, e)
}

func (rt *runtime) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	if rt.onDecide != nil {
		return rt.onDecide(ctx)
	}
	return rt.Runtime.Decide(ctx, id, d)
}

func (rt *runtime) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		if rt.followErr != nil {
			yield(agent.Event{}, rt.followErr)
			return
		}
		for e, err := range rt.Runtime.Follow(ctx, id, after) {
			rt.eventsRead.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// server is a gateway with the door, on a real port.
type server struct {
	*gateway.Gateway

	t    *testing.T
	rt   *runtime
	door *ws.Door
}

func open(t *testing.T, change func(*gateway.Config, *ws.Config)) *server {
	t.Helper()
	rt := &runtime{Runtime: gatewaytest.New()}
	cfg := gateway.Config{Ports: gatewaytest.Ports(rt.Runtime, &gatewaytest.Catalog{}), Version: "test"}
	cfg.Turns = rt
	var doorConfig ws.Config
	if change != nil {
		change(&cfg, &doorConfig)
	}
	door := ws.New(doorConfig)
	cfg.Doors = []gateway.Door{door}
	h := &server{Gateway: gatewaytest.Serve(t, cfg), t: t, rt: rt, door: door}
	t.Cleanup(func() {
		h.shutdown(testTimeout)
		require.Zero(t, rt.Followers(), "a follow outlived its socket")
	})
	return h
}

// shutdown shuts the gateway and its doors down. It may be called again.
func (h *server) shutdown(within time.Duration) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), within)
	defer cancel()
	require.NoError(h.t, h.Shutdown(ctx))
}

// begin starts a turn that the test drives.
func (h *server) begin(id agent.TurnID) {
	h.t.Helper()
	_, err := h.rt.Submit(h.t.Context(), agent.Envelope{Request: agent.TurnRequest{TurnID: id, Message: "x"}})
	require.NoError(h.t, err)
}

func (h *server) url(query string) string { return "ws://" + h.HTTPAddr() + "/v1/ws" + query }

// get sends a REST request.
func (h *server) get(path string) (int, string) {
	h.t.Helper()
	status, _, body := gatewaytest.Send(h.t, http.MethodGet, "http://"+h.HTTPAddr()+path, "")
	return status, string(body)
}

// frame is a frame from the server.
type frame struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	TurnID       agent.TurnID    `json:"turn_id"`
	SessionID    agent.SessionID `json:"session_id"`
	StreamID     string          `json:"stream_id"`
	Joined       bool            `json:"joined"`
	Position     *int            `json:"position"`
	Event        json.RawMessage `json:"event"`
	Turn         json.RawMessage `json:"turn"`
	Error        *agent.Failure  `json:"error"`
	RetryAfterMS int64           `json:"retry_after_ms"`
}

func (f *frame) event(t *testing.T) agent.Event {
	t.Helper()
	require.Equal(t, "event", f.Type, "%+v", f)
	var e agent.Event
	require.NoError(t, json.Unmarshal(f.Event, &e))
	return e
}

type client struct {
	*websocket.Conn

	t   *testing.T
	ctx context.Context // of the test
}

func (h *server) dial(query string) *client {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*testTimeout)
	h.t.Cleanup(cancel)
	conn, resp, err := websocket.Dial(ctx, h.url(query), nil)
	require.NoError(h.t, err)
	require.Equal(h.t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn.SetReadLimit(-1)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return &client{Conn: conn, t: h.t, ctx: ctx}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	require.NoError(c.t, c.Write(c.ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

func (c *client) next() *frame {
	c.t.Helper()
	typ, data, err := c.Read(c.ctx)
	require.NoError(c.t, err)
	require.Equal(c.t, websocket.MessageText, typ)
	return parse(c.t, data)
}

// want reads the next frame, which must have a type and an id.
func (c *client) want(kind, id string) *frame {
	c.t.Helper()
	f := c.next()
	require.Equal(c.t, kind, f.Type, "%+v %+v", f, f.Error)
	require.Equal(c.t, id, f.ID)
	return f
}

// wantError reads the next frame, which must be an error.
func (c *client) wantError(id, kind, field string) *frame {
	c.t.Helper()
	f := c.want("error", id)
	require.Equal(c.t, kind, f.Error.Type, "%+v", f.Error)
	require.Equal(c.t, field, f.Error.Field, "%+v", f.Error)
	return f
}

// closeError reads until the server closes the connection, and returns the error of the last read.
func (c *client) closeError() error {
	c.t.Helper()
	for {
		if _, _, err := c.Read(c.ctx); err != nil {
			require.NoError(c.t, c.ctx.Err(), "the socket stayed open")
			return err
		}
	}
}

func parse(t *testing.T, data []byte) *frame {
	t.Helper()
	var f frame
	require.NoError(t, json.Unmarshal(data, &f), "%s", data)
	return &f
}
