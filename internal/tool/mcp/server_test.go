package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

// serveEnv is the variable that makes the test binary a server on its standard input and output. Its value is the mode of serveStdio.
const serveEnv = "MCP_TEST_SERVER"

const secretValue = "s3cret-of-the-environment"

func TestMain(m *testing.M) {
	if mode := os.Getenv(serveEnv); mode != "" {
		serveStdio(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// untilKilled waits for a signal that is never sent. Waiting for nothing would end the process as a deadlock.
func untilKilled() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, os.Interrupt)
	<-never
}

func serveStdio(mode string) {
	switch mode {
	case "absent":
		os.Exit(3)
	case "silent":
		untilKilled()
	case "evil":
		fmt.Println(strings.Repeat(`{"jsonrpc":"2.0","id":1,`, 3))
		untilKilled()
	case "family": // starts a child that would survive it
		child := exec.Command("sleep", "1000")
		_ = child.Start()
		fmt.Fprintln(os.Stderr, "child", child.Process.Pid)
	}
	fmt.Fprintln(os.Stderr, "serving, with", os.Getenv("TOKEN"))
	_ = newServer(&world{}).Run(context.Background(), &sdk.StdioTransport{})
}

// world records what the tools of a test server do.
type world struct {
	effects atomic.Int64
	lists   atomic.Int64  // requests for tools/list
	keys    sync.Map      // idempotency keys
	slow    chan struct{} // closed when the tool "slow" has begun
	once    sync.Once
	cancels atomic.Int64 // cancelled calls
}

type sumArgs struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

type sumResult struct {
	Sum int64 `json:"sum"`
}

type textArgs struct {
	Text string `json:"text"`
}

func text(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// newServer returns a server with a tool for every situation.
func newServer(w *world) *sdk.Server {
	if w.slow == nil {
		w.slow = make(chan struct{})
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{PageSize: 5})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				w.lists.Add(1)
			}
			return next(ctx, method, req)
		}
	})
	add := func(name string, h func(ctx context.Context, r *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "does " + name}, func(ctx context.Context, r *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, any, error) {
			out, err := h(ctx, r, in)
			return out, nil, err
		})
	}
	sdk.AddTool(s, &sdk.Tool{Name: "sum", Description: "adds", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in sumArgs) (*sdk.CallToolResult, sumResult, error) {
			return nil, sumResult{in.A + in.B}, nil
		})
	add("echo", func(_ context.Context, r *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		w.effects.Add(1)
		w.keys.Store(r.Params.Meta[metaKey], true)
		return text("%s", in.Text), nil
	})
	add("json", func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, error) {
		return text(` {"id": 12345678901234567890} `), nil
	})
	s.AddTool(&sdk.Tool{Name: "exact", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in textArgs
		err := json.Unmarshal(r.Params.Arguments, &in)
		out := text("%s", in.Text)
		out.StructuredContent = json.RawMessage(in.Text)
		return out, err
	})
	add("fail", func(_ context.Context, _ *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		return nil, errors.New("cannot: " + in.Text)
	})
	add("environment", func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, error) {
		return text("%s", strings.Join(os.Environ(), "\n")), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest, _ textArgs) (*sdk.CallToolResult, error) {
		for i := range 3 {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: fmt.Sprintf("step %d", i+1),
			})
		}
		// The client has looked at what came before it answers this.
		return text("done"), r.Session.Ping(ctx, nil)
	})
	add("slow", func(ctx context.Context, _ *sdk.CallToolRequest, _ textArgs) (*sdk.CallToolResult, error) {
		w.effects.Add(1)
		w.once.Do(func() { close(w.slow) })
		select {
		case <-ctx.Done():
			w.cancels.Add(1)
			return nil, ctx.Err()
		case <-time.After(10 * time.Second): // the client has closed the session before it said so, and closing waits for this
			return nil, errors.New("nobody waits for the answer")
		}
	})
	add("die", func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, error) {
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	})
	add("huge", func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, error) {
		return text("%s", strings.Repeat("x", 5<<20)), nil
	})
	add("picture", func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a picture"},
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")},
			&sdk.ResourceLink{URI: "https://example.com/x", Name: "x", MIMEType: "text/html"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://r", MIMEType: "text/plain", Text: "inside"}},
		}}, nil
	})
	add("ask", func(ctx context.Context, r *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		prompt := []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: in.Text}}}                        //nolint:staticcheck // what servers do today
		reply, err := r.Session.CreateMessage(ctx, &sampleParams{MaxTokens: 50, SystemPrompt: "short", Messages: prompt}) //nolint:staticcheck // as above
		if err != nil {
			return nil, fmt.Errorf("sampling: %w", err)
		}
		said, _ := reply.Content.(*sdk.TextContent)
		return text("%s says %s", reply.Model, said.Text), nil
	})
	add("flood", func(ctx context.Context, r *sdk.CallToolRequest, _ textArgs) (*sdk.CallToolResult, error) {
		for i := range 20_000 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Message: strings.Repeat("x", 1<<10),
			}); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("grow", func(_ context.Context, _ *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		sdk.AddTool(s, &sdk.Tool{Name: in.Text, Description: "new"}, func(context.Context, *sdk.CallToolRequest, textArgs) (*sdk.CallToolResult, any, error) {
			return text("new"), nil, nil
		})
		return text("grown"), nil
	})
	return s
}

// overHTTP serves over streamable HTTP and returns the URL.
func overHTTP(t *testing.T, s *sdk.Server, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		for session := range s.Sessions() { // those that no client has ended
			_ = session.Close()
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/mcp"
}

// plainHTTP is a [tool.HTTP] without egress rules.
type plainHTTP struct{ client http.Client }

func (p *plainHTTP) Do(r *http.Request) (*http.Response, error) { return p.client.Do(r) }

func newHTTP(t *testing.T) *plainHTTP {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &plainHTTP{http.Client{Transport: tr}}
}

// fixture is a toolkit with its logs.
type fixture struct {
	*Toolkit
	logs *observer.ObservedLogs
}

func newKit(t *testing.T, cfg Config) *fixture {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg.Logger = zap.New(core)
	cfg.Version = "test"
	if cfg.HTTP == nil {
		cfg.HTTP = newHTTP(t)
	}
	kit, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, kit.Close()) })
	return &fixture{kit, logs}
}

// stdioServer returns the configuration of the test binary as a server.
func stdioServer(name, mode string) Server {
	return Server{Name: name, Command: os.Args[0], Env: map[string]string{serveEnv: mode, "TOKEN": secretValue}}
}

func scopeOf(parameters map[string]any) agent.ToolScope {
	raw, err := json.Marshal(parameters)
	if err != nil {
		panic(err)
	}
	return agent.ToolScope{Tenant: "acme", Binding: "b", Parameters: raw}
}

// overBoth runs a test with a server over stdio and with one over HTTP.
func overBoth(t *testing.T, timeoutSec int, run func(t *testing.T, kit *fixture, scope agent.ToolScope)) {
	t.Helper()
	t.Run("stdio", func(t *testing.T) {
		run(t, newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}}), scopeOf(map[string]any{"server": "local", "timeout_sec": timeoutSec}))
	})
	t.Run("http", func(t *testing.T) {
		run(t, newKit(t, Config{}), scopeOf(map[string]any{"url": overHTTP(t, newServer(&world{}), nil), "timeout_sec": timeoutSec}))
	})
}

// find returns a tool by the name under which it is listed.
func (f *fixture) find(t *testing.T, scope agent.ToolScope, name string) agent.Tool {
	t.Helper()
	list, err := f.List(t.Context(), scope)
	require.NoError(t, err)
	for i := range list {
		if list[i].Spec.Name == name {
			found, err := f.Find(t.Context(), scope, name, list[i].Handle)
			require.NoError(t, err)
			return found
		}
	}
	require.Failf(t, "no such tool", "%s is not in %d tools", name, len(list))
	return nil
}

func (f *fixture) call(t *testing.T, scope agent.ToolScope, name, args string) agent.ToolResult {
	t.Helper()
	result, err := f.find(t, scope, name).Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: name, Args: json.RawMessage(args)})
	require.NoError(t, err)
	return result
}

func invocationOf(scope agent.ToolScope) agent.Invocation {
	return agent.Invocation{Tenant: scope.Tenant, TurnID: "t", Step: 1, Attempt: 1, IdempotencyKey: "t/1/c", Parameters: scope.Parameters, Auth: scope.Auth}
}

func noSum(_ context.Context, _ *sdk.CallToolRequest, in sumArgs) (*sdk.CallToolResult, sumResult, error) {
	return nil, sumResult{in.A + in.B}, nil
}
