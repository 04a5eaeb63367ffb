package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestListAgents(t *testing.T) {
	w := newWorld(t)
	w.apply(allDocuments)
	list := func(q agent.AgentQuery) []string {
		page, err := w.ListAgents(t.Context(), q)
		require.NoError(t, err)
		out := []string{}
		for _, a := range page.Agents {
			out = append(out, a.Tenant+"/"+a.Name)
		}
		return out
	}
	require.Equal(t, []string{"*/analyst", "*/ask", "*/researcher"}, list(agent.AgentQuery{}))
	require.Equal(t, []string{"*/analyst", "*/ask", "acme/helper", "*/researcher"}, list(agent.AgentQuery{Tenant: "acme"}), "sorted by name")
	require.Equal(t, []string{"*/analyst", "*/ask", "*/researcher", "acme/helper"}, list(agent.AgentQuery{Tenant: "*"}), "shared agents first")
	require.Equal(t, []string{"acme/helper"}, list(agent.AgentQuery{Tenant: "acme", NodeID: "support"}))
	require.Equal(t, []string{"*/analyst"}, list(agent.AgentQuery{Tenant: "acme", Tool: "send"}))
	require.Equal(t, []string{"acme/helper"}, list(agent.AgentQuery{Tenant: "acme", Labels: map[string]string{"team": "care"}}))
	require.Empty(t, list(agent.AgentQuery{Tenant: "acme", Labels: map[string]string{"team": "care", "x": ""}}))

	page, err := w.ListAgents(t.Context(), agent.AgentQuery{Tenant: "acme", NodeID: "support"})
	require.NoError(t, err)
	a := page.Agents[0]
	require.Equal(t, []string{"approvals", "delegation", "knowledge", "streaming", "structured_output", "tools"}, a.Capabilities)
	require.Equal(t, 6, a.RateLimits.RequestsPerMinute)
	require.Equal(t, []string{"fast", "default"}, a.Models)
	require.Equal(t, agent.ApproveAlways, a.Tools[0].Approval)
	require.Equal(t, "pipeline", a.Tools[0].NodeID)
	require.Equal(t, "small", a.Tools[0].Toolkit)
	require.False(t, a.Default)
	require.Empty(t, a.Fault)
}

// The mode of an agent is in its plan and in lists. An agent without a mode has the same plan hash as before modes existed (TestShippedCatalog).
func TestAgentMode(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("default", "quick", "mode: direct\n") + agentDoc("default", "slow", "mode: durable\n") + agentDoc("default", "plain", ""))
	want := map[string]agent.Mode{"quick": agent.ModeDirect, "slow": agent.ModeDurable, "plain": ""}
	page, err := w.ListAgents(t.Context(), agent.AgentQuery{})
	require.NoError(t, err)
	for _, a := range page.Agents {
		require.Equal(t, want[a.Name] == agent.ModeDirect, slices.Contains(a.Capabilities, "direct"), a.Name)
	}
	for name, mode := range want {
		p := w.plan("default", name)
		require.Equal(t, mode, p.Mode)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	docs := ""
	for i := range 7 {
		docs += agentDoc([]string{"default", "*"}[i%2], fmt.Sprintf("agent-%d", i), "")
	}
	w.apply(docs)
	var got []string
	q := agent.AgentQuery{Page: agent.Page{Size: 3}}
	for {
		page, err := w.ListAgents(t.Context(), q)
		require.NoError(t, err)
		for _, a := range page.Agents {
			got = append(got, a.Name)
		}
		if q.Token = page.Next; q.Token == "" {
			break
		}
		require.Len(t, page.Agents, 3)
	}
	require.Equal(t, []string{"agent-0", "agent-1", "agent-2", "agent-3", "agent-4", "agent-5", "agent-6", "analyst", "ask", "researcher"}, got)

	first, err := w.Documents(t.Context(), agent.DocumentQuery{Page: agent.Page{Size: 1}})
	require.NoError(t, err)
	for _, q := range []agent.AgentQuery{{Page: agent.Page{Token: "x"}}, {Page: agent.Page{Token: first.Next}}} {
		_, err = w.ListAgents(t.Context(), q)
		require.ErrorContains(t, err, "page_token")
	}
	_, err = w.ListAgents(t.Context(), agent.AgentQuery{Page: agent.Page{Size: 1001}})
	require.ErrorContains(t, err, "page_size")
}

func TestListNodesAndDocuments(t *testing.T) {
	w := newWorld(t)
	w.apply(allDocuments)
	nodes, err := w.ListNodes(t.Context(), agent.NodeQuery{Type: agent.NodeToolkit})
	require.NoError(t, err)
	require.Equal(t, "mail", nodes.Nodes[1].NodeID)
	require.Len(t, nodes.Nodes[1].Tools, 2)
	require.Equal(t, agent.SourceBuiltin, nodes.Nodes[1].Source)
	nodes, err = w.ListNodes(t.Context(), agent.NodeQuery{NodeID: "find_mail"})
	require.NoError(t, err)
	require.Len(t, nodes.Nodes, 1)
	require.Len(t, nodes.Nodes[0].Tools, 1)
	docs, err := w.Documents(t.Context(), agent.DocumentQuery{Kind: agent.KindAuth})
	require.NoError(t, err)
	require.Len(t, docs.Documents, 1)
	require.Contains(t, string(docs.Documents[0].Body), `"env:ACME_KEY"`)
	docs, err = w.Documents(t.Context(), agent.DocumentQuery{Source: agent.SourceConfig})
	require.NoError(t, err)
	require.Equal(t, "ModelProfile */default", docs.Documents[0].String())
	history, err := w.History(t.Context(), agent.HistoryQuery{})
	require.NoError(t, err)
	require.Equal(t, "tester", history.Entries[0].By)
}

func TestRouting(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("acme", "vip", "models: [default]") + agentDoc("*", "care", "") + `
kind: RouteTable
tenant: acme
name: main
default_agent: care
rules:
  - {name: vips, priority: 10, when: {role: [vip]}, agent: vip, model: default}
`)
	choose := func(c agent.RouteContext) agent.RouteDecision {
		d, err := w.Choose(t.Context(), c)
		require.NoError(t, err)
		w.Routed(&d)
		return d
	}
	d := choose(agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "acme", UserRole: "vip"}})
	require.Equal(t, agent.RouteDecision{Agent: "vip", Model: "default", Reason: agent.RouteRuled, Table: "acme/main", Rule: "vips", Revision: 1}, d)
	require.Equal(t, "care", choose(agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "acme"}}).Agent)
	require.Equal(t, "analyst", choose(agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "other"}}).Agent)
	d = choose(agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "acme", UserRole: "vip"}, Agent: "care"})
	require.True(t, d.Mismatch)
	require.Equal(t, "vip", d.Expected)
	_, err := w.Route(t.Context(), agent.RouteContext{Agent: "nobody"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "the decision of a turn")
	dry, err := w.Route(t.Context(), agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "acme"}})
	require.NoError(t, err)
	require.Len(t, dry.Rules, 1)

	// A stored shared default replaces the shipped default.
	w.apply("kind: RouteTable\ntenant: '*'\nname: house\ndefault_agent: care\n")
	require.Equal(t, "care", choose(agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "other"}}).Agent)

	n, err := testutil.GatherAndCount(w.metrics, "routing_mismatch_total")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP routing_mismatch_total Requests that name an agent which the rules would not have chosen.
# TYPE routing_mismatch_total counter
routing_mismatch_total 1
# HELP registry_nodes_total Node definitions that this process serves, by type.
# TYPE registry_nodes_total gauge
registry_nodes_total{type="agent"} 2
registry_nodes_total{type="tool"} 0
registry_nodes_total{type="toolkit"} 5
`), "routing_mismatch_total", "registry_nodes_total"))
}

func TestNoDefaultAgent(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("*", "analyst", "disabled: true"))
	_, err := w.Choose(t.Context(), agent.RouteContext{})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.ErrorContains(t, err, "agent: no rule matches and tenant \"default\" has no default agent")
}

// A shared rule with a model may name an agent whose namesake in some tenant lacks that model.
func TestRouteModel(t *testing.T) {
	w := newWorld(t)
	w.apply("kind: ModelProfile\ntenant: '*'\nname: big\nprovider: offline\nmodel: b\n---\n" + agentDoc("*", "help", "models: [default, big]") +
		"kind: RouteTable\ntenant: '*'\nname: r\nrules: [{name: x, agent: help, model: big}]\n---\n" + agentDoc("acme", "help", "models: [default]"))
	d, err := w.Choose(t.Context(), agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "other"}})
	require.NoError(t, err)
	require.Equal(t, "big", d.Model)
	dry, err := w.Route(t.Context(), agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: "acme"}})
	require.NoError(t, err)
	require.Equal(t, "analyst", dry.Agent)
	require.Contains(t, dry.Rules[0].Reason, `agent "help" with model "big" is not available`)
}
