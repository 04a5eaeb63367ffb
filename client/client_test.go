package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func serve(t *testing.T, change func(*client.Config)) (*gatewaytest.Runtime, *client.Client) {
	t.Helper()
	rt := gatewaytest.New()
	return rt, serveCatalog(t, rt, &gatewaytest.Catalog{}, change)
}

func serveCatalog(t *testing.T, rt *gatewaytest.Runtime, documents *gatewaytest.Catalog, change func(*client.Config)) *client.Client {
	t.Helper()
	g := gatewaytest.Serve(t, gateway.Config{Ports: gatewaytest.Ports(rt, documents)})
	return dial(t, "http://"+g.HTTPAddr(), change)
}

func dial(t *testing.T, server string, change func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Server: server, Patience: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	require.NoError(t, err)
	return c
}

func collect(ctx context.Context, c *client.Client, id agent.TurnID, after int64) (indexes []int64, err error) {
	for e, err := range c.Follow(ctx, id, after) {
		if err != nil {
			return indexes, err
		}
		indexes = append(indexes, e.Meta.EventIndex)
	}
	return indexes, nil
}

func TestRoundTrips(t *testing.T) {
	rt, c := serve(t, nil)
	ctx := t.Context()
	r, err := c.Start(ctx, agent.TurnRequest{Message: "hi", SessionID: "s"})
	require.NoError(t, err)
	require.Equal(t, agent.Receipt{TurnID: "turn-1", SessionID: "s", StreamID: "turn-1"}, r)
	require.NotEmpty(t, rt.Submitted()[0].Request.IdempotencyKey)

	turn, err := c.Turn(ctx, r.TurnID)
	require.NoError(t, err)
	require.Equal(t, "running", turn.State)
	require.NoError(t, c.Decide(ctx, r.TurnID, agent.Decision{ApprovalID: "a", Decision: agent.DecisionEdit, Args: json.RawMessage(`{}`)}))
	require.NoError(t, c.Provide(ctx, r.TurnID, agent.ProvidedResult{ToolCallID: "c", Result: json.RawMessage(`1`)}))
	require.NoError(t, c.Cancel(ctx, r.TurnID, agent.CancelRequest{Reason: "enough"}))
	rt.Say(r.TurnID, "one two")
	turn, err = c.Turn(ctx, r.TurnID)
	require.NoError(t, err)
	require.Equal(t, "one two", turn.Output.Output)
	got, err := collect(ctx, c, r.TurnID, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3, 4}, got)
	got, err = collect(ctx, c, r.TurnID, 4)
	require.NoError(t, err)
	require.Empty(t, got)

	page, err := c.Messages(ctx, "s", 0, 10)
	require.NoError(t, err)
	require.Len(t, page.Messages, 1)
	for _, ref := range []string{"artifact://result-of-turn-1", "turn-1"} {
		v, err := c.Result(ctx, ref)
		require.NoError(t, err)
		data, err := io.ReadAll(v.Body)
		require.NoError(t, err)
		require.NoError(t, v.Body.Close())
		require.JSONEq(t, `{"output":"one two"}`, string(data))
	}
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	rt, c := serve(t, nil)
	_, err := c.Turn(t.Context(), "nope")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = collect(t.Context(), c, "nope", 0)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = c.Start(t.Context(), agent.TurnRequest{})
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "message", e.Field)
	require.Equal(t, 1, strings.Count(err.Error(), "message: "), "the field is named once: %v", err)

	_, err = c.Start(t.Context(), agent.TurnRequest{Message: "x", TurnID: "t"})
	require.NoError(t, err)
	rt.Emit("t", gatewaytest.Token("a"), gatewaytest.Token("b"))
	rt.Expire(2)
	_, err = collect(t.Context(), c, "t", 0)
	require.ErrorIs(t, err, agent.ErrGap)

	for _, server := range []string{"", "localhost:8080", "ftp://x", "http://", "http://x?y=1"} {
		_, err := client.New(client.Config{Server: server})
		require.ErrorContains(t, err, "server", server)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := dial(t, "http://"+l.Addr().String(), nil)
	_, err = c.ListAgents(t.Context(), agent.AgentQuery{})
	require.ErrorIs(t, err, client.ErrUnreachable)
	_, err = collect(t.Context(), c, "t", 0)
	require.ErrorIs(t, err, client.ErrUnreachable)
}

// cutter is a server that loses its connections: the n-th answer of an event stream ends behind n frames, in the middle of one.
func cutter(t *testing.T, answers ...string) (*httptest.Server, *atomic.Int32) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1)) - 1
		if n >= len(answers) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		text, ok := strings.CutPrefix(answers[n], "after "+r.Header.Get("Last-Event-Id")+"|")
		if !ok {
			t.Errorf("connection %d resumed at %q, want %q", n, r.Header.Get("Last-Event-Id"), answers[n])
		}
		if text == "hang" {
			<-r.Context().Done()
			return
		}
		if status, rest, ok := strings.Cut(text, "!"); ok {
			w.Header().Set("Retry-After", rest)
			code := 0
			_, _ = fmt.Sscan(status, &code)
			w.WriteHeader(code)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		if rest, ok := strings.CutSuffix(text, ":silent\n"); ok && rest != text {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func frame(index int, kind string) string {
	return fmt.Sprintf("id: %d\nevent: token\ndata: {\"meta\":{\"event_index\":%d},\"type\":\"token\"%s}\n\n", index, index, kind)
}

func TestFollowResumes(t *testing.T) {
	end := strings.ReplaceAll(frame(4, `,"status":"COMPLETED"`), `"type":"token"`, `"type":"status"`)
	s, calls := cutter(t,
		"after 0|"+frame(1, "")+frame(2, "")[:30], // cut inside a frame
		"after 1|", // nothing at all
		"after 1|503!", "after 1|502!",
		"after 1|"+frame(1, "")+frame(2, "")+":silent\n", // repeats one, then falls silent
		"after 2|hang", // accepts and never answers
		"after 2|event: error\ndata: {\"meta\":{},\"type\":\"error\",\"error\":{\"type\":\"unavailable\"}}\n\n",
		"after 2|retry: 1\n\n:\n\n"+frame(3, "")+end,
	)
	c := dial(t, s.URL, func(c *client.Config) { c.IdleTimeout = 300 * time.Millisecond; c.Patience = time.Minute })
	got, err := collect(t.Context(), c, "t", 0)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3, 4}, got)
	require.Equal(t, int32(8), calls.Load())
}

func TestFollowGivesUp(t *testing.T) {
	answers := []string{"after 0|" + frame(1, "")}
	for range 1000 {
		answers = append(answers, "after 1|")
	}
	s, _ := cutter(t, answers...)
	c := dial(t, s.URL, func(c *client.Config) { c.Patience = 50 * time.Millisecond })
	got, err := collect(t.Context(), c, "t", 0)
	require.ErrorContains(t, err, "gave up")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Equal(t, []int64{1}, got)
}

// TestPatienceIsForTroubleAlone: a stream on which nothing happens for longer than Patience, but which beats, may break and go on.
func TestPatienceIsForTroubleAlone(t *testing.T) {
	var calls atomic.Int32
	const patience = 200 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, frame(1, ""))
			heartbeat, over := time.NewTicker(patience/20), time.After(2*patience)
			defer heartbeat.Stop()
			for {
				_, _ = io.WriteString(w, ":\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-heartbeat.C:
				case <-over:
					return
				case <-r.Context().Done():
					return
				}
			}
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(frame(2, `,"status":"COMPLETED"`), `"type":"token"`, `"type":"status"`))
	}))
	t.Cleanup(s.Close)
	c := dial(t, s.URL, func(c *client.Config) { c.Patience = patience; c.IdleTimeout = patience })
	got, err := collect(t.Context(), c, "t", 0)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, got)
}

func TestFollowEndsWithItsContext(t *testing.T) {
	rt, c := serve(t, nil)
	_, err := c.Start(t.Context(), agent.TurnRequest{Message: "x", TurnID: "t"})
	require.NoError(t, err)
	rt.Emit("t", gatewaytest.Token("a"))
	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range c.Follow(ctx, "t", 0) {
		if err != nil {
			require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
			break
		}
		cancel()
	}
	cancel()
	for range c.Follow(t.Context(), "t", 0) {
		break // a consumer may stop at any time
	}
	require.Eventually(t, func() bool { return rt.Followers() == 0 }, 5*time.Second, time.Millisecond)
}
