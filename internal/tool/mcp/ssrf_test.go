package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
)

// greeting is the answers of a server to a client that opens a session and lists its tools.
const greeting = `data: {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}}

data: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}

`

// streams returns the egress configuration for MCP, whose event streams last as long as a session.
func streams() egress.Config { return egress.Config{Timeout: -1, MaxBytes: 1 << 30} }

// TestAttackedServer checks that no URL of a server reaches a private address, and that opening a session takes bounded time.
func TestAttackedServer(t *testing.T) {
	egresstest.Exercise(t, egresstest.Harness{
		Good: greeting, GoodType: eventStream, Config: streams(),
		Fetch: func(ctx context.Context, c *egress.Client, at string) error {
			web := &egresstest.Counted{HTTP: c}
			kit := newKit(t, Config{HTTP: web})
			kit.pool.times.dial = 2 * time.Second
			_, err := kit.List(ctx, scopeOf(map[string]any{"url": at}))
			require.NoError(t, kit.Close())
			if err == nil {
				return nil
			}
			requireQuiet(t, err.Error())
			for _, entry := range kit.logs.All() {
				requireQuiet(t, fmt.Sprint(entry.Message, entry.ContextMap()))
			}
			if code := agent.CodeOf(err); (code == agent.CodeDenied || code == agent.CodeInvalid) && !strings.Contains(at, "rebind.") && !egresstest.Costly(at) {
				require.LessOrEqual(t, web.N.Load(), int32(1), "a refusal is not tried again")
			}
			return err
		},
	})
}

// requireQuiet checks that a text contains nothing of a URL but its host.
func requireQuiet(t *testing.T, text string) {
	t.Helper()
	for _, hidden := range []string{"quiet", "meta-data", "_GET%20", "/etc", "/redirect/"} {
		require.NotContains(t, text, hidden)
	}
}

// TestRedirectedCall checks that a server cannot redirect a call after its session was opened.
func TestRedirectedCall(t *testing.T) {
	internet := egresstest.NewWorld(t, greeting, eventStream)
	var attacks []egresstest.Attack
	for _, a := range internet.Attacks() {
		if strings.HasPrefix(a.Name, "redirect/") || a.Costly {
			attacks = append(attacks, a)
		}
	}
	require.Greater(t, len(attacks), 30)
	for _, a := range attacks {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			g, at := gated(t, &world{})
			cfg := streams()
			cfg.AllowPrivate = []string{strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/mcp")}
			kit := newKit(t, Config{HTTP: internet.Client(t, cfg, time.Second)})
			scope := scopeOf(map[string]any{"url": at, "timeout_sec": 2})
			echo := kit.find(t, scope, "echo")
			var asked atomic.Int32
			away := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				http.Redirect(w, r, a.URL, http.StatusTemporaryRedirect)
			})
			g.answer.Store(&away)
			result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":"quiet"}`)})
			require.NoError(t, err)
			require.NotNil(t, result.Failure)
			require.Equal(t, string(agent.CodeInvalid), result.Failure.Type, "%+v", result.Failure)
			require.Contains(t, result.Failure.Message, "redirects (307), which is not followed")
			require.EqualValues(t, 1, asked.Load(), "nothing is tried again")
			requireQuiet(t, string(result.Output))
			g.answer.Store(nil)
			require.JSONEq(t, `"again"`, string(kit.call(t, scope, "echo", `{"text":"again"}`).Output), "the next call goes through")
			require.Zero(t, internet.Reached())
		})
	}
}

// refusing is a client that refuses requests when it is switched on.
type refusing struct {
	egresstest.Counted

	isOn atomic.Bool
}

func (r *refusing) Do(req *http.Request) (*http.Response, error) {
	if !r.isOn.Load() || req.Method != http.MethodPost {
		return r.HTTP.Do(req)
	}
	r.N.Add(1)
	return nil, agent.Errorf(agent.CodeDenied, "request "+req.URL.Hostname(), "127.0.0.1 is not a public address")
}

// TestRefusedCall checks a host that becomes private after the session was opened: the call is refused with the reason, and no other session is
// opened.
func TestRefusedCall(t *testing.T) {
	web := &refusing{Counted: egresstest.Counted{HTTP: newHTTP(t)}}
	kit := newKit(t, Config{HTTP: web})
	scope := scopeOf(map[string]any{"url": overHTTP(t, newServer(&world{}), nil)})
	echo := kit.find(t, scope, "echo")
	web.isOn.Store(true)
	result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":"x"}`)})
	require.NoError(t, err)
	require.Equal(t, string(agent.CodeDenied), result.Failure.Type, "%+v", result.Failure)
	require.False(t, result.Failure.Retryable)
	require.Contains(t, result.Failure.Message, "127.0.0.1 is not a public address; the call was not sent")
	require.EqualValues(t, 1, web.N.Load())
	web.isOn.Store(false)
	require.JSONEq(t, `"again"`, string(kit.call(t, scope, "echo", `{"text":"again"}`).Output), "the next call goes through")
}

// TestCostlyCall checks that a call with an endless answer ends within the timeout of its binding.
func TestCostlyCall(t *testing.T) {
	internet := egresstest.NewWorld(t, greeting, eventStream)
	for _, a := range internet.Attacks() {
		if !a.Costly || strings.HasSuffix(a.Name, "/redirects") {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			g, at := gated(t, &world{})
			to, err := url.Parse(a.URL)
			require.NoError(t, err)
			cfg := streams()
			cfg.AllowPrivate = []string{strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/mcp")}
			kit := newKit(t, Config{HTTP: internet.Client(t, cfg, time.Second)})
			scope := scopeOf(map[string]any{"url": at, "timeout_sec": 2})
			echo := kit.find(t, scope, "echo")
			away := (&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL = to }, FlushInterval: -1, ErrorLog: zap.NewStdLog(zap.NewNop()),
				Transport: &http.Transport{DisableKeepAlives: true},
			}).ServeHTTP
			answer := http.HandlerFunc(away)
			g.answer.Store(&answer)
			began := time.Now()
			result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":"quiet"}`)})
			require.Less(t, time.Since(began), 15*time.Second)
			require.NoError(t, err)
			require.NotNil(t, result.Failure)
			require.Equal(t, agent.OutcomeUnknown, result.Failure.Type, "%+v", result.Failure)
			requireQuiet(t, string(result.Output))
		})
	}
}
