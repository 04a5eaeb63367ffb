package ws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

func TestManyTurns(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.StreamBuffer = 2 })
	h.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		rt.Say(id, strings.Repeat(r.Message+" ", 50))
	}
	c := h.dial("")
	const turns = 32
	for i := range turns {
		c.send(`{"type":"turn","id":"c%d","request":{"message":"m%d"}}`, i, i)
	}
	seen, done := map[string]int64{}, 0
	for done < turns {
		switch f := c.next(); f.Type {
		case "accepted":
			require.Zero(t, seen[f.ID], "before the events")
		case "event":
			e := f.event(t)
			seen[f.ID]++
			require.Equal(t, seen[f.ID], e.Meta.EventIndex)
			if e.Type == agent.EventToken && e.Text != "" {
				require.Equal(t, "m"+f.ID[1:]+" ", e.Text, "an event of the frame's turn")
			}
		case "done":
			require.Equal(t, int64(53), seen[f.ID])
			done++
		default:
			require.Fail(t, "unexpected", "%+v %+v", f, f.Error)
		}
	}
	require.Len(t, seen, turns)
}

func TestSessionOrder(t *testing.T) {
	h := open(t, nil)
	var mu sync.Mutex
	var order []string
	first := make(chan struct{})
	h.rt.Refuse = func(e agent.Envelope) error {
		mu.Lock()
		order = append(order, e.Request.Message)
		mu.Unlock()
		if e.Request.Message == "0" {
			<-first // the other frames arrive meanwhile
		}
		return nil
	}
	c := h.dial("")
	for i := range 20 {
		c.send(`{"type":"turn","id":"c%d","request":{"session_id":"s","message":"%d"}}`, i, i)
	}
	c.send(`{"type":"turn","id":"other","request":{"session_id":"s2","message":"x"}}`)
	c.want("accepted", "other") // other sessions do not wait
	first <- struct{}{}
	for i := range 20 {
		c.want("accepted", fmt.Sprintf("c%d", i))
	}
	for i := range 20 {
		c.send(`{"type":"message","id":"m%d","turn_id":"turn-1","request":{"message":"%d"}}`, i, i)
	}
	c.send(`{"type":"ping","id":"all there"}`)
	c.want("pong", "all there")
	first <- struct{}{}
	for i := range 20 {
		c.want("accepted", fmt.Sprintf("m%d", i))
	}
	mu.Lock()
	defer mu.Unlock()
	order = slices.DeleteFunc(order, func(m string) bool { return m == "x" })
	for i, m := range order {
		require.Equal(t, fmt.Sprint(i%20), m)
	}
	require.Len(t, order, 40)
}

func TestUnfollow(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	c := h.dial("?turn_id=t")
	c.send(`{"type":"follow","id":"f","turn_id":"t"}`)
	h.rt.Emit("t", gatewaytest.Token("a"))
	for range 2 {
		require.Equal(t, "event", c.next().Type)
	}
	// An id cannot be used again until its follow has ended. The error has no id, so that it is not taken for the end of the follow.
	c.send(`{"type":"get","id":"f","turn_id":"t"}`)
	require.Empty(t, c.wantError("", "invalid", "id").TurnID)
	c.send(`{"type":"follow","id":"f","turn_id":"t"}`)
	c.wantError("", "invalid", "id")

	c.send(`{"type":"unfollow","id":"f"}`)
	require.Equal(t, &frame{Type: "ok", ID: "f", TurnID: "t"}, c.next())
	c.send(`{"type":"unfollow"}`)
	require.Equal(t, &frame{Type: "ok", TurnID: "t"}, c.next())
	require.Eventually(t, func() bool { return h.rt.Followers() == 0 }, testTimeout, time.Millisecond)
	h.rt.Emit("t", gatewaytest.Token("b"))
	c.send(`{"type":"unfollow","id":"f"}`)
	c.wantError("f", "not_found", "id")
	c.send(`{"type":"follow","id":"f","turn_id":"t","after_index":1}`)
	again := c.want("event", "f").event(t)
	require.Equal(t, "b", again.Text)
}

func TestLimits(t *testing.T) {
	h := open(t, func(g *gateway.Config, c *ws.Config) {
		c.Follows, c.Requests = 2, 2
		g.Limits.Streams, g.Limits.BodyBytes = 3, 1000
	})
	h.begin("t")
	block := make(chan struct{})
	var entered sync.WaitGroup
	entered.Add(2)
	h.rt.Decided = func(agent.TurnID, agent.Decision) error { entered.Done(); <-block; return nil }
	c := h.dial("?turn_id=t")
	c.send(`{"type":"follow","id":"f","turn_id":"t"}`)
	for _, frame := range []string{`{"type":"follow","id":"g","turn_id":"t"}`, `{"type":"turn","id":"g","request":{"message":"x"}}`} {
		c.send("%s", frame)
		f := c.wantError("g", "rate_limited", "")
		require.True(t, f.Error.Retryable)
		require.Positive(t, f.RetryAfterMS)
	}
	require.Len(t, h.rt.Submitted(), 1, "a refused frame starts no turn")

	decide := `{"type":"decide","id":"d%d","turn_id":"t","decision":{"approval_id":"a","decision":"approve","by":"me"%s}}`
	c.send(decide, 1, strings.Repeat(" ", 600))
	c.send(decide, 2, strings.Repeat(" ", 600))
	c.wantError("d2", "rate_limited", "")
	c.send(decide, 3, "")
	entered.Wait()
	c.send(decide, 4, "")
	c.wantError("d4", "rate_limited", "")
	c.send(`{"type":"ping"}`)
	c.want("pong", "")
	close(block)
	require.ElementsMatch(t, []string{"d1", "d3"}, []string{c.wantType("ok"), c.wantType("ok")})
	c.send(`{"type":"get","id":"x","turn_id":"t"}`)
	c.want("state", "x")

	// The bytes of a frame count until it is answered. Those of a follow's frame do not count while the turn is followed.
	c.send(`{"type":"unfollow","id":"f"}`)
	c.want("ok", "f")
	pad := strings.Repeat(" ", 600)
	c.send(`{"type":"follow","id":"f","turn_id":"t"%s}`, pad)
	c.send(`{"type":"get","id":"x","turn_id":"t"}`)
	c.want("state", "x")
	require.Eventually(t, func() bool {
		c.send(`{"type":"get","id":"x","turn_id":"t"%s}`, pad)
		return c.next().Type == "state"
	}, testTimeout, time.Millisecond)
	c.send(`{"type":"unfollow","id":"f"}`)
	c.want("ok", "f")
	c.send(`{"type":"turn","id":"f","request":{"message":"x"}%s}`, pad)
	c.want("accepted", "f")
	require.Eventually(t, func() bool {
		c.send(`{"type":"get","id":"x","turn_id":"t"%s}`, pad)
		return c.next().Type == "state"
	}, testTimeout, time.Millisecond)

	// The limit of streams is for all sockets together.
	other := h.dial("?turn_id=t")
	require.Eventually(t, func() bool { return h.rt.Followers() == 3 }, testTimeout, time.Millisecond)
	other.send(`{"type":"turn","id":"x","request":{"message":"x"}}`)
	other.wantError("x", "rate_limited", "")
	require.Len(t, h.rt.Submitted(), 2)
	c.send(`{"type":"unfollow","id":"f"}`)
	c.want("ok", "f")
	require.Eventually(t, func() bool {
		other.send(`{"type":"turn","id":"x","request":{"message":"x"}}`)
		return other.next().Type == "accepted"
	}, testTimeout, time.Millisecond)
}

// wantType reads the next frame, which must have a type, and returns its id.
func (c *client) wantType(kind string) string {
	c.t.Helper()
	f := c.next()
	require.Equal(c.t, kind, f.Type)
	return f.ID
}

func TestSlowReader(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.WriteTimeout = time.Second })
	h.begin("big")
	h.begin("small")
	const events = 5000
	text := strings.Repeat("x", 64<<10) // 320 MB for all events
	for range events {
		h.rt.Emit("big", gatewaytest.Token(text))
	}
	h.rt.Finish("big", agent.TurnCompleted, "done")

	slow := h.dial("")
	for i := range 8 {
		slow.send(`{"type":"follow","id":"f%d","turn_id":"big"}`, i)
	}
	quick := h.dial("?turn_id=small")
	for i := range 200 { // while the slow client's follows are blocked
		h.rt.Emit("small", gatewaytest.Token(fmt.Sprint(i)))
		e := quick.want("event", "").event(t)
		require.Equal(t, fmt.Sprint(i), e.Text)
	}
	require.Eventually(t, func() bool { return h.rt.Followers() == 1 }, testTimeout, time.Millisecond, "the slow client is disconnected")
	require.Less(t, h.rt.eventsRead.Load(), int64(200+8+64+400), "events that a client does not read are not loaded")

	// The frames that it has received are complete and contiguous, and it can follow the turn again from there.
	seen := map[string]int64{}
	var end error
	for end == nil {
		var data []byte
		if _, data, end = slow.Read(slow.ctx); end == nil {
			f := parse(t, data)
			e := f.event(t)
			seen[f.ID]++
			require.Equal(t, seen[f.ID], e.Meta.EventIndex)
		}
	}
	again := h.dial(fmt.Sprintf("?turn_id=big&after_index=%d", events-1))
	e := again.want("event", "").event(t)
	require.Equal(t, int64(events), e.Meta.EventIndex)
}

func TestAnswerDuringLongFollow(t *testing.T) {
	h := open(t, nil)
	h.begin("big")
	text := strings.Repeat("x", 64<<10) // together more than the kernel buffers
	const events = 400
	for range events {
		h.rt.Emit("big", gatewaytest.Token(text))
	}
	c := h.dial("?turn_id=big")
	c.send(`{"type":"get","id":"g","turn_id":"big"}`)
	var lastIndex int64
	for f := c.next(); f.Type != "state"; f = c.next() {
		e := f.event(t)
		lastIndex = e.Meta.EventIndex
	}
	require.Less(t, lastIndex, int64(events), "the answer comes before the last event")
}

func TestPing(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) {
		c.Limits.Heartbeat, c.Limits.WriteTimeout = 20*time.Millisecond, 100*time.Millisecond
	})
	dead, err := net.Dial("tcp", h.HTTPAddr()) // it never answers a ping
	require.NoError(t, err)
	defer dead.Close()
	shakeHands(t, dead)
	sent, err := io.ReadAll(dead)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	require.Equal(t, byte(0x89), sent[0], "the first frame is a ping")

	// A client that answers pings stays connected.
	h = open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.Heartbeat = time.Millisecond })
	h.begin("t")
	pings := make(chan struct{}, 20)
	conn, _, err := websocket.Dial(t.Context(), h.url("?turn_id=t"), &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pings <- struct{}{}:
			default:
			}
			return true
		},
	})
	require.NoError(t, err)
	defer conn.CloseNow()
	got := make(chan []byte, 1)
	go func() {
		_, data, _ := conn.Read(t.Context())
		got <- data
	}()
	for range 20 {
		<-pings
	}
	h.rt.Emit("t", gatewaytest.Token("a"))
	require.Contains(t, string(<-got), `"text":"a"`)
}

func TestInternalErrorsAreLogged(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := open(t, func(_ *gateway.Config, c *ws.Config) { c.Logger = zap.New(core) })
	h.begin("t")
	h.rt.Decided = func(agent.TurnID, agent.Decision) error { return errors.New("dial db.internal:5432: refused") }
	c := h.dial("")
	c.send(`{"type":"decide","id":"d","turn_id":"t","decision":{"approval_id":"a","decision":"approve","by":"me"}}`)
	require.NotContains(t, c.wantError("d", "internal", "").Error.Message, "db.internal")
	h.rt.followErr = errors.New("select events: boom")
	c.send(`{"type":"follow","id":"f","turn_id":"t"}`)
	require.NotContains(t, c.wantError("f", "internal", "").Error.Message, "boom")
	require.Equal(t, 2, logs.Len())
	for i, text := range []string{"db.internal", "boom"} {
		e := logs.All()[i]
		require.Contains(t, e.ContextMap()["error"], text)
		require.NotEmpty(t, e.ContextMap()["request_id"])
	}

	// Panics are also logged. They end neither the process nor the socket.
	h.rt.Decided = func(agent.TurnID, agent.Decision) error { panic("on purpose") }
	h.rt.Refuse = func(agent.Envelope) error { panic("on purpose") }
	c.send(`{"type":"decide","id":"d","turn_id":"t","decision":{"approval_id":"a","decision":"approve","by":"me"}}`)
	c.wantError("d", "internal", "")
	for range 40 { // more than the limits, so that each must release its slot
		c.send(`{"type":"turn","id":"t","request":{"message":"x","session_id":"s"}}`)
		c.wantError("t", "internal", "")
		c.send(`{"type":"message","id":"m","turn_id":"t","request":{"message":"x"}}`)
		c.wantError("m", "internal", "")
	}
	require.Contains(t, logs.All()[2].ContextMap()["error"], "socket_test.go")
}
