package ws_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

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
