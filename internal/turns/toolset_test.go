package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// newSourceHarness returns a harness whose plan has a source of tools besides lookup.
func newSourceHarness(t *testing.T, listed ...string) *harness {
	t.Helper()
	h := newHarness(t)
	h.tool.effectFree = true
	h.list(listed...)
	h.catalog.change(func(p *agent.Plan) {
		p.Sources = []agent.PlanSource{{Toolkit: "fake", Binding: "elsewhere", Node: "fake@1", SourceNodeName: "fake", IsFromToolkit: true}}
	})
	return h
}

func (h *harness) list(names ...string) {
	h.tool.listed = nil
	for _, name := range names {
		h.tool.listed = append(h.tool.listed, agent.ListedTool{
			Spec: agent.ToolSpec{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)}, Handle: name + "@1", Kind: "mcp",
		})
	}
}

func offeredNames(req agent.ModelRequest) []string {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	return names
}

func call(id, name string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(`{}`)}
}

// TestTurnKeepsItsTools: a turn keeps the tools that the sources had at its first step, in every process. The next turn lists them again.
func TestTurnKeepsItsTools(t *testing.T) {
	h := newSourceHarness(t, "ping", "pong", "lookup")
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(calls(call("a", "ping")), says("done"), says("hello"))
	v := h.callModel("t1", 1)
	require.Equal(t, []string{"lookup", "ping", "pong"}, offeredNames(h.model.seen[0]), "a tool of the plan hides one of the source")
	require.Equal(t, agent.GateNone, gateName(v.Calls[0].Gate))
	require.True(t, v.Calls[0].Local)

	h.list("other")
	h.Turns = h.process() // which has to read the stored tools
	h.tool.call = answers(`{"pong":true}`)
	verdict := h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.False(t, verdict.Failed)
	h.callModel("t1", 2)
	require.Equal(t, []string{"lookup", "ping", "pong"}, offeredNames(h.model.seen[1]))
	require.Equal(t, 1, h.tool.asked, "once a turn")

	h.begin(agent.TurnRequest{TurnID: "t2"})
	h.callModel("t2", 1)
	require.Equal(t, []string{"lookup", "other"}, offeredNames(h.model.seen[2]))
}

func gateName(g agent.Gate) agent.Gate {
	if g == "" {
		return agent.GateNone
	}
	return g
}

// TestSourceIsAway: a turn runs without the tools of a source that fails, and every model call says so.
func TestSourceIsAway(t *testing.T) {
	h := newSourceHarness(t, "ping")
	h.tool.listFault = errors.New("connection refused")
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(calls(call("a", "ping")), says("done"))
	h.callModel("t1", 1)
	h.tool.listFault = nil
	verdict := h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.True(t, verdict.Failed, "it is not granted")
	h.callModel("t1", 2)
	var told []string
	for _, e := range h.events("t1") {
		if e.Type == agent.EventStatus && e.Reason != "" {
			told = append(told, e.Reason)
		}
	}
	require.Equal(t, []string{"The tools of elsewhere cannot be reached at present."}, told, "viewers get one event")
	for _, req := range h.model.seen {
		require.Equal(t, []string{"lookup"}, offeredNames(req))
		require.Contains(t, agent.Normalize(req.Messages[0].Blocks), "The tools of elsewhere cannot be reached at present.")
	}
}

// TestSourcesWithoutToolsCostNothing: nothing is stored if the sources have no tools.
func TestSourcesWithoutToolsCostNothing(t *testing.T) {
	h := newSourceHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("done"))
	h.callModel("t1", 1)
	_, kept, err := h.store.TurnTools(t.Context(), "t1")
	require.NoError(t, err)
	require.False(t, kept)
}

// TestBindingKeepsNames: a source adds only the tools that its grant names.
func TestBindingKeepsNames(t *testing.T) {
	h := newSourceHarness(t, "ping", "pong")
	h.catalog.change(func(p *agent.Plan) { p.Sources[0].Only = []string{"pong"} })
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("done"))
	h.callModel("t1", 1)
	require.Equal(t, []string{"lookup", "pong"}, offeredNames(h.model.seen[0]))
}

// TestDeferredTools: a model gets a deferred tool once the result of another tool has named it, until the end of the conversation. The
// other tools come first in every prompt.
func TestDeferredTools(t *testing.T) {
	h := newHarness(t)
	h.tool.effectFree = true
	object := json.RawMessage(`{"type":"object"}`)
	h.catalog.change(func(p *agent.Plan) {
		p.Tools = nil
		for _, name := range []string{"alpha", "beta", "gamma", "lookup"} {
			p.Tools = append(p.Tools, agent.PlanTool{
				Spec: agent.ToolSpec{Name: name, Parameters: object, RevealsTools: name == "lookup"}, Toolkit: "fake", Handle: name, Deferred: name != "lookup",
			})
		}
		p.Tools = append(p.Tools, agent.PlanTool{Spec: agent.ToolSpec{Name: "plain", Parameters: object}, Toolkit: "fake", Handle: "x"})
	})
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(calls(call("a", "lookup")), calls(call("b", "alpha")), says("done"), says("again"))
	h.tool.call = answers(`{"tools":[{"name":"gamma"},{"name":"alpha"},{"name":"unknown"}]}`)
	h.callModel("t1", 1)
	require.Equal(t, []string{"lookup", "plain"}, offeredNames(h.model.seen[0]))
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	h.callModel("t1", 2)
	require.Equal(t, []string{"lookup", "plain", "gamma", "alpha"}, offeredNames(h.model.seen[1]))
	h.tool.call = answers(`{"tools":[{"name":"beta"}]}`) // the result of a tool that reveals none
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 2, CallID: "b"})
	h.callModel("t1", 3)
	require.Equal(t, []string{"lookup", "plain", "gamma", "alpha"}, offeredNames(h.model.seen[2]))
}

// TestToolsOfATurnAreTold: a tool can list the tools of its turn.
func TestToolsOfATurnAreTold(t *testing.T) {
	h := newSourceHarness(t, "ping")
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(calls(call("a", "lookup")))
	h.callModel("t1", 1)
	var names []string
	h.tool.call = func(ctx context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		tools, err := inv.Toolset(ctx)
		for i := range tools {
			names = append(names, tools[i].Spec.Name)
		}
		return agent.ToolResult{Output: json.RawMessage(`{}`)}, err
	}
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.Equal(t, []string{"lookup", "ping"}, names)
}

// answers is a tool that always returns the same result.
func answers(output string) func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: json.RawMessage(output)}, nil
	}
}

// TestManyDeferredTools: 500 deferred tools add no more to a prompt than the tool that finds them.
func TestManyDeferredTools(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) {
		p.Tools = []agent.PlanTool{{
			Spec: agent.ToolSpec{
				Name: "search_tools", Description: "Search for existing composite tools and workflows", RevealsTools: true,
				Parameters: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string"}}}`),
			},
			Toolkit: "fake", Handle: "x",
		}}
		for i := range 500 {
			p.Tools = append(p.Tools, agent.PlanTool{Spec: agent.ToolSpec{
				Name: fmt.Sprintf("tool_%03d", i), Description: strings.Repeat("Does something useful. ", 20), Parameters: json.RawMessage(`{"type":"object"}`),
			}, Toolkit: "fake", Handle: "x", Deferred: true})
		}
	})
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("done"))
	h.callModel("t1", 1)
	require.Equal(t, []string{"search_tools"}, offeredNames(h.model.seen[0]))
	raw, err := json.Marshal(h.model.seen[0].Tools)
	require.NoError(t, err)
	const bytesPerToken, few = 4, 300
	require.Less(t, len(raw)/bytesPerToken, few, "tokens")
}
