package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// handover is the description of the delegation tool.
func handover(t *testing.T, p agent.Plan) string {
	t.Helper()
	tool, ok := p.Tool("delegate_to_agent")
	require.True(t, ok)
	require.Equal(t, "delegate", tool.Toolkit)
	return tool.Spec.Description
}

func TestDelegates(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "poet", "description: |\n  Writes\n  verse.") + agentDoc("", "mute", "") +
		agentDoc("", "long", "description: "+strings.Repeat("ü", 300)) +
		agentDoc("", "boss", "tools: ['*']\ndelegates: [poet, mute, long]") +
		agentDoc("", "asker", "tools: [{toolkit: delegate, approval: always}, mail]\ndelegates: [poet]") +
		agentDoc("", "clerk", "tools: [delegate]") + agentDoc("", "loner", "tools: ['*']"))
	p := w.plan("default", "boss")
	require.Equal(t, []string{"execute_pipeline", "send", "search", "delegate_to_agent"}, toolNames(&p))
	require.Equal(t, []string{"poet", "mute", "long"}, p.Delegates)
	require.Equal(t, "Hands work over.\n\nWith agent_type langchain_agent the work is handed to one of the agents below: config.agent is its name, inputs.message "+
		"what it shall do, with all that it needs to know.\n- poet: Writes verse.\n- mute\n- long: "+strings.Repeat("ü", 200)+"…", handover(t, p))
	require.Equal(t, "delegate", p.Tools[3].Binding)

	p = w.plan("default", "asker")
	require.Equal(t, []string{"delegate_to_agent", "send", "search"}, toolNames(&p), "in the order of the agent's list")
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval)
	require.Contains(t, handover(t, p), "\n- poet: Writes verse.")

	require.Equal(t, "Hands work over.", handover(t, w.plan("default", "clerk")), "the tool may be granted without delegates")
	p = w.plan("default", "loner")
	require.Equal(t, []string{"execute_pipeline", "send", "search"}, toolNames(&p))
}

// The list of delegates in the prompt has a maximum length and says that there are more.
func TestLongDelegateList(t *testing.T) {
	w := newWorld(t)
	var docs, names strings.Builder
	for i := range 200 {
		docs.WriteString(agentDoc("", fmt.Sprintf("agent-%03d", i), "description: "+strings.Repeat("x", 150)))
		fmt.Fprintf(&names, "agent-%03d, ", i)
	}
	w.apply(docs.String() + agentDoc("", "boss", "delegates: ["+names.String()+"]"))
	text := handover(t, w.plan("default", "boss"))
	require.Less(t, len(text), 9<<10)
	lines := strings.Count(text, "\n- agent-")
	require.Contains(t, text, fmt.Sprintf("\n- and %d more", 200-lines))
	require.Greater(t, lines, 40)
}

// A plan contains the descriptions of its delegates, and nothing else of them.
func TestDelegateChangeRecompiles(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("*", "poet", "description: Shared.") + agentDoc("acme", "boss", "delegates: [poet]"))
	events := w.watch(t, agent.WatchQuery{Tenant: "acme"})
	events.next()
	hash := func() string {
		_, h, err := w.Resolve(t.Context(), "acme", "boss")
		require.NoError(t, err)
		return h
	}
	first := hash()
	require.Contains(t, handover(t, w.plan("acme", "boss")), "- poet: Shared.")
	_, err := w.Publish(t.Context(), "acme", "boss", "")
	require.NoError(t, err)
	require.Equal(t, []string{"boss"}, eventNames(events.next()))
	page, err := w.ListAgents(t.Context(), agent.AgentQuery{Tenant: "acme", NodeID: "agent"})
	require.NoError(t, err)
	require.Equal(t, "boss", page.Agents[1].Name)
	require.NotNil(t, page.Agents[1].Artifact)

	w.apply(agentDoc("*", "poet", "description: Shared.\nlabels: {a: b}\nlimits: {tool_calls: 1}"))
	require.Equal(t, []string{"poet"}, eventNames(events.next()), "its description is unchanged")
	require.Equal(t, first, hash())
	page, err = w.ListAgents(t.Context(), agent.AgentQuery{Tenant: "acme", NodeID: "agent"})
	require.NoError(t, err)
	require.NotNil(t, page.Agents[1].Artifact, "the published plan is not stale")

	seen := w.Status(t.Context()).Revision
	w.apply(agentDoc("acme", "poet", "description: Our own."))
	require.Equal(t, []string{"boss", "poet"}, eventNames(events.next()))
	require.NotEqual(t, first, hash())
	require.Contains(t, handover(t, w.plan("acme", "boss")), "- poet: Our own.")
	other, _, err := w.another().Resolve(t.Context(), "acme", "boss")
	require.NoError(t, err)
	require.Contains(t, handover(t, other), "- poet: Our own.", "what was published is stale")
	require.Equal(t, []string{"boss", "poet"}, eventNames(w.watch(t, agent.WatchQuery{Tenant: "acme", After: seen}).next()))

	w.apply(agentDoc("acme", "poet", "description: Shared."))
	w.apply(agentDoc("acme", "poet", ""))
	require.True(t, strings.HasSuffix(handover(t, w.plan("acme", "boss")), "\n- poet"), "it has no description and still hides the shared agent")
	require.NoError(t, w.delete(agentKey("acme", "poet")))
	require.Equal(t, first, hash(), "the shared agent reappears")

	_, err = w.try(agentDoc("acme", "poet", "disabled: true"))
	require.ErrorContains(t, err, `delegates[0]: there is no agent "poet"`)

	// Another release may have accepted this document.
	key := agentKey("acme", "poet")
	_, err = w.store.CommitCatalog(t.Context(), agent.CatalogCommit{At: w.Status(t.Context()).Revision, Put: []agent.Document{{
		DocumentKey: key, Body: []byte(`{"description":"Hidden.","disabled":true,"kind":"AgentInstance","name":"poet","tenant":"acme"}`),
	}}})
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	require.True(t, strings.HasSuffix(handover(t, w.plan("acme", "boss")), "\n- poet"))
}
