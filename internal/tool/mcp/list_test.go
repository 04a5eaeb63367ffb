package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// listing returns a server that answers tools/list with pages of a test.
func listing(pages func(cursor string) *sdk.ListToolsResult) *sdk.Server {
	s := newServer(&world{})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, req)
			}
			return pages(req.GetParams().(*sdk.ListToolsParams).Cursor), nil
		}
	})
	return s
}

func one(tools ...*sdk.Tool) func(string) *sdk.ListToolsResult {
	return func(string) *sdk.ListToolsResult { return &sdk.ListToolsResult{Tools: tools} }
}

func nested(levels int) map[string]any {
	out := map[string]any{}
	for range levels {
		out = map[string]any{"properties": out}
	}
	return out
}

func TestHostileLists(t *testing.T) {
	object := map[string]any{"type": "object"}
	kit := newKit(t, Config{})
	list := func(t *testing.T, s *sdk.Server) []agent.ListedTool {
		t.Helper()
		out, err := kit.List(t.Context(), scopeOf(map[string]any{"url": overHTTP(t, s, nil)}))
		require.NoError(t, err)
		return out
	}
	t.Run("schemas", func(t *testing.T) {
		out := list(t, listing(one(
			&sdk.Tool{Name: "none"},
			&sdk.Tool{Name: "array", InputSchema: map[string]any{"type": "array"}},
			&sdk.Tool{Name: "text", InputSchema: "x"},
			&sdk.Tool{Name: "untyped", InputSchema: map[string]any{"properties": map[string]any{"a": map[string]any{"description": "b\u200b\x07"}}}},
			&sdk.Tool{Name: "deep", InputSchema: nested(maxDepth + 1)},
			&sdk.Tool{Name: "large", InputSchema: map[string]any{"type": "object", "x": strings.Repeat("x", maxSchema)}},
			&sdk.Tool{Name: "", InputSchema: object},
			&sdk.Tool{Name: strings.Repeat("n", maxServerName+1), InputSchema: object},
			nil,
		)))
		require.Equal(t, []string{"none", "array", "text", "untyped"}, names(out))
		for i := range 3 {
			require.JSONEq(t, `{"type":"object"}`, string(out[i].Spec.Parameters))
		}
		require.JSONEq(t, `{"type":"object","properties":{"a":{"description":"b"}}}`, string(out[3].Spec.Parameters))
		require.Len(t, kit.logs.FilterMessage("MCP tool is left out").All(), 4)
	})
	t.Run("descriptions", func(t *testing.T) {
		out := list(t, listing(one(
			&sdk.Tool{Name: "poison", Description: "good\x1b[2J\u202e\U000E0049 words " + strings.Repeat("x", 2000), InputSchema: object},
			&sdk.Tool{Name: "silent", InputSchema: object}, &sdk.Tool{Name: "titled", Title: "A title", InputSchema: object},
		)))
		require.True(t, strings.HasPrefix(out[0].Spec.Description, "good[2J words x"), out[0].Spec.Description)
		require.Len(t, []rune(out[0].Spec.Description), maxDescription)
		require.Contains(t, out[1].Spec.Description, "MCP server")
		require.Equal(t, "A title", out[2].Spec.Description)
	})
	t.Run("too many", func(t *testing.T) {
		out := list(t, listing(func(cursor string) *sdk.ListToolsResult {
			page := &sdk.ListToolsResult{NextCursor: cursor + "x"}
			for i := range 300 {
				page.Tools = append(page.Tools, &sdk.Tool{Name: fmt.Sprintf("%d_%d", len(cursor), i), InputSchema: object})
			}
			return page
		}))
		require.Len(t, out, maxTools)
	})
	t.Run("endless", func(t *testing.T) {
		out := list(t, listing(func(cursor string) *sdk.ListToolsResult {
			return &sdk.ListToolsResult{NextCursor: cursor + "x", Tools: []*sdk.Tool{{Name: fmt.Sprint(len(cursor)), InputSchema: object}}}
		}))
		require.Len(t, out, maxPages)
	})
	t.Run("schemas together", func(t *testing.T) {
		var tools []*sdk.Tool
		for i := range 40 {
			tools = append(tools, &sdk.Tool{Name: fmt.Sprint(i), InputSchema: map[string]any{"type": "object", "x": strings.Repeat("x", 60<<10)}})
		}
		out := list(t, listing(one(tools...)))
		require.Less(t, len(out), 20)
		require.NotEmpty(t, out)
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	offer := func(prefix string, serverNames ...string) []string {
		tools := make([]serverTool, len(serverNames))
		for i := range serverNames {
			tools[i].name = serverNames[i]
		}
		return offeredNames(prefix, tools)
	}
	require.Equal(t, []string{"get-sum", "a_b", "tool"}, offer("", "get-sum", "a.b", "日本"))
	require.Equal(t, []string{"x_a"}, offer("x", "a"))

	same := offer("", "a.b", "a_b", "a b")
	require.Equal(t, "a_b", same[1], "an accepted name stays")
	require.Regexp(t, `^a_b_[0-9a-f]{8}$`, same[0])
	require.NotEqual(t, same[0], same[2])
	require.Equal(t, []string{same[2], same[1], same[0]}, offer("", "a b", "a_b", "a.b"), "names do not depend on the order")

	long := offer("prefix", strings.Repeat("n", 100), strings.Repeat("n", 101))
	for _, name := range long {
		require.Regexp(t, `^[a-zA-Z0-9_-]{64}$`, name)
	}
	require.NotEqual(t, long[0], long[1])
}

func TestAnnotations(t *testing.T) {
	url := overHTTP(t, newServer(&world{}), nil)
	kit := newKit(t, Config{})
	for _, trust := range []bool{false, true} {
		scope := scopeOf(map[string]any{"url": url, "trust_annotations": trust})
		list, err := kit.List(t.Context(), scope)
		require.NoError(t, err)
		i := slices.Index(names(list), "sum")
		require.Equal(t, trust, list[i].Spec.Idempotent)
		require.Equal(t, trust, list[i].Spec.InherentlySafe)
		found := kit.find(t, scope, "sum")
		require.Equal(t, trust, found.Spec().Idempotent)
		require.Equal(t, trust, found.Spec().InherentlySafe)
		_, free := found.(agent.EffectFree)
		require.Equal(t, trust, free)
		echo := kit.find(t, scope, "echo")
		require.False(t, echo.Spec().Idempotent || echo.Spec().InherentlySafe)
	}
	// A forged handle does not override the binding.
	forged, err := kit.Find(t.Context(), scopeOf(map[string]any{"url": url}), "echo", `{"name":"echo","read_only":true,"idempotent":true}`)
	require.NoError(t, err)
	_, free := forged.(agent.EffectFree)
	require.False(t, free || forged.Spec().Idempotent)
}

func TestToolThatIsGone(t *testing.T) {
	kit := newKit(t, Config{})
	s := newServer(&world{})
	scope := scopeOf(map[string]any{"url": overHTTP(t, s, nil)})
	echo := kit.find(t, scope, "echo")
	_, err := kit.Find(t.Context(), scope, "gone", `{"name":"gone"}`)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	s.RemoveTools("echo")
	result, err := echo.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "echo", Args: json.RawMessage(`{"text":""}`)})
	require.NoError(t, err)
	require.NotNil(t, result.Failure)
	require.Contains(t, result.Failure.Message, "echo")
}

func TestBindings(t *testing.T) {
	t.Parallel()
	for parameters, field := range map[string]string{
		`{}`:                                                      "server",
		`{"server":"a","url":"https://b"}`:                        "url",
		`{"url":"ftp://b"}`:                                       "url",
		`{"url":"https://u:p@b"}`:                                 "url",
		`{"url":"b"}`:                                             "url",
		`{"url":"https://b#c"}`:                                   "url",
		`{"server":"a","prefix":"a b"}`:                           "prefix",
		`{"server":"a","sampling":"yes"}`:                         "sampling",
		`{"server":"a","timeout_sec":-1}`:                         "timeout_sec",
		`{"server":"a","max_result_bytes":1}`:                     "max_result_bytes",
		`{"url":"https://b","transport":"sse"}`:                   "transport",
		`{"server":"a","command":"rm -rf /"}`:                     "command",
		`{"server":["a"]}`:                                        "server",
		`{"url":"https://b/` + strings.Repeat("x", maxURL) + `"}`: "url",
	} {
		require.Error(t, schema.New().Check("", properties, json.RawMessage(parameters)), parameters) // so that apply refuses it
		_, err := parseBinding(json.RawMessage(parameters))
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), parameters)
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field, parameters)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]Config{
		"servers[0].name":    {Servers: []Server{{Name: "a b", Command: "x"}}},
		"servers[1].name":    {Servers: []Server{{Name: "a", Command: "x"}, {Name: "a", Command: "x"}}},
		"servers[0].command": {Servers: []Server{{Name: "a"}}},
		"servers[0].env":     {Servers: []Server{{Name: "a", Command: "x", Env: map[string]string{"A=B": "c"}}}},
		"servers[0]":         {Servers: []Server{{Name: "a", Command: "x\x00"}}},
		"servers":            {Servers: make([]Server, maxServers+1)},
	} {
		_, err := New(cfg)
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field)
	}
	without, err := New(Config{})
	require.NoError(t, err)
	_, err = without.List(t.Context(), scopeOf(map[string]any{"url": "https://a.example/mcp"}))
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.NoError(t, without.Close())
}
