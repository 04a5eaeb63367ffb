package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func anyDocument(agent.DocumentKey) error { return nil }

func TestCompileDraft(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("acme", "a", ""))
	before := w.plan("acme", "a")
	for _, tenant := range []string{"acme", agent.SharedTenant} {
		d, err := w.CompileDraft(t.Context(), "acme", agentDoc(tenant, "a", "limits: {model_calls: 3}"), anyDocument)
		require.NoError(t, err)
		require.Equal(t, []any{"a", int64(1)}, []any{d.Agent, d.Revision})
		p, err := w.another().Plan(t.Context(), d.PlanHash)
		require.NoError(t, err, "every process finds it by its hash")
		require.Equal(t, []any{3, tenant}, []any{p.Limits.ModelCalls, p.Tenant})
	}
	_, err := w.CompileDraft(t.Context(), "acme", agentDoc("acme", "new", ""), anyDocument)
	require.NoError(t, err)

	require.Equal(t, before, w.plan("acme", "a"), "the agent is unchanged")
	w.requireNoAgent("acme", "new")
	require.Equal(t, int64(1), w.Status(t.Context()).Revision)
}

func TestCompileDraftRefusals(t *testing.T) {
	w := newWorld(t)
	denied := agent.Errorf(agent.CodeDenied, "", "not yours")
	for name, c := range map[string]struct {
		text, want string
		allow      error
	}{
		"two documents":    {text: agentDoc("acme", "a", "") + agentDoc("acme", "b", ""), want: "draft: want one AgentInstance"},
		"no document":      {text: "# later\n", want: "draft: want one AgentInstance"},
		"another kind":     {text: "kind: ModelProfile\nname: m\nprovider: offline\nmodel: m\n", want: "draft: want one AgentInstance"},
		"another tenant's": {text: agentDoc("other", "a", ""), want: `draft: is of tenant "other", and the turn of "acme"`},
		"disabled":         {text: agentDoc("acme", "a", "disabled: true"), want: "draft: is disabled"},
		"unknown field":    {text: agentDoc("acme", "a", "modles: [x]"), want: "draft:7:1: AgentInstance acme/a: modles: unknown field"},
		"unknown model":    {text: agentDoc("acme", "a", "models: [none]"), want: "models[0]"},
		"not allowed":      {text: agentDoc("acme", "a", ""), allow: denied, want: "not yours"},
	} {
		t.Run(name, func(t *testing.T) {
			saved := len(w.plans.body)
			_, err := w.CompileDraft(t.Context(), "acme", c.text, func(agent.DocumentKey) error { return c.allow })
			require.ErrorContains(t, err, c.want)
			require.Len(t, w.plans.body, saved)
		})
	}
}
