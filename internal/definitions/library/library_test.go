package library_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/tool"
)

var _ tool.Workflows = (*library.Library)(nil)

func noon() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// newLibrary returns a library with a store in memory.
func newLibrary(t *testing.T) (*library.Library, *definitionstest.LibraryStore) {
	t.Helper()
	store := new(definitionstest.LibraryStore)
	l, err := library.New(library.Config{Store: store, Now: noon})
	require.NoError(t, err)
	return l, store
}

func annsKey(tag string) agent.WorkflowKey {
	return agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: "ann", Tag: tag}
}

// mailNode returns the JSON of an e-mail node.
func mailNode(id string) string {
	return fmt.Sprintf(`{"id":%q,"type":"task","config":{"action":"email"}}`, id)
}

// mailGraph returns a definition of e-mail nodes without edges.
func mailGraph(ids ...string) json.RawMessage {
	nodes := make([]string, len(ids))
	for i, id := range ids {
		nodes[i] = mailNode(id)
	}
	return json.RawMessage(`{"nodes":[` + strings.Join(nodes, ",") + `],"edges":[]}`)
}

func mustPut(t *testing.T, l *library.Library, k agent.WorkflowKey, definition json.RawMessage) agent.WorkflowPatchResult {
	t.Helper()
	r, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: k, Definition: definition, By: "ann"})
	require.NoError(t, err)
	return r
}

func addMailNode(id string) json.RawMessage {
	return json.RawMessage(`[{"op":"add","path":"/nodes/-","value":` + mailNode(id) + `}]`)
}

func mustPatch(t *testing.T, l *library.Library, k agent.WorkflowKey, operations string) agent.WorkflowPatchResult {
	t.Helper()
	r, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: k, Operations: json.RawMessage(operations), By: "bob"})
	require.NoError(t, err)
	return r
}

func mustRead(t *testing.T, l *library.Library, k agent.WorkflowKey) agent.StoredWorkflow {
	t.Helper()
	w, err := l.Workflow(t.Context(), k, 0)
	require.NoError(t, err)
	return w
}

// nodeIDs returns the node IDs of a definition.
func nodeIDs(t *testing.T, w agent.StoredWorkflow) string {
	t.Helper()
	var d agent.WorkflowDefinition
	require.NoError(t, json.Unmarshal(w.Definition, &d))
	out := make([]string, len(d.Nodes))
	for i, n := range d.Nodes {
		out[i] = n.ID
	}
	return strings.Join(out, " ")
}

func requireRefusal(t *testing.T, err error, code agent.Code, field, message string) {
	t.Helper()
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.Equal(t, field, e.Field, "%v", err)
	require.ErrorContains(t, err, message)
}

func TestNewNeedsAStore(t *testing.T) {
	_, err := library.New(library.Config{})
	requireRefusal(t, err, agent.CodeInvalid, "store", "is required")
}

func TestPut(t *testing.T) {
	l, _ := newLibrary(t)
	first := mustPut(t, l, annsKey("main"), mailGraph("a"))
	require.Regexp(t, `^patch_[0-9a-f-]{36}$`, first.PatchID)
	require.Regexp(t, `^sha256:`, first.Hash)
	require.Equal(t, agent.WorkflowPatchResult{WorkflowKey: annsKey("main"), PatchID: first.PatchID, Version: 1, BaseVersion: 0, Hash: first.Hash}, first)
	w := mustRead(t, l, annsKey("main"))
	require.Equal(t, agent.StoredWorkflow{
		WorkflowKey: annsKey("main"), Version: 1, Definition: json.RawMessage(`{"edges":[],"nodes":[{"config":{"action":"email"},"id":"a","type":"task"}]}`),
		Hash: first.Hash, PatchID: first.PatchID, UpdatedAt: noon(), UpdatedBy: "ann",
	}, w)

	same := mustPut(t, l, annsKey("main"), json.RawMessage(`{"edges":[], "nodes":[{"type":"task","id":"a","config":{"action":"email"}}],"schedules":[]}`))
	require.Equal(t, agent.WorkflowPatchResult{
		WorkflowKey: annsKey("main"), PatchID: first.PatchID, Version: 1, BaseVersion: 1, Hash: first.Hash, Unchanged: true,
	}, same)
	second := mustPut(t, l, annsKey("main"), mailGraph("a", "b"))
	require.EqualValues(t, 2, second.Version)
	require.NotEqual(t, first.PatchID, second.PatchID)
	require.Less(t, first.PatchID, second.PatchID, "patch IDs sort by age")

	_, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("c"), BaseVersion: 1})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "is 1, and the newest version is 2")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("c"), BaseVersion: 2})
	require.NoError(t, err)

	owned := mustPut(t, l, agent.WorkflowKey{Tag: "other"}, mailGraph("a"))
	require.Equal(t, agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: agent.DefaultWorkflowOwner, Tag: "other"}, owned.WorkflowKey)
	require.EqualValues(t, 1, owned.Version)
}

func TestPutRefuses(t *testing.T) {
	l, _ := newLibrary(t)
	for _, c := range []struct {
		r              library.PutRequest
		field, message string
	}{
		{library.PutRequest{Definition: mailGraph("a")}, "workflow_tag", "is required"},
		{library.PutRequest{WorkflowKey: annsKey("a/b"), Definition: mailGraph("a")}, "workflow_tag", "want 1 to 128"},
		{library.PutRequest{WorkflowKey: agent.WorkflowKey{Tag: "a", Owner: "x y"}, Definition: mailGraph("a")}, "workflow_owner", "want 1 to 128"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: json.RawMessage(`{"nodes":[{}]}`)}, "", "nodes[0].id: is required"},
		{library.PutRequest{WorkflowKey: annsKey("a")}, "", "malformed JSON"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph()}, "", "nodes: is empty"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph("a"), Description: strings.Repeat("x", 5000)}, "description", "is 5000 bytes"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph("a"), Idempotency: strings.Repeat("x", 300)}, "idempotency_key", "is 300 bytes"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph("a"), By: strings.Repeat("x", 300)}, "by", "is 300 bytes"},
		{library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph("a"), BaseVersion: -1}, "base_version", "is negative"},
	} {
		_, err := l.Put(t.Context(), c.r)
		requireRefusal(t, err, agent.CodeInvalid, c.field, c.message)
	}
	_, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("a"), Definition: mailGraph("a"), BaseVersion: 3})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "is 3, and the newest version is 0")
	page, err := l.ListWorkflows(t.Context(), agent.WorkflowQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Workflows)
}

func TestPatch(t *testing.T) {
	l, _ := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	r := mustPatch(t, l, agent.WorkflowKey{Tag: "main"}, string(addMailNode("b")))
	require.EqualValues(t, 2, r.Version)
	require.EqualValues(t, 1, r.BaseVersion)
	require.Equal(t, annsKey("main"), r.WorkflowKey, "the only owner of the tag")
	w := mustRead(t, l, annsKey("main"))
	require.Equal(t, "a b", nodeIDs(t, w))
	require.Equal(t, r.PatchID, w.PatchID)
	require.Equal(t, "bob", w.UpdatedBy)
	old, err := l.Workflow(t.Context(), annsKey("main"), 1)
	require.NoError(t, err)
	require.Equal(t, "a", nodeIDs(t, old), "old versions remain")

	page, err := l.Patches(t.Context(), annsKey("main"), agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Patches, 2)
	require.JSONEq(t, string(addMailNode("b")), string(page.Patches[0].Operations))
	got, err := l.Patch(t.Context(), "", r.PatchID)
	require.NoError(t, err)
	require.Equal(t, page.Patches[0], got)

	dry, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("c"), DryRun: true, Idempotency: "k"})
	require.NoError(t, err)
	require.EqualValues(t, 3, dry.Version)
	require.Empty(t, dry.PatchID)
	require.EqualValues(t, 2, mustRead(t, l, annsKey("main")).Version, "nothing was stored")
	wet, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("c"), Idempotency: "k"})
	require.NoError(t, err)
	require.Equal(t, dry.Hash, wet.Hash)
}

func TestPatchRefuses(t *testing.T) {
	l, _ := newLibrary(t)
	ask := func(k agent.WorkflowKey, operations string, base int64) error {
		_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: k, Operations: json.RawMessage(operations), BaseVersion: base})
		return err
	}
	requireRefusal(t, ask(annsKey("main"), string(addMailNode("b")), 0), agent.CodeNotFound, "workflow_tag", "there is no workflow main of owner ann; there are none")
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	mustPut(t, l, agent.WorkflowKey{Owner: "bob", Tag: "reports"}, mailGraph("a"))
	requireRefusal(t, ask(annsKey("mian"), string(addMailNode("b")), 0), agent.CodeNotFound, "workflow_tag",
		"there is no workflow mian of owner ann; there are: main of ann, reports of bob")
	requireRefusal(t, ask(agent.WorkflowKey{Tag: "mian"}, string(addMailNode("b")), 0), agent.CodeNotFound, "workflow_tag", "there is no workflow mian; there are")
	requireRefusal(t, ask(annsKey("main"), string(addMailNode("b")), 4), agent.CodeConflict, "base_version", "is 4, and the newest version is 1")
	requireRefusal(t, ask(annsKey("main"), `[{"op":"remove","path":"/nodes/3"}]`, 0), agent.CodeInvalid, "operations[0].path", "the nodes are: 0 a")
	requireRefusal(t, ask(annsKey("main"), `[]`, 0), agent.CodeInvalid, "operations", "are none")
	requireRefusal(t, ask(annsKey("main"), string(addMailNode("a")), 0), agent.CodeInvalid, "", `nodes[1].id: "a" is the id of nodes[0] already`)
	requireRefusal(t, ask(agent.WorkflowKey{}, string(addMailNode("b")), 0), agent.CodeInvalid, "workflow_tag", "is required")
	mustPut(t, l, agent.WorkflowKey{Owner: "bob", Tag: "main"}, mailGraph("a"))
	requireRefusal(t, ask(agent.WorkflowKey{Tag: "main"}, string(addMailNode("b")), 0), agent.CodeConflict, "workflow_owner", "owners")
	require.EqualValues(t, 1, mustRead(t, l, annsKey("main")).Version)
	_, err := l.Workflow(t.Context(), annsKey("main"), 9)
	requireRefusal(t, err, agent.CodeNotFound, "version", "no version 9")
	_, err = l.Workflow(t.Context(), annsKey("main"), -1)
	requireRefusal(t, err, agent.CodeInvalid, "version", "is negative")
	_, err = l.Patches(t.Context(), annsKey("none"), agent.Page{})
	requireRefusal(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow none of owner ann")
}

func TestPatchOfWholeDefinitionCreatesWorkflow(t *testing.T) {
	for _, op := range []string{"add", "replace"} {
		l, _ := newLibrary(t)
		r := mustPatch(t, l, agent.WorkflowKey{Tag: "new"}, `[{"op":"`+op+`","path":"","value":`+string(mailGraph("a"))+`},`+strings.TrimPrefix(string(addMailNode("b")), "["))
		require.EqualValues(t, 1, r.Version)
		require.Zero(t, r.BaseVersion)
		require.Equal(t, agent.DefaultWorkflowOwner, r.Owner)
		require.Equal(t, "a b", nodeIDs(t, mustRead(t, l, agent.WorkflowKey{Tag: "new"})))
	}
}

func TestIdempotentPatch(t *testing.T) {
	l, _ := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	ask := agent.WorkflowPatchRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, Operations: addMailNode("b"), Idempotency: "k", By: "bob"}
	first, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.Regexp(t, `^patch_[0-9a-f]{8}-[0-9a-f]{4}-5`, first.PatchID, "the ID depends on the key")
	mustPatch(t, l, annsKey("main"), `[{"op":"remove","path":"/nodes/1"}]`)
	mustPut(t, l, agent.WorkflowKey{Owner: "bob", Tag: "main"}, mailGraph("a"))

	ask.Operations = json.RawMessage(` [ {"value":` + mailNode("b") + `,"path":"/nodes/-","op":"add"} ] `)
	again, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err, "the key is checked before the owner is resolved, which is ambiguous by now")
	require.Equal(t, first, again)
	require.Equal(t, "a", nodeIDs(t, mustRead(t, l, annsKey("main"))))

	for name, change := range map[string]func(*agent.WorkflowPatchRequest){
		"operations":  func(r *agent.WorkflowPatchRequest) { r.Operations = addMailNode("c") },
		"tag":         func(r *agent.WorkflowPatchRequest) { r.Tag = "other" },
		"owner":       func(r *agent.WorkflowPatchRequest) { r.Owner = "bob" },
		"description": func(r *agent.WorkflowPatchRequest) { r.Description = "x" },
		"base":        func(r *agent.WorkflowPatchRequest) { r.BaseVersion = 1 },
	} {
		other := ask
		change(&other)
		_, err := l.PatchWorkflow(t.Context(), other)
		requireRefusal(t, err, agent.CodeConflict, "idempotency_key", "another request")
		require.NotEmpty(t, name)
	}
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("z"), Idempotency: "k"})
	requireRefusal(t, err, agent.CodeConflict, "idempotency_key", "another request")
	theirs := ask
	theirs.Tenant = "globex"
	_, err = l.PatchWorkflow(t.Context(), theirs)
	requireRefusal(t, err, agent.CodeNotFound, "workflow_tag", "there are none")
}

func TestIdempotentPatchWithoutChange(t *testing.T) {
	l, _ := newLibrary(t)
	first := mustPut(t, l, annsKey("main"), mailGraph("a"))
	ask := agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: json.RawMessage(`[{"op":"replace","path":"/description","value":""}]`), Idempotency: "k"}
	r, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.True(t, r.Unchanged)
	require.Equal(t, first.PatchID, r.PatchID, "the patch that made the current version")
	mustPatch(t, l, annsKey("main"), `[{"op":"replace","path":"/description","value":"mine"}]`)
	again, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Contains(t, string(mustRead(t, l, annsKey("main")).Definition), "mine")
}

func TestConflictIsRetried(t *testing.T) {
	l, store := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	var others atomic.Int64
	interfere := func(times int64) {
		others.Store(0)
		store.BeforeCommit = func() {
			n := others.Add(1)
			if n > times {
				return
			}
			hook := store.BeforeCommit
			store.BeforeCommit = nil
			mustPatch(t, l, annsKey("main"), string(addMailNode(fmt.Sprintf("other_%d_%d", times, n))))
			store.BeforeCommit = hook
		}
	}
	interfere(2)
	r, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("mine")})
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Version)
	require.EqualValues(t, 3, r.BaseVersion)
	store.BeforeCommit = nil
	require.Equal(t, "a other_2_1 other_2_2 mine", nodeIDs(t, mustRead(t, l, annsKey("main"))), "no change is lost")

	interfere(1)
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("late"), BaseVersion: 4})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "newest version is 5")
	require.EqualValues(t, 1, others.Load(), "a change with a base version is not repeated")
}
