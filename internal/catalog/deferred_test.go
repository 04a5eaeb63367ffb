package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// An agent with deferred tools also has the tool search tool, and its prompt describes it.
func TestDeferredTools(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "searcher", "tools: [{toolkit: mail, deferred: true}, pipeline]") +
		agentDoc("", "lister", "tools: [mail, toolsearch]") +
		agentDoc("", "hider", "tools: [{toolkit: toolsearch, deferred: true}, {toolkit: remote, deferred: true}]") +
		"---\nkind: NodeDefinition\nnode_id: toolsearch\nversion: '1'\ntype: toolkit\n---\nkind: NodeDefinition\nnode_id: remote\nversion: '1'\ntype: toolkit\n")
	p := w.plan("default", "searcher")
	require.Equal(t, []string{"send", "search", "execute_pipeline", "search_tools"}, toolNames(&p))
	for i, deferred := range []bool{true, true, false, false} {
		require.Equal(t, deferred, p.Tools[i].Deferred, p.Tools[i].Spec.Name)
	}
	require.Contains(t, p.Tools[3].Spec.Description, "Finds tools.\n\nThere are tools beside those listed")

	p = w.plan("default", "lister")
	require.Equal(t, []string{"send", "search", "search_tools"}, toolNames(&p))
	require.Equal(t, "Finds tools.", p.Tools[2].Spec.Description)

	p = w.plan("default", "hider")
	require.False(t, p.Tools[0].Deferred, "the search tool cannot be deferred")
	require.Contains(t, p.Tools[0].Spec.Description, "There are tools beside")
	require.True(t, p.Sources[0].Deferred)
}

// A dynamic toolkit becomes a source of the plan. Its tools are not known yet, so any name is kept until the source is listed.
func TestDynamicToolkit(t *testing.T) {
	w := newWorld(t)
	w.apply("---\nkind: NodeDefinition\nnode_id: remote\nversion: '1'\ntype: toolkit\n" +
		"---\nkind: ToolBinding\nname: bound\nnode_id: remote\nnode_version: '1'\ntools: [ping, pong, peng]\napproval: always\n---\n" +
		agentDoc("", "whole", "tools: [remote]") + agentDoc("", "part", "tools: [{toolkit: bound, tools: [peng, other]}]") +
		agentDoc("", "static", "tools: [{toolkit: remote, tools: [ping]}]") + agentDoc("", "none", "tools: [{toolkit: bound, tools: [other]}]"))
	p := w.plan("default", "whole")
	require.Equal(t, []string{"ping"}, toolNames(&p))
	require.Equal(t, []agent.PlanSource{{
		Toolkit: "remote", Binding: "remote", Node: "remote@1", SourceNodeName: "remote", IsFromToolkit: true, Parameters: p.Sources[0].Parameters,
	}}, p.Sources)
	p = w.plan("default", "part")
	require.Empty(t, p.Tools)
	require.Equal(t, []string{"peng"}, p.Sources[0].Only, "grant and binding must both allow the tool")
	require.Equal(t, agent.ApproveAlways, p.Sources[0].Approval)
	p = w.plan("default", "static")
	require.Equal(t, []string{"ping"}, toolNames(&p))
	require.Empty(t, p.Sources)
	p = w.plan("default", "none")
	require.Empty(t, p.Sources)
}
