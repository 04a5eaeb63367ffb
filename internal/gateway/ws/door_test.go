package ws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
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

func TestTurn(t *testing.T) {
	h := open(t, nil)
	h.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, "one <two> three") }
	c := h.dial("?tenant=acme")
	c.send(`{"type":"turn","id":"c1","request":{"agent":"analyst","message":"hi","session_id":"s1","idempotency_key":"k"}}`)
	a := c.want("accepted", "c1")
	require.Equal(t, &frame{Type: "accepted", ID: "c1", TurnID: "turn-1", SessionID: "s1", StreamID: "turn-1"}, a)
	var data []string
	for i := int64(1); ; i++ {
		f := c.want("event", "c1")
		e := f.event(t)
		require.Equal(t, i, e.Meta.EventIndex)
		data = append(data, string(f.Event))
		if e.Terminal() {
			break
		}
	}
	require.Equal(t, &frame{Type: "done", ID: "c1", TurnID: "turn-1"}, c.next())

	// The events are the same bytes as those of SSE.
	_, sse := h.get("/v1/turns/turn-1/events?tenant=acme")
	for _, line := range data {
		require.Contains(t, sse, "data: "+line+"\n")
	}
	require.Len(t, data, strings.Count(sse, "data: "))

	e := h.rt.Submitted()[0]
	require.Equal(t, "ws", e.Channel)
	require.Equal(t, "ws", e.Request.Channel)
	require.Equal(t, "acme", e.Request.Context.Tenant)

	// The same key joins the same turn, and after_index skips the events that the client has.
	c.send(`{"type":"turn","id":"c1","after_index":4,"request":{"message":"hi","idempotency_key":"k"}}`)
	require.True(t, c.want("accepted", "c1").Joined)
	last := c.want("event", "c1").event(t)
	require.True(t, last.Terminal())
	c.want("done", "c1")

	// A new turn ignores after_index.
	c.send(`{"type":"turn","id":"c1","after_index":4,"request":{"message":"hi"}}`)
	require.False(t, c.want("accepted", "c1").Joined)
	first := c.want("event", "c1").event(t)
	require.Equal(t, int64(1), first.Meta.EventIndex)
}

func TestResume(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	const events = 400
	go func() {
		for i := range events - 1 {
			h.rt.Emit("t", gatewaytest.Token(fmt.Sprint(i)))
		}
		h.rt.Finish("t", agent.TurnCompleted, "done")
	}()
	seen := int64(0)
	for round := 0; seen < events; round++ {
		query := ""
		if round%2 == 0 {
			query = fmt.Sprintf("?turn_id=t&after_index=%d", seen)
		}
		c := h.dial(query)
		id := ""
		if query == "" {
			id = "f"
			c.send(`{"type":"follow","id":"f","turn_id":"t","after_index":%d}`, seen)
		}
		for range 37 { // then disconnect before the end
			f := c.want("event", id)
			e := f.event(t)
			seen++
			require.Equal(t, seen, e.Meta.EventIndex, "contiguous, nothing twice")
			if seen < events {
				require.Equal(t, fmt.Sprint(seen-1), e.Text)
				continue
			}
			require.Equal(t, agent.TurnID("t"), c.want("done", id).TurnID)
			break
		}
		require.NoError(t, c.CloseNow())
	}
	// A follow at or after the last event ends at once.
	c := h.dial("")
	for _, after := range []int64{events, events + 1, 1 << 62} {
		c.send(`{"type":"follow","id":"f","turn_id":"t","after_index":%d}`, after)
		c.want("done", "f")
	}
	require.Eventually(t, func() bool { return h.rt.Followers() == 0 }, testTimeout, time.Millisecond)
}

func TestQuery(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	h.rt.Say("t", "a b")
	c := h.dial("?turn_id=t")
	for range 4 {
		c.want("event", "")
	}
	require.Equal(t, &frame{Type: "done", TurnID: "t"}, c.next())
	for query, field := range map[string]string{
		"?after_index=1": "turn_id", "?turn_id=t&after_index=x": "after_index", "?turn_id=t&after_index=-1": "after_index",
		"?turn_id=t&after_index=9223372036854775808": "after_index",
	} {
		c := h.dial(query)
		c.wantError("", "invalid", field)
		c.send(`{"type":"ping"}`)
		c.want("pong", "")
	}
	h.dial("?turn_id=nope").wantError("", "not_found", "")
}

func TestGap(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	h.rt.Emit("t", gatewaytest.Token("a"), gatewaytest.Token("b"), gatewaytest.Token("c"))
	h.rt.Expire(3)
	c := h.dial("")
	for _, after := range []int{0, 1} {
		c.send(`{"type":"follow","id":"f","turn_id":"t","after_index":%d}`, after)
		require.Equal(t, agent.TurnID("t"), c.wantError("f", "gap", "").TurnID)
	}
	c.send(`{"type":"follow","id":"f","turn_id":"t","after_index":2}`)
	third := c.want("event", "f").event(t)
	require.Equal(t, int64(3), third.Meta.EventIndex)
	h.rt.Expire(9)
	h.rt.Emit("t", gatewaytest.Token("d"))
	c.wantError("f", "gap", "")
}

func TestDecide(t *testing.T) {
	h := open(t, nil)
	approval := &agent.Approval{ApprovalID: "a1", CallID: "call", ToolName: "send_mail", Args: json.RawMessage(`{"to":"x"}`)}
	h.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: approval}, gatewaytest.Status(agent.StatusWaiting))
	}
	var got agent.Decision
	h.rt.Decided = func(id agent.TurnID, d agent.Decision) error {
		if d.ApprovalID != "a1" {
			return agent.FieldErrorf(agent.CodeNotFound, "approval_id", "no approval %q", d.ApprovalID)
		}
		got = d
		h.rt.Emit(id, agent.Event{Type: agent.EventApprovalResolved, Approval: approval}, gatewaytest.Status(agent.StatusRunning))
		h.rt.Finish(id, agent.TurnCompleted, "sent")
		return nil
	}
	c := h.dial("")
	c.send(`{"type":"turn","id":"c1","request":{"message":"mail x"}}`)
	c.want("accepted", "c1")
	asked := c.want("event", "c1").event(t)
	require.Equal(t, "a1", asked.Approval.ApprovalID)
	c.want("event", "c1")

	c.send(`{"type":"decide","id":"c2","turn_id":"turn-1","decision":{"approval_id":"a2","decision":"approve","by":"ops"}}`)
	c.wantError("c2", "not_found", "approval_id")
	c.send(`{"type":"decide","id":"c2","turn_id":"turn-1","decision":{"approval_id":"a1","decision":"maybe","by":"ops"}}`)
	c.wantError("c2", "invalid", "decision")
	c.send(`{"type":"decide","id":"c2","turn_id":"nope","decision":{"approval_id":"a1","decision":"approve","by":"ops"}}`)
	c.wantError("c2", "not_found", "")
	c.send(`{"type":"decide","id":"c2","turn_id":"turn-1","decision":{"approval_id":"a1","decision":"approve","by":"ops","remember":true}}`)
	isAnswered, isDone := false, false
	for !isAnswered || !isDone { // the answer may come before or after an event
		switch f := c.next(); f.Type {
		case "ok":
			require.Equal(t, &frame{Type: "ok", ID: "c2", TurnID: "turn-1"}, f)
			isAnswered = true
		case "done":
			isDone = true
		default:
			require.Equal(t, "event", f.Type)
		}
	}
	require.Equal(t, agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, Remember: true, By: "ops"}, got)
}

func TestCalls(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	var cancelled agent.CancelRequest
	var provided agent.ProvidedResult
	h.rt.Cancelled = func(_ agent.TurnID, c agent.CancelRequest) error { cancelled = c; return nil }
	h.rt.Provided = func(_ agent.TurnID, r agent.ProvidedResult) error { provided = r; return nil }
	c := h.dial("")

	c.send(`{"type":"cancel","id":"1","turn_id":"t","reason":"enough","by":"me"}`)
	c.want("ok", "1")
	require.Equal(t, agent.CancelRequest{Reason: "enough", By: "me"}, cancelled)
	c.send(`{"type":"provide","id":"2","turn_id":"t","provided":{"tool_call_id":"x","result":{"a":[1]}}}`)
	c.want("ok", "2")
	require.JSONEq(t, `{"a":[1]}`, string(provided.Result))
	c.send(`{"type":"provide","id":"3","turn_id":"t","provided":{"tool_call_id":"x"}}`)
	c.wantError("3", "invalid", "result")
	c.send(`{"type":"message","id":"4","turn_id":"t","request":{"message":"and then?"}}`)
	m := c.want("accepted", "4")
	require.Equal(t, 1, *m.Position)
	require.Equal(t, agent.TurnID("turn-2"), m.TurnID)
	require.Equal(t, "ws", h.rt.Submitted()[1].Request.Channel)

	state := func() string {
		c.send(`{"type":"get","id":"5","turn_id":"t"}`)
		return string(c.want("state", "5").Turn)
	}
	h.rt.Emit("t", gatewaytest.Token("a"))
	_, body := h.get("/v1/turns/t")
	require.Equal(t, strings.TrimSpace(body), state())
	h.rt.Finish("t", agent.TurnFailed, "x")
	_, body = h.get("/v1/turns/t")
	require.Equal(t, strings.TrimSpace(body), state())

	for _, kind := range []string{"cancel", "get", "follow"} {
		c.send(`{"type":%q,"id":"6","turn_id":"nope"}`, kind)
		c.wantError("6", "not_found", "")
	}
	c.send(`{"type":"ping","id":"p"}`)
	c.want("pong", "p")
	c.send(`{"type":"turn","id":"7","request":{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}}`)
	c.wantError("7", "invalid", "stream_to")
	c.send(`{"type":"message","id":"7","turn_id":"t","request":{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}}`)
	c.wantError("7", "invalid", "stream_to")
}

func TestHandshake(t *testing.T) {
	h := open(t, nil)
	code, body := h.get("/v1/ws")
	require.Equal(t, http.StatusUpgradeRequired, code)
	require.Contains(t, body, `"type":"invalid"`)

	try := func(header http.Header, protocols ...string) (string, int) {
		conn, resp, err := websocket.Dial(t.Context(), h.url(""), &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
		if err != nil {
			return "", resp.StatusCode
		}
		defer conn.CloseNow()
		return conn.Subprotocol(), resp.StatusCode
	}
	_, code = try(http.Header{"Origin": {"https://evil.example"}})
	require.Equal(t, http.StatusForbidden, code)
	_, code = try(http.Header{"Origin": {"http://localhost:3000"}})
	require.Equal(t, http.StatusSwitchingProtocols, code, "an origin that the gateway allows and the library would refuse")
	got, _ := try(nil, "other", "turnstone.v1")
	require.Equal(t, "turnstone.v1", got)
	got, code = try(nil, "other")
	require.Empty(t, got)
	require.Equal(t, http.StatusSwitchingProtocols, code)

	// shakeHands asks for compression, and checks that the server does not accept it.
	conn, err := net.Dial("tcp", h.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.Contains(t, shakeHands(t, conn), "101 Switching Protocols")
}

// shakeHands sends the handshake of a WebSocket and returns the header of the response.
func shakeHands(t *testing.T, conn net.Conn) string {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*testTimeout)))
	_, err := io.WriteString(conn, "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	require.NoError(t, err)
	var head strings.Builder
	for one := make([]byte, 1); !strings.HasSuffix(head.String(), "\r\n\r\n"); head.Write(one) {
		_, err := io.ReadFull(conn, one)
		require.NoError(t, err)
	}
	require.NotContains(t, head.String(), "deflate")
	return head.String()
}

func parse(t *testing.T, data []byte) *frame {
	t.Helper()
	var f frame
	require.NoError(t, json.Unmarshal(data, &f), "%s", data)
	return &f
}
