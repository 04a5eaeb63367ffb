package openai_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestWaitTimeout(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WaitTimeout = 20 * time.Millisecond })
	for _, key := range []string{"", "k"} {
		a := d.complete("", "Idempotency-Key", key)
		require.Equal(t, 503, a.status)
		p := a.problem(t)
		require.Equal(t, "turn_running", p.Code)
		require.Contains(t, p.Message, "/v1/turns/"+p.TurnID)
		require.Empty(t, a.header.Get("X-Should-Retry"), "the same request again joins the turn")
	}
}

func TestShutdown(t *testing.T) {
	d := open(t, nil)
	d.script(running(), token("model/1", "half"))
	whole, streamed := make(chan answer, 1), make(chan answer, 1)
	go func() { whole <- d.complete("") }()
	go func() { streamed <- d.complete(`,"stream":true`) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 2 }, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
	a := <-whole
	require.Equal(t, 503, a.status)
	require.Equal(t, "turn_running", a.problem(t).Code)
	h := readStream(t, (<-streamed).body)
	require.Equal(t, "turn_running", h.err.Code)
}

func TestHeartbeat(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.Heartbeat = 5 * time.Millisecond })
	d.script(running())
	next := gatewaytest.Frames(t, d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`).Body)
	event := next()
	require.Contains(t, event, `"role":"assistant"`, "before the first word")
	for range 2 {
		event = next()
		require.Equal(t, ":\n", event)
	}
}

func TestDisconnect(t *testing.T) {
	for _, c := range []struct {
		stream, header string
		cancels        bool
	}{
		{`,"stream":true`, "", false}, {`,"stream":true`, "continue", false}, {`,"stream":true`, "cancel", true}, {"", "", false}, {"", "cancel", true},
	} {
		t.Run(c.stream+c.header, func(t *testing.T) {
			d := open(t, nil)
			cancelled := make(chan agent.CancelRequest, 1)
			d.rt.Cancelled = func(_ agent.TurnID, r agent.CancelRequest) error { cancelled <- r; return nil }
			d.script(running())
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			done := make(chan struct{})
			go func() {
				defer close(done)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/chat/completions",
					strings.NewReader(`{"model":"analyst","user":"u1","messages":[{"role":"user","content":"x"}]`+c.stream+`}`))
				if err != nil {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Turnstone-On-Disconnect", c.header)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
			disconnect()
			<-done
			require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 20*time.Second, time.Millisecond, "following ends when the client disconnects")
			if c.cancels {
				require.Equal(t, agent.CancelRequest{Reason: "the client disconnected", By: "u1"}, <-cancelled)
				return
			}
			shut, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, d.Shutdown(shut)) // the handler has returned
			require.Empty(t, cancelled)
		})
	}
}

// The turn of a client that disconnects after it got its answer is not cancelled.
func TestAnsweredTurnIsNotCancelled(t *testing.T) {
	d := open(t, nil)
	d.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error {
		t.Error("an answered turn was cancelled")
		return nil
	}
	d.script(token("model/1", "x"), terminal("x", nil))
	for _, stream := range []string{"", `,"stream":true`} {
		require.Equal(t, 200, d.complete(stream, "Turnstone-On-Disconnect", "cancel").status)
	}
}

func TestStuckClientIsDropped(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WriteTimeout = time.Second })
	d.script(running())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	body := `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	text := strings.Repeat("x", 1<<19) // together more than the buffers of the connection hold
	for range 15 {
		d.rt.Emit("turn-1", token("model/1", text))
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 60*time.Second, time.Millisecond, "a client that reads nothing is dropped")
}

func TestStreamLimit(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.Streams = 1 })
	d.script(running())
	d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	a := d.complete("")
	require.Equal(t, 429, a.status)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.Equal(t, "rate_limit_exceeded", a.problem(t).Code)
	require.Len(t, d.rt.Submitted(), 1, "a refused request starts no turn")
	d.rt.Emit("turn-1", terminal("done", nil))
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 20*time.Second, time.Millisecond)
	d.script(terminal("done", nil))
	require.Eventually(t, func() bool { return d.complete("").status == 200 }, 20*time.Second, time.Millisecond, "the stream's slot is free again")
	for range 3 {
		require.Eventually(t, func() bool { return d.complete(`,"stream":true`).status == 200 }, 20*time.Second, time.Millisecond)
	}
}
