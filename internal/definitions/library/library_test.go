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

// shelf is a library on a store in memory.
func shelf(t *testing.T) (*library.Library, *definitionstest.LibraryStore) {
	t.Helper()
	store := new(definitionstest.LibraryStore)
	l, err := library.New(library.Config{Store: store, Now: noon})
	require.NoError(t, err)
	return l, store
}

func anns(tag string) agent.WorkflowKey {
	return agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: "ann", Tag: tag}
}

// mail is a node.
func mail(id string) string {
	return fmt.Sprintf(`{"id":%q,"type":"task","config":{"action":"email"}}`, id)
}

// graphOf is a definition of nodes without edges.
func graphOf(ids ...string) json.RawMessage {
	nodes := make([]string, len(ids))
	for i, id := range ids {
		nodes[i] = mail(id)
	}
	return json.RawMessage(`{"nodes":[` + strings.Join(nodes, ",") + `],"edges":[]}`)
}

func put(t *testing.T, l *library.Library, k agent.WorkflowKey, definition json.RawMessage) agent.WorkflowPatchResult {
	t.Helper()
	r, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: k, Definition: definition, By: "ann"})
	require.NoError(t, err)
	return r
}

func addition(id string) json.RawMessage {
	return json.RawMessage(`[{"op":"add","path":"/nodes/-","value":` + mail(id) + `}]`)
}

func patched(t *testing.T, l *library.Library, k agent.WorkflowKey, operations string) agent.WorkflowPatchResult {
	t.Helper()
	r, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: k, Operations: json.RawMessage(operations), By: "bob"})
	require.NoError(t, err)
	return r
}

func newest(t *testing.T, l *library.Library, k agent.WorkflowKey) agent.StoredWorkflow {
	t.Helper()
	w, err := l.Workflow(t.Context(), k, 0)
	require.NoError(t, err)
	return w
}

// names are the ids of a definition's nodes.
func names(t *testing.T, w agent.StoredWorkflow) string {
	t.Helper()
	var d agent.WorkflowDefinition
	require.NoError(t, json.Unmarshal(w.Definition, &d))
	out := make([]string, len(d.Nodes))
	for i, n := range d.Nodes {
		out[i] = n.ID
	}
	return strings.Join(out, " ")
}

func refused(t *testing.T, err error, code agent.Code, field, message string) {
	t.Helper()
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.Equal(t, field, e.Field, "%v", err)
	require.ErrorContains(t, err, message)
}

func TestNewNeedsAStore(t *testing.T) {
	_, err := library.New(library.Config{})
	refused(t, err, agent.CodeInvalid, "store", "is required")
}

func TestPut(t *testing.T) {
	l, _ := shelf(t)
	first := put(t, l, anns("main"), graphOf("a"))
	require.Regexp(t, `^patch_[0-9a-f-]{36}$`, first.PatchID)
	require.Regexp(t, `^sha256:`, first.Hash)
	require.Equal(t, agent.WorkflowPatchResult{WorkflowKey: anns("main"), PatchID: first.PatchID, Version: 1, BaseVersion: 0, Hash: first.Hash}, first)
	w := newest(t, l, anns("main"))
	require.Equal(t, agent.StoredWorkflow{
		WorkflowKey: anns("main"), Version: 1, Definition: json.RawMessage(`{"edges":[],"nodes":[{"config":{"action":"email"},"id":"a","type":"task"}]}`),
		Hash: first.Hash, PatchID: first.PatchID, UpdatedAt: noon(), UpdatedBy: "ann",
	}, w)

	same := put(t, l, anns("main"), json.RawMessage(`{"edges":[], "nodes":[{"type":"task","id":"a","config":{"action":"email"}}],"schedules":[]}`))
	require.Equal(t, agent.WorkflowPatchResult{
		WorkflowKey: anns("main"), PatchID: first.PatchID, Version: 1, BaseVersion: 1, Hash: first.Hash, Unchanged: true,
	}, same)
	second := put(t, l, anns("main"), graphOf("a", "b"))
	require.EqualValues(t, 2, second.Version)
	require.NotEqual(t, first.PatchID, second.PatchID)
	require.Less(t, first.PatchID, second.PatchID, "later ones sort behind")

	_, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("c"), BaseVersion: 1})
	refused(t, err, agent.CodeConflict, "base_version", "is 1, and the newest version is 2")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("c"), BaseVersion: 2})
	require.NoError(t, err)

	owned := put(t, l, agent.WorkflowKey{Tag: "other"}, graphOf("a"))
	require.Equal(t, agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: agent.DefaultWorkflowOwner, Tag: "other"}, owned.WorkflowKey)
	require.EqualValues(t, 1, owned.Version)
}

func TestPutRefuses(t *testing.T) {
	l, _ := shelf(t)
	for _, c := range []struct {
		r              library.PutRequest
		field, message string
	}{
		{library.PutRequest{Definition: graphOf("a")}, "workflow_tag", "is required"},
		{library.PutRequest{WorkflowKey: anns("a/b"), Definition: graphOf("a")}, "workflow_tag", "want 1 to 128"},
		{library.PutRequest{WorkflowKey: agent.WorkflowKey{Tag: "a", Owner: "x y"}, Definition: graphOf("a")}, "workflow_owner", "want 1 to 128"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: json.RawMessage(`{"nodes":[{}]}`)}, "", "nodes[0].id: is required"},
		{library.PutRequest{WorkflowKey: anns("a")}, "", "malformed JSON"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf()}, "", "nodes: is empty"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf("a"), Description: strings.Repeat("x", 5000)}, "description", "is 5000 bytes"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf("a"), Idempotency: strings.Repeat("x", 300)}, "idempotency_key", "is 300 bytes"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf("a"), By: strings.Repeat("x", 300)}, "by", "is 300 bytes"},
		{library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf("a"), BaseVersion: -1}, "base_version", "is negative"},
	} {
		_, err := l.Put(t.Context(), c.r)
		refused(t, err, agent.CodeInvalid, c.field, c.message)
	}
	_, err := l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("a"), Definition: graphOf("a"), BaseVersion: 3})
	refused(t, err, agent.CodeConflict, "base_version", "is 3, and the newest version is 0")
	page, err := l.ListWorkflows(t.Context(), agent.WorkflowQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Workflows)
}

func TestPatch(t *testing.T) {
	l, _ := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
	r := patched(t, l, agent.WorkflowKey{Tag: "main"}, string(addition("b")))
	require.EqualValues(t, 2, r.Version)
	require.EqualValues(t, 1, r.BaseVersion)
	require.Equal(t, anns("main"), r.WorkflowKey, "the one owner of the tag")
	w := newest(t, l, anns("main"))
	require.Equal(t, "a b", names(t, w))
	require.Equal(t, r.PatchID, w.PatchID)
	require.Equal(t, "bob", w.UpdatedBy)
	old, err := l.Workflow(t.Context(), anns("main"), 1)
	require.NoError(t, err)
	require.Equal(t, "a", names(t, old), "versions stay")

	page, err := l.Patches(t.Context(), anns("main"), agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Patches, 2)
	require.JSONEq(t, string(addition("b")), string(page.Patches[0].Operations))
	got, err := l.Patch(t.Context(), "", r.PatchID)
	require.NoError(t, err)
	require.Equal(t, page.Patches[0], got)

	dry, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("c"), DryRun: true, Idempotency: "k"})
	require.NoError(t, err)
	require.EqualValues(t, 3, dry.Version)
	require.Empty(t, dry.PatchID)
	require.EqualValues(t, 2, newest(t, l, anns("main")).Version, "nothing was done")
	wet, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("c"), Idempotency: "k"})
	require.NoError(t, err)
	require.Equal(t, dry.Hash, wet.Hash)
}

func TestPatchRefuses(t *testing.T) {
	l, _ := shelf(t)
	ask := func(k agent.WorkflowKey, operations string, base int64) error {
		_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: k, Operations: json.RawMessage(operations), BaseVersion: base})
		return err
	}
	refused(t, ask(anns("main"), string(addition("b")), 0), agent.CodeNotFound, "workflow_tag", "there is no workflow main of owner ann; there are none")
	put(t, l, anns("main"), graphOf("a"))
	put(t, l, agent.WorkflowKey{Owner: "bob", Tag: "reports"}, graphOf("a"))
	refused(t, ask(anns("mian"), string(addition("b")), 0), agent.CodeNotFound, "workflow_tag",
		"there is no workflow mian of owner ann; there are: main of ann, reports of bob")
	refused(t, ask(agent.WorkflowKey{Tag: "mian"}, string(addition("b")), 0), agent.CodeNotFound, "workflow_tag", "there is no workflow mian; there are")
	refused(t, ask(anns("main"), string(addition("b")), 4), agent.CodeConflict, "base_version", "is 4, and the newest version is 1")
	refused(t, ask(anns("main"), `[{"op":"remove","path":"/nodes/3"}]`, 0), agent.CodeInvalid, "operations[0].path", "the nodes are: 0 a")
	refused(t, ask(anns("main"), `[]`, 0), agent.CodeInvalid, "operations", "are none")
	refused(t, ask(anns("main"), string(addition("a")), 0), agent.CodeInvalid, "", `nodes[1].id: "a" is the id of nodes[0] already`)
	refused(t, ask(agent.WorkflowKey{}, string(addition("b")), 0), agent.CodeInvalid, "workflow_tag", "is required")
	put(t, l, agent.WorkflowKey{Owner: "bob", Tag: "main"}, graphOf("a"))
	refused(t, ask(agent.WorkflowKey{Tag: "main"}, string(addition("b")), 0), agent.CodeConflict, "workflow_owner", "owners")
	require.EqualValues(t, 1, newest(t, l, anns("main")).Version)
	_, err := l.Workflow(t.Context(), anns("main"), 9)
	refused(t, err, agent.CodeNotFound, "version", "no version 9")
	_, err = l.Workflow(t.Context(), anns("main"), -1)
	refused(t, err, agent.CodeInvalid, "version", "is negative")
	_, err = l.Patches(t.Context(), anns("none"), agent.Page{})
	refused(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow none of owner ann")
}

func TestAPatchThatBeginsWithTheWholeMakesTheFirstVersion(t *testing.T) {
	for _, op := range []string{"add", "replace"} {
		l, _ := shelf(t)
		r := patched(t, l, agent.WorkflowKey{Tag: "new"}, `[{"op":"`+op+`","path":"","value":`+string(graphOf("a"))+`},`+strings.TrimPrefix(string(addition("b")), "["))
		require.EqualValues(t, 1, r.Version)
		require.Zero(t, r.BaseVersion)
		require.Equal(t, agent.DefaultWorkflowOwner, r.Owner)
		require.Equal(t, "a b", names(t, newest(t, l, agent.WorkflowKey{Tag: "new"})))
	}
}

func TestTheSameRequestChangesOnce(t *testing.T) {
	l, _ := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
	ask := agent.WorkflowPatchRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, Operations: addition("b"), Idempotency: "k", By: "bob"}
	first, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.Regexp(t, `^patch_[0-9a-f]{8}-[0-9a-f]{4}-5`, first.PatchID, "made of the key")
	patched(t, l, anns("main"), `[{"op":"remove","path":"/nodes/1"}]`)
	put(t, l, agent.WorkflowKey{Owner: "bob", Tag: "main"}, graphOf("a"))

	ask.Operations = json.RawMessage(` [ {"value":` + mail("b") + `,"path":"/nodes/-","op":"add"} ] `)
	again, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err, "answered before owners are looked for: there are two by now")
	require.Equal(t, first, again)
	require.Equal(t, "a", names(t, newest(t, l, anns("main"))))

	for name, change := range map[string]func(*agent.WorkflowPatchRequest){
		"operations":  func(r *agent.WorkflowPatchRequest) { r.Operations = addition("c") },
		"tag":         func(r *agent.WorkflowPatchRequest) { r.Tag = "other" },
		"owner":       func(r *agent.WorkflowPatchRequest) { r.Owner = "bob" },
		"description": func(r *agent.WorkflowPatchRequest) { r.Description = "x" },
		"base":        func(r *agent.WorkflowPatchRequest) { r.BaseVersion = 1 },
	} {
		other := ask
		change(&other)
		_, err := l.PatchWorkflow(t.Context(), other)
		refused(t, err, agent.CodeConflict, "idempotency_key", "another request")
		require.NotEmpty(t, name)
	}
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("z"), Idempotency: "k"})
	refused(t, err, agent.CodeConflict, "idempotency_key", "another request")
	theirs := ask
	theirs.Tenant = "globex"
	_, err = l.PatchWorkflow(t.Context(), theirs)
	refused(t, err, agent.CodeNotFound, "workflow_tag", "there are none")
}

func TestARequestThatChangedNothingStaysSo(t *testing.T) {
	l, _ := shelf(t)
	first := put(t, l, anns("main"), graphOf("a"))
	ask := agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: json.RawMessage(`[{"op":"replace","path":"/description","value":""}]`), Idempotency: "k"}
	r, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.True(t, r.Unchanged)
	require.Equal(t, first.PatchID, r.PatchID, "of the change that made it so")
	patched(t, l, anns("main"), `[{"op":"replace","path":"/description","value":"mine"}]`)
	again, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Contains(t, string(newest(t, l, anns("main")).Definition), "mine")
}

func TestWhoeverIsSlowerTriesAgain(t *testing.T) {
	l, store := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
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
			patched(t, l, anns("main"), string(addition(fmt.Sprintf("other_%d_%d", times, n))))
			store.BeforeCommit = hook
		}
	}
	interfere(2)
	r, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("mine")})
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Version)
	require.EqualValues(t, 3, r.BaseVersion)
	store.BeforeCommit = nil
	require.Equal(t, "a other_2_1 other_2_2 mine", names(t, newest(t, l, anns("main"))), "nobody's change is lost")

	interfere(1)
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("late"), BaseVersion: 4})
	refused(t, err, agent.CodeConflict, "base_version", "newest version is 5")
	require.EqualValues(t, 1, others.Load(), "who names a base wants no other")
}
