package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func names(list []agent.ListedTool) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Spec.Name
	}
	return out
}

func TestOverStdio(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	scope := scopeOf(map[string]any{"server": "local"})
	list, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	require.Contains(t, names(list), "sum")
	require.Len(t, list, 14, "all pages")
	require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "sum", `{"a":1,"b":2}`).Output))
}

func TestOverHTTP(t *testing.T) {
	w := &world{}
	kit := newKit(t, Config{})
	scope := scopeOf(map[string]any{"url": overHTTP(t, newServer(w), nil), "prefix": "far"})
	require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "far_sum", `{"a":1,"b":2}`).Output))
	require.JSONEq(t, `"hi"`, string(kit.call(t, scope, "far_echo", `{"text":"hi"}`).Output))
	_, ok := w.keys.Load("t/1/c")
	require.True(t, ok, "the idempotency key arrives")
}

func TestConformance(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	tooltest.Exercise(t, kit.Toolkit)
	s := sdk.NewServer(&sdk.Implementation{Name: "one"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "sum", Description: "adds"}, noSum)
	sdk.AddTool(s, &sdk.Tool{Name: "a.b", Description: "adds", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, noSum)
	tooltest.ExerciseListed(t, kit.Toolkit, scopeOf(map[string]any{"url": overHTTP(t, s, nil), "trust_annotations": true}))
}

func TestListChanges(t *testing.T) {
	for _, way := range []string{"stdio", "http"} {
		t.Run(way, func(t *testing.T) {
			w := &world{}
			kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
			scope := scopeOf(map[string]any{"server": "local"})
			if way == "http" {
				scope = scopeOf(map[string]any{"url": overHTTP(t, newServer(w), nil)})
			}
			before, err := kit.List(t.Context(), scope)
			require.NoError(t, err)
			kit.call(t, scope, "grow", `{"text":"later"}`)
			require.Eventually(t, func() bool {
				after, err := kit.List(t.Context(), scope)
				return err == nil && len(after) == len(before)+1
			}, 10*time.Second, 5*time.Millisecond)
			if way == "http" {
				asked := w.lists.Load()
				_, err = kit.List(t.Context(), scope)
				require.NoError(t, err)
				require.Equal(t, asked, w.lists.Load(), "a list is remembered")
			}
		})
	}
}

func TestResults(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	scope := scopeOf(map[string]any{"server": "local"})

	require.Equal(t, `{"id":12345678901234567890}`, string(kit.call(t, scope, "json", `{"text":""}`).Output), "every digit")
	require.JSONEq(t, `[1,{"a":2}]`, string(kit.call(t, scope, "exact", `{"text":"[1, {\"a\": 2}]"}`).Output), "structured content that is no object")
	require.Equal(t, `{"id":12345678901234567890}`, string(kit.call(t, scope, "exact", `{"text":"{\"id\": 12345678901234567890}"}`).Output), "every digit")

	failed := kit.call(t, scope, "fail", `{"text":"no"}`)
	require.NotNil(t, failed.Failure)
	require.Equal(t, "cannot: no", failed.Failure.Message)
	require.False(t, failed.Failure.Retryable)

	wrong := kit.call(t, scope, "sum", `{"a":"x"}`)
	require.NotNil(t, wrong.Failure)
	require.Equal(t, string(agent.CodeInvalid), wrong.Failure.Type)

	large := kit.call(t, scope, "huge", `{"text":""}`)
	require.NotNil(t, large.Failure)
	require.Equal(t, string(agent.CodeOverflow), large.Failure.Type)

	var picture struct{ Content []block }
	require.NoError(t, json.Unmarshal(kit.call(t, scope, "picture", `{"text":""}`).Output, &picture))
	require.Equal(t, []block{
		{Type: "text", Text: "a picture"},
		{Type: "image", MIMEType: "image/png", Bytes: 3, Note: "not kept: there is no blob store"},
		{Type: "resource_link", MIMEType: "text/html", URI: "https://example.com/x", Name: "x"},
		{Type: "resource", MIMEType: "text/plain", URI: "test://r", Text: "inside"},
	}, picture.Content)
}

// TestDocs checks that the examples in docs/guides/mcp.md are configurations or catalog documents.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/mcp.md")
	require.NoError(t, err)
	documents := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "kind:") {
			parsed, faults := manifest.Parse([]agent.ManifestFile{{Name: "page.yaml", Data: []byte(block[1])}})
			require.Empty(t, faults, block[1])
			documents += len(parsed)
			for _, d := range parsed {
				if b, ok := d.Value.(*agent.ToolBinding); ok {
					_, err := parseBinding(b.Parameters)
					require.NoError(t, err, block[1])
				}
			}
			continue
		}
		var shown struct {
			Tools struct {
				MCP struct {
					Servers []struct {
						Name, Command string
						Args, Env     []string
						Dir           string
					}
				}
			}
		}
		d := yaml.NewDecoder(bytes.NewReader([]byte(block[1])))
		d.KnownFields(true)
		require.NoError(t, d.Decode(&shown), block[1])
		require.NotEmpty(t, shown.Tools.MCP.Servers)
		for _, s := range shown.Tools.MCP.Servers {
			require.Regexp(t, serverName, s.Name)
			require.NotEmpty(t, s.Command)
			for _, entry := range s.Env {
				require.Regexp(t, `^[A-Z_]+=.`, entry)
			}
		}
	}
	require.Equal(t, 5, documents)
}
