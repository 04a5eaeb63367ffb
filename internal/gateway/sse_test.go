package gateway_test

import (
	"context"
	"encoding/json"
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

// begin starts a turn.
func (d *testGateway) begin(id agent.TurnID) {
	d.t.Helper()
	a := d.send("POST", "/v1/turns?wait=false", fmt.Sprintf(`{"message":"x","turn_id":%q}`, id))
	require.Equal(d.t, 202, a.status, "%s", a.body)
}

// follow opens an event stream.
func (d *testGateway) follow(ctx context.Context, path string, header ...string) *http.Response {
	d.t.Helper()
	return gatewaytest.Open(ctx, d.t, http.MethodGet, d.url+path, "", header...)
}

func TestEventsOnTheWire(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	resp := d.follow(t.Context(), "/v1/turns/t/events")
	require.Equal(t, 200, resp.StatusCode)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Turnstone-Turn-Id": "t",
	} {
		require.Equal(t, want, resp.Header.Get(name))
	}
	next := gatewaytest.Frames(t, resp.Body)
	frame := next()
	require.Equal(t, "retry: 1000\n", frame)

	// Each event arrives at once, and its data is on one line.
	d.rt.Emit("t", gatewaytest.Token("a\nb <&> \u2028 ü"))
	frame = next()
	require.Equal(t, "id: 1\nevent: token\n"+`data: {"meta":{"stream_id":"t","event_index":1,"turn_id":"t","attempt":1,"producer":"model/1",`+
		`"time":"2026-11-21T12:00:00Z"},"type":"token","text":"a\nb <&> \u2028 ü"}`+"\n", frame)
	d.rt.Emit("t", agent.Event{Type: agent.EventToolStart, ToolName: "execute_pipeline", Input: json.RawMessage("{\n  \"pipeline\": []\n}")})
	frame = next()
	require.Contains(t, frame, `"input":{"pipeline":[]}`)
	d.rt.Finish("t", agent.TurnCompleted, "done")
	frame = next()
	require.Contains(t, frame, `"status":"COMPLETED"`)
	require.Empty(t, next(), "the stream closes behind the terminal event")
}

func TestResumeIsByteExact(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	d.rt.Say("t", "one two three four five")
	whole := string(d.send("GET", "/v1/turns/t/events", "").body)
	events := strings.SplitAfter(whole, "\n\n")[1:] // without the retry hint
	require.Len(t, events, 8)                       // RUNNING, five tokens, COMPLETED, and what is behind the last
	for after := range 6 {
		want := strings.Join(events[after:], "")
		for _, header := range [][]string{{"Last-Event-ID", fmt.Sprint(after)}, nil} {
			path := "/v1/turns/t/events?after_index=999"
			if header == nil {
				path = fmt.Sprintf("/v1/turns/t/events?after_index=%d", after)
			}
			got := string(d.send("GET", path, "", header...).body)
			require.Equal(t, "retry: 1000\n\n"+want, got, "after %d", after)
		}
	}
	for _, after := range []string{"7", "8", "9000000000000000000"} {
		a := d.send("GET", "/v1/turns/t/events", "", "Last-Event-ID", after)
		require.Equal(t, 204, a.status)
		require.Empty(t, a.body)
	}
	for _, bad := range []string{"-1", "x", "1.5", "9223372036854775808", "0x1"} {
		require.Equal(t, "after_index", d.send("GET", "/v1/turns/t/events?after_index="+bad, "").failure(t).Field)
		a := d.send("GET", "/v1/turns/t/events", "", "Last-Event-ID", bad)
		require.Equal(t, 400, a.status)
		require.Equal(t, "Last-Event-ID", a.failure(t).Field)
	}
}

func TestPostTurnStreams(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("hello there")
	post := func(header ...string) answer {
		return d.send("POST", "/v1/turns", `{"message":"x","idempotency_key":"k"}`, append(header, "Accept", "text/event-stream")...)
	}
	first := post("Last-Event-ID", "3") // is ignored for a new turn
	require.Equal(t, "text/event-stream", first.header.Get("Content-Type"))
	require.Equal(t, "turn-1", first.header.Get("Turnstone-Turn-Id"))
	require.Equal(t, string(first.body), string(d.send("GET", "/v1/turns/turn-1/events", "").body))
	// The same request again resumes.
	require.Equal(t, string(d.send("GET", "/v1/turns/turn-1/events?after_index=3", "").body), string(post("Last-Event-ID", "3").body))
	require.Equal(t, 204, post("Last-Event-ID", "4").status)
	// The client may refuse a stream.
	refused := d.send("POST", "/v1/turns", `{"message":"x","idempotency_key":"k"}`, "Accept", "text/event-stream;q=0, */*")
	require.Equal(t, "application/json", refused.header.Get("Content-Type"))
}

func TestGap(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	d.rt.Emit("t", gatewaytest.Token("a"), gatewaytest.Token("b"), gatewaytest.Token("c"))
	d.rt.Expire(3)
	a := d.send("GET", "/v1/turns/t/events", "")
	require.Equal(t, 410, a.status, "known before the first byte")
	require.Equal(t, "gap", a.failure(t).Type)
	require.Equal(t, 410, d.send("GET", "/v1/turns/t/events?after_index=1", "").status, "one short of what is kept")

	// A gap in an open stream is an error event without an id, which ends the stream.
	resp := d.follow(t.Context(), "/v1/turns/t/events?after_index=2")
	next := gatewaytest.Frames(t, resp.Body)
	next()
	frame := next()
	require.Contains(t, frame, "id: 3")
	d.rt.Expire(9)
	d.rt.Emit("t", gatewaytest.Token("d"))
	frame = next()
	require.NotContains(t, frame, "id:")
	require.Contains(t, frame, "event: error\n")
	require.Contains(t, frame, `"error":{"type":"gap"`)
	require.Empty(t, next())
}

func TestDisconnectLeavesTheTurnAlone(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error { t.Error("a viewer cancelled the turn"); return nil }
	d.begin("t")
	ctx, cancel := context.WithCancel(t.Context())
	resp := d.follow(ctx, "/v1/turns/t/events")
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 5*time.Second, time.Millisecond, "the follow loop goes with its client")
	_, err := io.ReadAll(resp.Body)
	require.Error(t, err)
	d.rt.Say("t", "still here")
	require.Contains(t, string(d.send("GET", "/v1/turns/t", "").body), "still here")
}

func TestStuckClientIsDroppedAndDisturbsNobody(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.WriteTimeout = time.Second })
	d.begin("t")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /v1/turns/t/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 5*time.Second, time.Millisecond)

	// The events are larger than the buffers of the connection. Another reader gets all of them.
	text := strings.Repeat("x", 1<<20)
	for range 16 {
		d.rt.Emit("t", gatewaytest.Token(text))
	}
	d.rt.Finish("t", agent.TurnCompleted, "done")
	whole := d.send("GET", "/v1/turns/t/events", "")
	require.Equal(t, 17, strings.Count(string(whole.body), "\nid: "))
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 30*time.Second, time.Millisecond, "the stuck client is dropped")
}

// Followers, waiting requests and jobs share the places.
func TestTooManyFollowers(t *testing.T) {
	requests := map[string]struct {
		turn         agent.TurnID
		method, path string
		body         string
	}{
		"events": {"t", "GET", "/v1/turns/t/events", ""},
		"a turn": {"u", "POST", "/v1/turns", `{"message":"x","turn_id":"u"}`},
		"a job":  {"job-u", "POST", "/test/chat", `{"prompt":"x","job_id":"u"}`},
	}
	for name, first := range requests {
		t.Run(name, func(t *testing.T) {
			d := startGateway(t, func(c *gateway.Config) { c.Limits.Streams = 1 })
			d.begin("t")
			done := make(chan answer, 1)
			go func() { done <- d.send(first.method, first.path, first.body) }()
			require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 5*time.Second, time.Millisecond)
			before := len(d.rt.Submitted())
			for _, second := range requests {
				a := d.send(second.method, second.path, second.body)
				require.Equal(t, 429, a.status, second.path)
				require.Equal(t, "5", a.header.Get("Retry-After"))
			}
			require.Len(t, d.rt.Submitted(), before, "a refused request starts nothing")
			d.rt.Say(first.turn, "done")
			require.Equal(t, 200, (<-done).status)
			if first.turn != "t" {
				d.rt.Say("t", "done")
			}
			require.Equal(t, 200, d.send("GET", "/v1/turns/t/events", "").status, "the place is free again")
		})
	}
}
