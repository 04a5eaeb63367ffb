package catalog_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
)

func actions(r agent.ApplyResult) map[string]string {
	out := map[string]string{}
	for _, c := range r.Changes {
		out[c.String()] = c.Action
	}
	return out
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	out := w.apply(agentDoc("acme", "a", "") + agentDoc("acme", "b", ""))
	require.Equal(t, int64(1), out.Revision)
	require.Equal(t, map[string]string{"AgentInstance acme/a": "created", "AgentInstance acme/b": "created"}, actions(out))

	dry, err := w.try(agentDoc("acme", "a", "description: new")+agentDoc("acme", "b", ""), func(r *agent.ApplyRequest) { r.DryRun = true })
	require.NoError(t, err)
	require.Equal(t, map[string]string{"AgentInstance acme/a": "updated", "AgentInstance acme/b": "unchanged"}, actions(dry))
	require.Equal(t, int64(1), w.Status(t.Context()).Revision)

	out = w.apply(agentDoc("acme", "a", "description: new") + agentDoc("acme", "b", ""))
	require.Equal(t, int64(2), out.Revision)
	require.Equal(t, int64(2), w.apply(agentDoc("acme", "a", "description: new")).Revision, "equal documents make no revision")

	w.apply(agentDoc("other", "kept", ""))
	_, err = w.try("# nothing\n", func(r *agent.ApplyRequest) { r.Prune = true })
	require.ErrorContains(t, err, "prune: there is no document in the files")
	out, err = w.try(agentDoc("acme", "c", ""), func(r *agent.ApplyRequest) { r.Prune = true })
	require.NoError(t, err)
	require.Equal(t, map[string]string{"AgentInstance acme/a": "deleted", "AgentInstance acme/b": "deleted", "AgentInstance acme/c": "created"}, actions(out))
	w.requireNoAgent("acme", "a")
}

func TestApplyConflicts(t *testing.T) {
	w := newWorld(t)
	empty := func(r *agent.ApplyRequest) { r.FromEmpty = true }
	first, err := w.try(agentDoc("", "a", ""), empty)
	require.NoError(t, err)
	_, err = w.try(agentDoc("", "a", "description: at the same time"), empty)
	require.ErrorContains(t, err, "AgentInstance default/a changed at revision 1, after 0")
	_, err = w.try(agentDoc("", "b", ""), empty)
	require.NoError(t, err, "b did not exist")
	base := func(revision int64) func(*agent.ApplyRequest) {
		return func(r *agent.ApplyRequest) { r.BaseRevision = revision }
	}
	_, err = w.try(agentDoc("", "a", "description: mine"), base(first.Revision))
	require.NoError(t, err, "b has changed since, a has not")
	_, err = w.try(agentDoc("", "a", "description: yours"), base(first.Revision))
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.ErrorContains(t, err, "AgentInstance default/a changed at revision 3, after 1")

	_, err = w.try(agentDoc("", "a", "description: future"), base(99))
	require.ErrorContains(t, err, "base_revision: is 99, but the newest revision is 3")

	key := agentKey("default", "a")
	_, err = w.Apply(t.Context(), agent.ApplyRequest{Delete: []agent.DocumentKey{key}, BaseRevision: first.Revision})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.NoError(t, w.delete(key))
	_, err = w.try(agentDoc("", "a", ""), base(3))
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "it was deleted since")
	err = w.delete(key)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	shipped := agentKey(agent.SharedTenant, "analyst")
	err = w.delete(shipped)
	require.ErrorContains(t, err, "is built in")
}

func TestReferencedDocumentIsKept(t *testing.T) {
	w := newWorld(t)
	w.apply(allDocuments)
	for _, k := range []agent.DocumentKey{
		{Kind: agent.KindModel, Tenant: "acme", Name: "fast"},
		{Kind: agent.KindAuth, Tenant: "acme", Name: "key"},
		{Kind: agent.KindBinding, Tenant: "acme", Name: "small"},
		{Kind: agent.KindKnowledge, Tenant: "acme", Name: "manuals"},
		{Kind: agent.KindNode, Name: "support", Version: "2"},
		{Kind: agent.KindNode, Name: "find_mail", Version: "1"},
	} {
		err := w.delete(k)
		require.ErrorContains(t, err, "AgentInstance acme/helper", k.String())
	}
	w.apply("kind: RouteTable\ntenant: acme\nname: r\nrules: [{name: x, agent: helper}]\n")
	err := w.delete(agentKey("acme", "helper"))
	require.ErrorContains(t, err, `RouteTable acme/r: rules[0].agent: there is no agent "helper"`)

	// A change that breaks a dependent document is refused. Documents that are already broken do not block other changes.
	_, err = w.try("kind: ToolBinding\ntenant: acme\nname: small\nnode_id: mail\nnode_version: '1'\ntools: [search]\n")
	require.ErrorContains(t, err, `tool "search" comes from "small"`)
}

func TestShadowing(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("*", "help", "models: [m]") + "kind: ModelProfile\ntenant: '*'\nname: m\nprovider: offline\nmodel: shared\n")
	require.Equal(t, "shared", w.plan("acme", "help").Models[0].Model)
	w.apply("kind: ModelProfile\ntenant: acme\nname: m\nprovider: offline\nmodel: own\n")
	require.Equal(t, "shared", w.plan("acme", "help").Models[0].Model, "a shared agent has the same plan for every tenant")
	w.apply(agentDoc("acme", "help", "models: [m]"))
	require.Equal(t, "own", w.plan("acme", "help").Models[0].Model)
	require.Equal(t, "shared", w.plan("other", "help").Models[0].Model)
	w.apply(agentDoc("acme", "help", "disabled: true"))
	w.requireNoAgent("acme", "help", "a disabled own agent hides the shared agent")
	require.NoError(t, w.delete(agentKey("acme", "help")))
	require.Equal(t, "shared", w.plan("acme", "help").Models[0].Model)
}

func TestPlansOfRunningTurnsAreKept(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", ""))
	_, before, err := w.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	w.apply("kind: AgentInstance\nname: a\nnode_id: agent\nnode_version: '1'\nparameters: {system_message: changed}\ntools: [mail]\n")
	after := w.plan("default", "a")
	require.Equal(t, "changed", after.System)
	require.NoError(t, w.delete(agentKey("default", "a")))
	for _, r := range []*catalog.Registry{w.Registry, w.another()} { // the second process has not compiled the plan itself
		p, err := r.Plan(t.Context(), before)
		require.NoError(t, err)
		require.Equal(t, "You are a.", p.System)
	}
}

func TestConcurrentApplies(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			r := []*catalog.Registry{w.Registry, other}[i%2]
			_, errs[i] = r.Apply(t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Data: []byte(agentDoc("", fmt.Sprint("a", i), ""))}}})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, w.Start(t.Context()))
	require.Equal(t, int64(16), w.Status(t.Context()).Revision)
	require.Equal(t, 16+3, w.Status(t.Context()).Counts[agent.KindAgent], "including the shipped agents")
}

// files returns a file for each document: 0.yaml, 1.yaml and so on.
func files(docs ...string) (out []agent.ManifestFile) {
	for i, d := range docs {
		out = append(out, agent.ManifestFile{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(d)})
	}
	return out
}

func TestFolder(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Folder = true })
	_, err := w.ApplyFolder(t.Context(), files(agentDoc("", "a", ""), agentDoc("", "b", "")))
	require.NoError(t, err)
	w.apply(agentDoc("", "c", ""))
	_, err = w.try(agentDoc("", "a", "description: x"))
	require.ErrorContains(t, err, "comes from the folder that this server watches")
	same, err := w.try(agentDoc("", "a", ""))
	require.NoError(t, err)
	require.Equal(t, agent.ActionUnchanged, same.Changes[0].Action, "an equal document is not an edit")
	_, err = w.ApplyFolder(t.Context(), files(agentDoc("", "a", "models: [nope]")))
	require.ErrorContains(t, err, "0.yaml:7:10: AgentInstance default/a: models[0]")
	_ = w.plan("default", "b")
	_, err = w.ApplyFolder(t.Context(), files(agentDoc("", "a", "")))
	require.NoError(t, err)
	w.requireNoAgent("default", "b", "its file was removed from the folder")
	_ = w.plan("default", "c")
}

func TestEmptyFollowedCatalog(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Follow = true })
	follow := func(docs ...string) error {
		_, err := w.ApplyFollowed(t.Context(), files(docs...))
		return err
	}
	require.NoError(t, follow(), "it has always been empty")
	require.NoError(t, follow(agentDoc("", "a", ""), agentDoc("", "b", "")))
	require.EqualError(t, follow(), "catalog.follow: the followed catalog is empty; the 2 documents that were taken over from it are kept. "+
		"Check catalog.follow.url. To remove them, unset it and use starter catalog delete")
	_ = w.plan("default", "a")
	require.NoError(t, follow(agentDoc("", "a", "")))
	require.NoError(t, follow(agentDoc("", "c", "")))
	w.requireNoAgent("default", "a")
}

func TestUnavailableStore(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", ""))
	w.store.failure = agent.Errorf(agent.CodeUnavailable, "", "no database")
	_, err := w.try(agentDoc("", "b", ""))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_ = w.plan("default", "a")
	status := w.Status(t.Context())
	require.False(t, status.Sources[0].OK)
	require.Contains(t, status.Sources[0].Detail, "serving revision 1: no database")
	w.store.failure = nil
	w.apply(agentDoc("", "b", ""))
	require.True(t, w.Status(t.Context()).Sources[0].OK)
}

// A process may find a store with another history than the one it read before: a restored backup,
// or tombstones that were written and pruned in between.
func TestReplacedStoreHistory(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", ""))
	backup := maps.Clone(w.store.docs)
	w.apply(agentDoc("", "b", ""))
	_ = w.plan("default", "b")
	w.store.docs, w.store.revision = backup, 1
	require.NoError(t, w.Start(t.Context()))
	w.requireNoAgent("default", "b")
	_ = w.plan("default", "a")

	delete(w.store.docs, agentKey("default", "a")) // deleted at revision 2, pruned at 3
	w.store.revision, w.store.oldest = 3, 2
	require.NoError(t, w.Start(t.Context()))
	w.requireNoAgent("default", "a")
	_ = w.plan("default", "analyst")
}

// When a stored document that hides a built-in document is deleted, the built-in document of this build takes effect again.
func TestRestoreBuiltIn(t *testing.T) {
	w := newWorld(t)
	before := w.plan("x", "analyst")
	w.apply("kind: NodeDefinition\nnode_id: agent\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {system_message: {type: string}}}\n" +
		"prompt: 'New. {{system_message}}'\n")
	w.apply(agentDoc("*", "analyst", ""))
	key := agentKey(agent.SharedTenant, "analyst")
	require.NoError(t, w.delete(key))
	after := w.plan("x", "analyst")
	require.Equal(t, "New. "+before.System, after.System)
	_, here, err := w.Resolve(t.Context(), "x", "analyst")
	require.NoError(t, err)
	_, there, err := w.another().Resolve(t.Context(), "x", "analyst")
	require.NoError(t, err)
	require.Equal(t, there, here, "every process has the same hash")
}

// A disabled agent is valid without a node, and other documents cannot refer to it.
func TestDisabledAgents(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("*", "help", ""))
	w.apply("kind: AgentInstance\ntenant: acme\nname: help\ndisabled: true\n")
	w.requireNoAgent("acme", "help")
	_, err := w.try("kind: RouteTable\ntenant: acme\nname: r\ndefault_agent: help\n")
	require.ErrorContains(t, err, `default_agent: there is no agent "help"`)
	w.apply("kind: RouteTable\ntenant: '*'\nname: r\nrules: [{name: x, agent: help}]\n")
	_, err = w.try("kind: AgentInstance\ntenant: '*'\nname: help\ndisabled: true\n")
	require.ErrorContains(t, err, `RouteTable */r: rules[0].agent: there is no agent "help"`)
	_, err = w.try(agentDoc("*", "boss", "delegates: [help]"))
	require.NoError(t, err)
}

// A document that other documents refer to cannot be deleted, even if no agent uses these.
func TestReferencesOfUnusedDocuments(t *testing.T) {
	w := newWorld(t)
	w.apply("kind: AuthProfile\nname: k\ntype: bearer\nsecret: env:X\n---\nkind: ModelProfile\nname: m\nprovider: openai\nmodel: x\nauth: k\n---\n" +
		"kind: NodeDefinition\nnode_id: post\nversion: '1'\ntype: toolkit\ntoolkit: mail\n---\nkind: ToolBinding\nname: b\nnode_id: post\nnode_version: '1'\nauth: [k]\n---\n" +
		"kind: KnowledgeCollection\nname: c\nembedding: m\nsources: [{text: x}]\n")
	for want, k := range map[string]agent.DocumentKey{
		`ModelProfile default/m: auth: there is no auth profile "k"`:              {Kind: agent.KindAuth, Tenant: "default", Name: "k"},
		`KnowledgeCollection default/c: embedding: there is no model profile "m"`: {Kind: agent.KindModel, Tenant: "default", Name: "m"},
		`ToolBinding default/b: node_id: there is no node post@1`:                 {Kind: agent.KindNode, Name: "post", Version: "1"},
	} {
		err := w.delete(k)
		require.ErrorContains(t, err, want)
	}
}

// A stored document of a newer release is reported as a fault until it is deleted.
func TestUnreadableDocument(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", ""))
	key := agent.DocumentKey{Kind: "Novelty", Tenant: "default", Name: "n"}
	w.store.revision++
	w.store.docs[key] = agent.Document{DocumentKey: key, Revision: w.store.revision, Body: []byte(`{"kind":"Novelty"}`)}
	require.NoError(t, w.Start(t.Context()))
	w.apply(agentDoc("", "b", ""))
	status := w.Status(t.Context()).Sources[0]
	require.False(t, status.OK)
	require.Equal(t, "Novelty default/n", status.Faults[0].Document)
	w.store.revision++
	w.store.docs[key] = agent.Document{DocumentKey: key, Revision: w.store.revision, Deleted: true}
	require.NoError(t, w.Start(t.Context()))
	require.True(t, w.Status(t.Context()).Sources[0].OK)
}
