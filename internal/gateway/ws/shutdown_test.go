package ws_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

func TestDrain(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	entered, block := make(chan struct{}), make(chan struct{})
	h.rt.Decided = func(agent.TurnID, agent.Decision) error { close(entered); <-block; return nil }
	idle, busy := h.dial(""), h.dial("?turn_id=t")
	busy.send(`{"type":"decide","id":"d","turn_id":"t","decision":{"approval_id":"a","decision":"approve","by":"me"}}`)
	<-entered
	h.rt.Emit("t", gatewaytest.Token("a"))
	busy.want("event", "")

	var over sync.WaitGroup
	over.Go(func() { h.shutdown(testTimeout) })
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(idle.closeError()))
	end := busy.wantError("", "unavailable", "")
	require.True(t, end.Error.Retryable)
	require.Equal(t, agent.TurnID("t"), end.TurnID)
	require.Positive(t, end.RetryAfterMS)
	busy.send(`{"type":"turn","id":"late","request":{"message":"x"}}`)
	busy.wantError("late", "unavailable", "")
	close(block)
	busy.want("ok", "d")
	err := busy.closeError()
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err), "%v", err)
	require.ErrorContains(t, err, "restart")
	over.Wait()
	require.Zero(t, h.rt.Followers())
	require.Len(t, h.rt.Submitted(), 1)
}

func TestDoorShutdown(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	c := h.dial("?turn_id=t")
	require.Eventually(t, func() bool { return h.rt.Followers() == 1 }, testTimeout, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.door.Shutdown(ctx) }()
	c.wantError("", "unavailable", "")
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(c.closeError()))
	require.NoError(t, <-done)
	_, resp, err := websocket.Dial(t.Context(), h.url(""), nil)
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
}

func TestDrainSlowReader(t *testing.T) {
	h := open(t, nil)
	h.begin("big")
	text := strings.Repeat("x", 64<<10)
	const events = 400
	for range events {
		h.rt.Emit("big", gatewaytest.Token(text))
	}
	c := h.dial("?turn_id=big")
	// The client does not read until the queue is full and the follow is blocked.
	before := int64(0)
	require.Eventually(t, func() bool {
		now := h.rt.eventsRead.Load()
		isBlocked := now > 64 && now == before
		before = now
		return isBlocked
	}, testTimeout, 20*time.Millisecond)
	var over sync.WaitGroup
	over.Go(func() { h.shutdown(testTimeout) })
	require.Eventually(t, func() bool { // the gateway refuses new sockets
		_, _, err := websocket.Dial(t.Context(), h.url(""), nil)
		return err != nil
	}, testTimeout, time.Millisecond)
	last := int64(0)
	f := c.next()
	for ; f.Type == "event"; f = c.next() {
		e := f.event(t)
		last++
		require.Equal(t, last, e.Meta.EventIndex)
	}
	require.Less(t, last, int64(events))
	require.Equal(t, "error", f.Type)
	require.Equal(t, "unavailable", f.Error.Type)
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(c.closeError()))
	over.Wait()
}

func TestShutdownTimeout(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.CallTimeout = 24 * time.Hour })
	h.begin("t")
	entered := make(chan struct{})
	h.rt.onDecide = func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	conn, err := net.Dial("tcp", h.HTTPAddr()) // it never answers the close frame
	require.NoError(t, err)
	defer conn.Close()
	shakeHands(t, conn)
	c := h.dial("") // its request never ends
	c.send(`{"type":"decide","id":"d","turn_id":"t","decision":{"approval_id":"a","decision":"approve","by":"me"}}`)
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.door.Shutdown(ctx), context.DeadlineExceeded)
	_, err = io.Copy(io.Discard, conn)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	require.Error(t, c.closeError())
}

func TestMaxAge(t *testing.T) {
	h := open(t, func(_ *gateway.Config, c *ws.Config) { c.MaxAge = 100 * time.Millisecond })
	h.begin("t")
	h.rt.Emit("t", gatewaytest.Token("0"))
	seen, lives := 0, 0
	for ; seen < 2 || lives < 2; lives++ { // on a slow machine, a socket may be closed before its first event
		c := h.dial(fmt.Sprintf("?turn_id=t&after_index=%d", seen))
		f := c.next()
		for ; f.Type == "event"; f = c.next() {
			e := f.event(t)
			require.Equal(t, fmt.Sprint(seen), e.Text)
			seen++
			h.rt.Emit("t", gatewaytest.Token(fmt.Sprint(seen)))
		}
		require.Equal(t, "error", f.Type)
		require.Equal(t, "unavailable", f.Error.Type)
		require.True(t, f.Error.Retryable)
		err := c.closeError()
		require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
		require.ErrorContains(t, err, "reconnect")
	}
}
