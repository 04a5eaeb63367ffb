package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// mcpBinding binds a server; more are further lines of the document.
func mcpBinding(name, parameters string, more ...string) string {
	return strings.Join(append([]string{
		"kind: ToolBinding\nname: " + name + "\nnode_id: mcp\nnode_version: \"1\"\nparameters: {trust_annotations: true, " + parameters + "}",
	}, more...), "\n")
}

// TestMCPProgram uses a server that is started by the worker. A tool that it learns is there in the next turn; one that waits for a person
// keeps the tools that it began with.
func TestMCPProgram(t *testing.T) {
	t.Parallel()
	program := build(t, "tools_mcp_server.go")
	provider := turnstonetest.NewModel(t,
		asks("a1", "p_reveal", `{}`), turnstonetest.Say("revealed"),
		asks("b1", "p_greet", `{"name":"ann"}`), // waits for a person
		asks("c1", "p_learn", `{"name":"wave"}`), turnstonetest.Say("learnt"),
		turnstonetest.Say("greeted"),
		asks("d1", "p_wave", `{"name":"bob"}`), turnstonetest.Say("waved"),
	)
	s := keepsSecret(t, func(c *app.Config) {
		c.Tools.MCP.Servers = []app.MCPServer{{Name: "pupil", Command: program, Env: []string{"TOKEN=" + scenarioKey}}}
	})
	s.worksFor(provider, "[pupil]", mcpBinding("pupil", "server: pupil, prefix: p"))

	out, events := s.ask("reveal", "what is the token?")
	require.ElementsMatch(t, []string{"p_greet", "p_reveal", "p_learn"}, offeredIn(t, provider, 0).names)
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status, toolOutput(events))
	require.Contains(t, toolOutput(events), fmt.Sprintf("token of %d bytes", len(scenarioKey)), "the server has it")
	require.Contains(t, toolOutput(events), `key: \"\"`, "and nothing else of the worker's")
	s.requireKept(out, events)

	waiting, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "greet ann", SessionID: "waiting"})
	require.NoError(t, err)
	require.Equal(t, "p_greet", s.pending(waiting.TurnID).ToolName)
	out, events = s.ask("teacher", "learn to wave")
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status, toolOutput(events))
	require.False(t, offeredIn(t, provider, 4).has("p_wave"), "a turn keeps its tools")

	s.approve(waiting.TurnID)
	out, events = s.follow(t.Context(), waiting.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, offeredIn(t, provider, 2).names, offeredIn(t, provider, 5).names, "also one that waited long")
	require.Contains(t, toolOutput(events), "hello ann")
	s.requireKept(out, events)

	out, events = s.ask("after", "wave to bob")
	require.ElementsMatch(t, []string{"p_greet", "p_wave", "p_reveal", "p_learn"}, offeredIn(t, provider, 6).names)
	require.Contains(t, toolOutput(events), "hello bob")
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status)
	s.requireKept(out, events)
}

// TestMCPServerElsewhere uses a server with a URL and a credential, and goes on without it when it is gone.
func TestMCPServerElsewhere(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1"}, nil)
	var effects atomic.Int64
	type issue struct {
		Title string `json:"title"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "file_issue", Description: "Files an issue."},
		func(_ context.Context, _ *mcp.CallToolRequest, in issue) (*mcp.CallToolResult, any, error) {
			effects.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "filed: " + in.Title}}}, nil, nil
		})
	var refused atomic.Int64
	door := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if keyOf(r) != scenarioKey {
			refused.Add(1)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		door.ServeHTTP(w, r)
	}))
	gone := func() {
		for session := range server.Sessions() {
			_ = session.Close() // their client is to find out
		}
		place.CloseClientConnections()
		place.Close()
	}
	t.Cleanup(gone)
	provider := turnstonetest.NewModel(t,
		asks("a1", "file_issue", `{"title":"broken"}`), turnstonetest.Say("filed"),
		turnstonetest.Say("the tracker is away"),
	)
	s := keepsSecret(t, reach(place))
	s.worksFor(provider, "[tracker, todo]", bearerProfile("tracker-key", place),
		mcpBinding("tracker", "url: \""+place.URL+"/mcp\"", "auth: [tracker-key]"))

	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "file it", SessionID: "issues"})
	require.NoError(t, err)
	s.approve(receipt.TurnID)
	out, events := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Contains(t, toolOutput(events), "filed: broken")
	require.EqualValues(t, 1, effects.Load())
	require.Zero(t, refused.Load())
	s.requireKept(out, events)

	mcp.AddTool(server, &mcp.Tool{Name: "close_issue", Description: "Closes an issue."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	latest := func() offer {
		s.ask("more", "hello")
		return offeredIn(t, provider, len(provider.Requests())-1)
	}
	require.Eventually(t, func() bool { return latest().has("close_issue") }, 20*time.Second, 100*time.Millisecond, "a change is there in a next turn")
	require.NotContains(t, latest().body, "cannot be reached")

	gone()
	require.Eventually(t, func() bool { return !latest().has("file_issue") }, 30*time.Second, 100*time.Millisecond, "the turns go on without it")
	told := latest()
	require.Equal(t, []string{"write_todos"}, told.names)
	require.Contains(t, told.body, "The tools of tracker cannot be reached at present.")
}
