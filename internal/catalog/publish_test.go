package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestPublish(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "models: [default]"))
	info, err := w.Publish(t.Context(), "default", "a", "me")
	require.NoError(t, err)
	require.NotNil(t, info.Artifact)
	require.Equal(t, info.PlanHash, info.Artifact.Hash)
	require.Equal(t, "cas://"+info.PlanHash, info.Artifact.URI)
	require.False(t, info.Artifact.CompiledAt.IsZero())
	again, err := w.Publish(t.Context(), "default", "a", "me")
	require.NoError(t, err)
	require.Equal(t, info, again, "publishing again changes nothing")

	// Another process finds the plan by its hash.
	other := w.another()
	reads := w.plans.reads
	p, hash, err := other.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, info.PlanHash, hash)
	require.Equal(t, "You are a.", p.System)
	require.Equal(t, reads+1, w.plans.reads)
	saves := w.plans.saves
	_, _, err = other.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, saves, w.plans.saves, "a plan that is stored by its hash is not stored again")

	// A stale plan is compiled again and no longer listed as published.
	w.apply(agentDoc("", "a", "description: other\nmodels: [default]"))
	page, err := w.ListAgents(t.Context(), agent.AgentQuery{})
	require.NoError(t, err)
	require.Equal(t, "a", page.Agents[0].Name)
	require.Nil(t, page.Agents[0].Artifact)
	w.apply("kind: AgentInstance\nname: a\nnode_id: agent\nnode_version: '1'\nparameters: {system_message: changed}\n")
	p, _, err = w.another().Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, "changed", p.System)
	_, err = w.Publish(t.Context(), "default", "nope", "")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func TestPublishRefusesMissingAndWrongPlans(t *testing.T) {
	for name, spoil := range map[string]func(p *fakePlans, hash string){
		"missing": func(p *fakePlans, hash string) { delete(p.body, hash) },
		"wrong":   func(p *fakePlans, hash string) { p.body[hash] = []byte(`{"schema":"plan.v1"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(agentDoc("", "a", ""))
			info, err := w.Publish(t.Context(), "default", "a", "")
			require.NoError(t, err)
			spoil(w.plans, info.PlanHash)
			other := w.another()
			_, err = other.Plan(t.Context(), info.PlanHash)
			require.Error(t, err, "bytes with another hash are not used")
			p, hash, err := other.Resolve(t.Context(), "default", "a")
			require.NoError(t, err, "it is compiled instead")
			require.Equal(t, info.PlanHash, hash)
			require.Equal(t, "You are a.", p.System)
			_, err = w.another().Plan(t.Context(), info.PlanHash)
			require.NoError(t, err, "it is stored again")
		})
	}
}

func TestApplyAndPublish(t *testing.T) {
	w := newWorld(t)
	publish := func(r *agent.ApplyRequest) { r.Publish = true }
	out, err := w.try(agentDoc("", "a", "")+agentDoc("", "b", ""), publish)
	require.NoError(t, err)
	require.Equal(t, int64(1), out.Revision, "one revision for document and plan")
	page, err := w.ListAgents(t.Context(), agent.AgentQuery{})
	require.NoError(t, err)
	require.NotNil(t, page.Agents[0].Artifact)
	out, err = w.try(agentDoc("", "a", "")+agentDoc("", "b", ""), publish)
	require.NoError(t, err)
	require.Equal(t, int64(1), out.Revision)
}

func TestReplacePrompt(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "models: [default]"))
	before, _, err := w.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	p, hash, err := w.ReplacePrompt(t.Context(), before, "Be brief.")
	require.NoError(t, err)
	require.Equal(t, "Be brief.", p.System)
	found, err := w.another().Plan(t.Context(), hash)
	require.NoError(t, err, "every process finds it by its hash")
	want := before
	want.System = "Be brief."
	require.Equal(t, want, found, "only the prompt differs")
	again, _, err := w.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, before, again, "the agent keeps its prompt")

	_, _, err = w.ReplacePrompt(t.Context(), before, strings.Repeat("x", 5<<20))
	require.Equal(t, "invalid prompt", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field)
	require.ErrorContains(t, err, "at most 4194304")
	before.Prepare = []agent.PlanStep{{Kind: agent.PrepareClassify, Branches: []agent.PlanBranch{{Name: "code", System: "x"}}}}
	_, _, err = w.ReplacePrompt(t.Context(), before, "Be brief.")
	require.ErrorContains(t, err, `agent "a" has a prompt for each kind of message`)
}
