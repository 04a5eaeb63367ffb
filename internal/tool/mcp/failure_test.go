package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestServerDies checks that the outcome of a call is unknown if the server dies during it.
func TestServerDies(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	scope := scopeOf(map[string]any{"server": "local"})
	die := kit.find(t, scope, "die")
	inv := invocationOf(scope)

	result, err := die.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "die", Args: json.RawMessage(`{"text":""}`)})
	require.NoError(t, err)
	require.NotNil(t, result.Failure)
	require.Equal(t, agent.OutcomeUnknown, result.Failure.Type)
	require.False(t, result.Failure.Retryable)
	require.Contains(t, result.Failure.Message, "not repeated")

	require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "sum", `{"a":1,"b":2}`).Output), "it is started again")

	inv.Repeatable = true
	_, err = die.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "die", Args: json.RawMessage(`{"text":""}`)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "the runtime repeats it: %v", err)
	require.ErrorContains(t, err, "connection was lost")
}

// TestServerDiedBefore checks that a server that died between two calls is started again by the next call.
func TestServerDiedBefore(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	scope := scopeOf(map[string]any{"server": "local"})
	sum := kit.find(t, scope, "sum")
	for range 3 {
		s := kit.only(t)
		signalGroup(s.link.transport.(*stdioTransport).process.cmd.Process.Pid, syscall.SIGKILL)
		result, err := sum.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "sum", Args: json.RawMessage(`{"a":1,"b":2}`)})
		require.NoError(t, err)
		if result.Failure != nil { // the frame had gone into the pipe before the kernel noticed
			require.Equal(t, agent.OutcomeUnknown, result.Failure.Type)
			require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "sum", `{"a":1,"b":2}`).Output), "the next one finds it started again")
		}
	}
}

// only returns the only open session.
func (f *fixture) only(t *testing.T) *session {
	t.Helper()
	var open []*session
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	for _, s := range f.pool.slots {
		if s.session != nil {
			open = append(open, s.session)
		}
	}
	require.Len(t, open, 1)
	return open[0]
}

func TestCancelledCall(t *testing.T) {
	w := &world{}
	kit := newKit(t, Config{})
	scope := scopeOf(map[string]any{"url": overHTTP(t, newServer(w), nil)})
	slow := kit.find(t, scope, "slow")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-w.slow; cancel() }()
	_, err := slow.Call(ctx, invocationOf(scope), agent.ToolCall{ID: "c", Name: "slow", Args: json.RawMessage(`{"text":""}`)})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.Eventually(t, func() bool { return w.cancels.Load() == 1 }, 10*time.Second, 5*time.Millisecond, "the server is told")
	require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "sum", `{"a":1,"b":2}`).Output), "the session goes on")
}

func TestCallTimesOut(t *testing.T) {
	overBoth(t, 1, func(t *testing.T, kit *fixture, scope agent.ToolScope) {
		slow := kit.find(t, scope, "slow")
		inv := invocationOf(scope)
		result, err := slow.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "slow", Args: json.RawMessage(`{"text":""}`)})
		require.NoError(t, err)
		require.Equal(t, agent.OutcomeUnknown, result.Failure.Type)
		require.Contains(t, result.Failure.Message, "no answer in time")
		inv.Repeatable = true
		_, err = slow.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "slow", Args: json.RawMessage(`{"text":""}`)})
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	})
}

// gate is a handler whose answers tests can replace.
type gate struct {
	next   http.Handler
	answer atomic.Pointer[http.HandlerFunc] // answers tools/call; nil: next does
	all    atomic.Bool                      // answer answers all requests
	asked  atomic.Int64                     // requests
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	g.asked.Add(1)
	if h := g.answer.Load(); h != nil && (g.all.Load() || strings.Contains(string(body), `"tools/call"`)) {
		(*h)(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// gated returns a gate before a new server, and its URL.
func gated(t *testing.T, w *world) (*gate, string) {
	t.Helper()
	g := &gate{}
	return g, overHTTP(t, newServer(w), func(next http.Handler) http.Handler { g.next = next; return g })
}

// TestHTTPStatus checks the failures of a call that must not be repeated, for answers that are no result.
func TestHTTPStatus(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		kind   string
	}{
		{"401", status(401), string(agent.CodeDenied)},
		{"403", status(403), string(agent.CodeDenied)},
		{"400", status(400), string(agent.CodeInvalid)},
		{"429", status(429), string(agent.CodeRateLimited)},
		{"503", status(503), string(agent.CodeUnavailable)},
		{"500", status(500), agent.OutcomeUnknown},
		{"502", status(502), agent.OutcomeUnknown},
		{"connection cut", cut, agent.OutcomeUnknown},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "<html>")
		}, agent.OutcomeUnknown},
		{"another type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		}, agent.OutcomeUnknown},
		{"stream without answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": nothing\n\n")
		}, agent.OutcomeUnknown},
		{"endless JSON", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, agent.OutcomeUnknown},
		{"endless event", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 1<<16)+"\n"); err != nil {
					return
				}
			}
		}, agent.OutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, url := gated(t, &world{})
			kit := newKit(t, Config{})
			scope := scopeOf(map[string]any{"url": url, "timeout_sec": 20})
			echo := kit.find(t, scope, "echo")
			g.answer.Store(&c.answer)
			result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":""}`)})
			require.NoError(t, err)
			require.NotNil(t, result.Failure)
			require.Equal(t, c.kind, result.Failure.Type, result.Failure.Message)
			require.NotContains(t, result.Failure.Message, "/mcp", "no URL")
			require.NotContains(t, result.Failure.Message, "in time", "it ends by itself")
			g.answer.Store(nil)
			require.JSONEq(t, `"again"`, string(kit.call(t, scope, "echo", `{"text":"again"}`).Output))
		})
	}
}

// TestForgottenSession checks that a call is sent in a new session if the server has forgotten the old one.
func TestForgottenSession(t *testing.T) {
	w := &world{}
	g, url := gated(t, w)
	kit := newKit(t, Config{})
	scope := scopeOf(map[string]any{"url": url})
	echo := kit.find(t, scope, "echo")
	var once sync.Once
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		forgotten := false
		once.Do(func() { forgotten = true })
		if forgotten {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		g.next.ServeHTTP(rw, r)
	})
	g.answer.Store(&h)
	result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":"hi"}`)})
	require.NoError(t, err)
	require.Nil(t, result.Failure, "%+v", result.Failure)
	require.JSONEq(t, `"hi"`, string(result.Output))
	require.EqualValues(t, 1, w.effects.Load())
}

func TestNotSent(t *testing.T) {
	kit := newKit(t, Config{})
	scope := scopeOf(map[string]any{"url": "http://127.0.0.1:1/mcp"})
	echo, err := kit.Find(t.Context(), scope, "echo", `{"name":"echo"}`)
	require.NoError(t, err)
	inv := invocationOf(scope)
	result, err := echo.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, string(agent.CodeUnavailable), result.Failure.Type)
	require.True(t, result.Failure.Retryable)
	require.Contains(t, result.Failure.Message, "was not sent")
	inv.Repeatable = true
	_, err = echo.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{}`)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

// TestBadServers checks servers that do not start, do not answer or do not speak the protocol.
func TestBadServers(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{
		{Name: "missing", Command: "/no/such/command", Env: map[string]string{"TOKEN": secretValue}},
		{Name: "file", Command: "./doc.go"},
		stdioServer("absent", "absent"), stdioServer("evil", "evil"), stdioServer("silent", "silent"),
	}})
	kit.pool.times.dial = 2 * time.Second
	for name, words := range map[string]string{
		"missing": "is not there", "file": "may not be run", "absent": "MCP server", "evil": "MCP server", "silent": "no answer in time",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kit.List(t.Context(), scopeOf(map[string]any{"server": name}))
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, words)
			require.NotContains(t, err.Error(), secretValue)
			require.NotContains(t, err.Error(), "/no/such")
		})
	}
	_, err := kit.List(t.Context(), scopeOf(map[string]any{"server": "other"}))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	var named *agent.Error
	require.ErrorAs(t, err, &named)
	require.Equal(t, "server", named.Field)
}

// TestBackoff checks that a failing server is not asked again for a while.
func TestBackoff(t *testing.T) {
	g, url := gated(t, &world{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	g.answer.Store(&h)
	g.all.Store(true)
	kit := newKit(t, Config{})
	scope := scopeOf(map[string]any{"url": url})
	_, err := kit.List(t.Context(), scope)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	asked := g.asked.Load()
	require.Positive(t, asked)
	for range 5 {
		_, err = kit.List(t.Context(), scope)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		require.ErrorContains(t, err, "not tried again for")
		var e *agent.Error
		require.True(t, errors.As(err, &e) && e.RetryAfter > 0)
	}
	require.Equal(t, asked, g.asked.Load(), "it was asked again")

	var s slot
	times := defaultPoolTimes()
	var pauses []time.Duration
	for range 6 {
		s.delayRetry(&times)
		pauses = append(pauses, time.Until(s.retryAt).Round(time.Second))
	}
	require.Equal(t, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}, pauses)
}
