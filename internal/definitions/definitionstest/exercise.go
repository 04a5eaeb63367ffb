package definitionstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

const tenant = "acme"

// noon has the precision that databases keep.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 123_000_000, time.UTC)

// ExerciseLibraryStore tests a [library.Store]. empty returns an empty store for each test.
func ExerciseLibraryStore(t *testing.T, empty func(t *testing.T) library.Store) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, library.Store){
		"nothing":     exerciseNothing,
		"versions":    exerciseVersions,
		"owners":      exerciseOwners,
		"deletion":    exerciseDeletion,
		"base":        exerciseBase,
		"idempotency": exerciseIdempotency,
		"unchanged":   exerciseUnchanged,
		"patches":     exercisePatches,
		"lists":       exerciseLists,
		"tenants":     exerciseTenants,
		"one winner":  exerciseOneWinner,
		"one request": exerciseOneRequest,
		"exact bytes": exerciseFaithful,
	} {
		t.Run(name, func(t *testing.T) { run(t, empty(t)) })
	}
}

func key(owner, tag string) agent.WorkflowKey {
	return agent.WorkflowKey{Tenant: tenant, Owner: owner, Tag: tag}
}

// commitAfter returns the commit of version base+1.
func commitAfter(k agent.WorkflowKey, base int64) agent.WorkflowCommit {
	definition := json.RawMessage(fmt.Sprintf(`{"description":"version %d of %s","edges":[],"nodes":[]}`, base+1, k.Owner))
	return agent.WorkflowCommit{
		Stored: agent.StoredWorkflow{
			WorkflowKey: k, Version: base + 1, Definition: definition, Hash: fmt.Sprintf("sha256:%d", base+1),
			PatchID: fmt.Sprintf("patch_%s_%s_%s_%d", k.Tenant, k.Owner, k.Tag, base+1), UpdatedAt: noon.Add(time.Duration(base) * time.Second), UpdatedBy: "ann",
		},
		Base: base, Operations: json.RawMessage(`[{"op":"add","path":"/nodes/-","value":{}}]`), Description: "add",
	}
}

func deletion(k agent.WorkflowKey, base int64) agent.WorkflowCommit {
	c := commitAfter(k, base)
	c.Stored.Deleted, c.Stored.Definition, c.Operations = true, json.RawMessage(`{"edges":[],"nodes":[]}`), nil
	return c
}

func mustCommit(t *testing.T, s library.Store, c agent.WorkflowCommit) agent.StoredWorkflow {
	t.Helper()
	w, err := s.CommitWorkflow(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, c.Stored, w)
	return w
}

// requireFieldError checks the code and the field of an error.
func requireFieldError(t *testing.T, err error, code agent.Code, field string) {
	t.Helper()
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.Equal(t, field, e.Field, "%v", err)
}

func exerciseNothing(t *testing.T, s library.Store) {
	for _, k := range []agent.WorkflowKey{key("ann", "main"), key("", "main")} {
		_, err := s.Workflow(t.Context(), k, 0)
		requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
		_, err = s.Workflow(t.Context(), k, 3)
		requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
		_, err = s.WorkflowPatches(t.Context(), k, agent.Page{})
		requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
	}
	version, deleted, err := s.NewestVersion(t.Context(), key("ann", "main"))
	require.NoError(t, err)
	require.Zero(t, version)
	require.False(t, deleted)
	page, err := s.Workflows(t.Context(), agent.WorkflowQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Empty(t, page.Workflows)
	require.Empty(t, page.Next)
	_, err = s.WorkflowPatch(t.Context(), tenant, "patch_x")
	requireFieldError(t, err, agent.CodeNotFound, "patch_id")
	_, _, ok, err := s.PatchedBefore(t.Context(), tenant, "k")
	require.NoError(t, err)
	require.False(t, ok)
}

func exerciseVersions(t *testing.T, s library.Store) {
	k := key("ann", "main")
	var want []agent.StoredWorkflow
	for base := range int64(3) {
		want = append(want, mustCommit(t, s, commitAfter(k, base)))
	}
	for i, w := range want {
		got, err := s.Workflow(t.Context(), k, int64(i+1))
		require.NoError(t, err)
		require.Equal(t, w, got)
	}
	for _, requested := range []agent.WorkflowKey{k, key("", "main")} {
		got, err := s.Workflow(t.Context(), requested, 0)
		require.NoError(t, err)
		require.Equal(t, want[2], got)
	}
	_, err := s.Workflow(t.Context(), k, 4)
	requireFieldError(t, err, agent.CodeNotFound, "version")
	version, deleted, err := s.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 3, version)
	require.False(t, deleted)
}

func exerciseOwners(t *testing.T, s library.Store) {
	anns := mustCommit(t, s, commitAfter(key("ann", "main"), 0))
	bobs := mustCommit(t, s, commitAfter(key("bob", "main"), 0))
	for _, w := range []agent.StoredWorkflow{anns, bobs} {
		got, err := s.Workflow(t.Context(), w.WorkflowKey, 0)
		require.NoError(t, err)
		require.Equal(t, w, got)
	}
	_, err := s.Workflow(t.Context(), key("", "main"), 0)
	requireFieldError(t, err, agent.CodeConflict, "workflow_owner")
	_, err = s.WorkflowPatches(t.Context(), key("", "main"), agent.Page{})
	requireFieldError(t, err, agent.CodeConflict, "workflow_owner")
	_, err = s.Workflow(t.Context(), key("cid", "main"), 0)
	requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
	mustCommit(t, s, deletion(key("bob", "main"), 1))
	got, err := s.Workflow(t.Context(), key("", "main"), 0)
	require.NoError(t, err, "only one owner is left")
	require.Equal(t, anns, got)
}

func exerciseDeletion(t *testing.T, s library.Store) {
	k := key("ann", "main")
	first := mustCommit(t, s, commitAfter(k, 0))
	gone := mustCommit(t, s, deletion(k, 1))
	for _, requested := range []agent.WorkflowKey{k, key("", "main")} {
		_, err := s.Workflow(t.Context(), requested, 0)
		requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
	}
	for _, w := range []agent.StoredWorkflow{first, gone} {
		got, err := s.Workflow(t.Context(), k, w.Version)
		require.NoError(t, err, "runs keep their version")
		require.Equal(t, w, got)
	}
	page, err := s.Workflows(t.Context(), agent.WorkflowQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Empty(t, page.Workflows)
	version, deleted, err := s.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 2, version)
	require.True(t, deleted)
	patches, err := s.WorkflowPatches(t.Context(), k, agent.Page{})
	require.NoError(t, err)
	require.Len(t, patches.Patches, 2)
	again := mustCommit(t, s, commitAfter(k, 2))
	got, err := s.Workflow(t.Context(), k, 0)
	require.NoError(t, err, "the version numbers continue")
	require.Equal(t, again, got)
}

func exerciseBase(t *testing.T, s library.Store) {
	k := key("ann", "main")
	_, err := s.CommitWorkflow(t.Context(), commitAfter(k, 1))
	requireFieldError(t, err, agent.CodeConflict, "base_version")
	mustCommit(t, s, commitAfter(k, 0))
	for _, base := range []int64{0, 2} {
		c := commitAfter(k, base)
		c.Stored.PatchID = "patch_other"
		_, err = s.CommitWorkflow(t.Context(), c)
		requireFieldError(t, err, agent.CodeConflict, "base_version")
	}
	page, err := s.WorkflowPatches(t.Context(), k, agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Patches, 1, "a refused commit stores nothing")
}

func exerciseIdempotency(t *testing.T, s library.Store) {
	k := key("ann", "main")
	c := commitAfter(k, 0)
	c.Idempotency, c.RequestHash = "k1", "h1"
	first := mustCommit(t, s, c)
	mustCommit(t, s, commitAfter(k, 1))
	again := c
	again.Base, again.Stored.Version, again.Stored.PatchID = 2, 3, "patch_again"
	got, err := s.CommitWorkflow(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, first, got, "the result of the first commit")
	got, err = s.CommitWorkflow(t.Context(), c)
	require.NoError(t, err, "the key is checked before the base")
	require.Equal(t, first, got)
	version, _, err := s.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 2, version)

	again.RequestHash = "h2"
	_, err = s.CommitWorkflow(t.Context(), again)
	requireFieldError(t, err, agent.CodeConflict, "idempotency_key")
	other := commitAfter(key("bob", "other"), 0)
	other.Idempotency, other.RequestHash = "k1", "h3"
	_, err = s.CommitWorkflow(t.Context(), other)
	requireFieldError(t, err, agent.CodeConflict, "idempotency_key")

	r, hash, ok, err := s.PatchedBefore(t.Context(), tenant, "k1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "h1", hash)
	require.Equal(t, agent.WorkflowPatchResult{WorkflowKey: k, PatchID: first.PatchID, Version: 1, BaseVersion: 0, Hash: first.Hash}, r)

	failed := commitAfter(k, 7)
	failed.Idempotency, failed.RequestHash = "k2", "h2"
	_, err = s.CommitWorkflow(t.Context(), failed)
	requireFieldError(t, err, agent.CodeConflict, "base_version")
	_, _, ok, err = s.PatchedBefore(t.Context(), tenant, "k2")
	require.NoError(t, err)
	require.False(t, ok, "a refused request is not remembered")
}

func exerciseUnchanged(t *testing.T, s library.Store) {
	k := key("ann", "main")
	first := mustCommit(t, s, commitAfter(k, 0))
	r := agent.WorkflowPatchResult{WorkflowKey: k, PatchID: first.PatchID, Version: 1, BaseVersion: 1, Hash: first.Hash, Unchanged: true}
	require.NoError(t, s.RememberUnchanged(t.Context(), r, "k1", "h1"))
	other := r
	other.Version = 9
	require.NoError(t, s.RememberUnchanged(t.Context(), other, "k1", "h9"), "the first result is kept")
	got, hash, ok, err := s.PatchedBefore(t.Context(), tenant, "k1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "h1", hash)
	require.Equal(t, r, got)
	page, err := s.WorkflowPatches(t.Context(), k, agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Patches, 1, "no patch is recorded")
	c := commitAfter(k, 1)
	c.Idempotency, c.RequestHash = "k1", "h1"
	w, err := s.CommitWorkflow(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, first, w, "the same request, committed concurrently")
}

func exercisePatches(t *testing.T, s library.Store) {
	k := key("ann", "main")
	mustCommit(t, s, commitAfter(k, 0))
	second := commitAfter(k, 1)
	second.Revert, second.Description = "patch_1", "take back"
	mustCommit(t, s, second)
	whole := commitAfter(k, 2)
	whole.Operations, whole.Description, whole.Stored.UpdatedBy = nil, "", ""
	mustCommit(t, s, whole)
	mustCommit(t, s, commitAfter(key("bob", "main"), 0))

	page, err := s.WorkflowPatches(t.Context(), k, agent.Page{Size: 2})
	require.NoError(t, err)
	require.Len(t, page.Patches, 2)
	require.NotEmpty(t, page.Next)
	newest := page.Patches[0]
	require.EqualValues(t, 3, newest.Version)
	require.Contains(t, []string{"", "null"}, string(newest.Operations))
	require.Empty(t, newest.By)
	middle := page.Patches[1]
	require.Equal(t, "patch_1", middle.Revert)
	require.Equal(t, "take back", middle.Description)
	require.Equal(t, "ann", middle.By)
	require.EqualValues(t, 1, middle.BaseVersion)
	require.Equal(t, second.Stored.Hash, middle.Hash)
	require.JSONEq(t, string(second.Operations), string(middle.Operations))
	require.True(t, second.Stored.UpdatedAt.Equal(middle.At))

	lastPage, err := s.WorkflowPatches(t.Context(), k, agent.Page{Size: 2, Token: page.Next})
	require.NoError(t, err)
	require.Len(t, lastPage.Patches, 1)
	require.Empty(t, lastPage.Next)
	require.EqualValues(t, 1, lastPage.Patches[0].Version)
	_, err = s.WorkflowPatches(t.Context(), k, agent.Page{Token: "not one"})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))

	got, err := s.WorkflowPatch(t.Context(), tenant, second.Stored.PatchID)
	require.NoError(t, err)
	require.Equal(t, middle, got)
}

func exerciseLists(t *testing.T, s library.Store) {
	for _, k := range []agent.WorkflowKey{key("bob", "main"), key("ann", "zeta"), key("ann", "main"), key("cid", "alpha")} {
		mustCommit(t, s, commitAfter(k, 0))
	}
	mustCommit(t, s, commitAfter(key("ann", "main"), 1))
	names := func(q agent.WorkflowQuery) (out []string) {
		q.Tenant = tenant
		for {
			page, err := s.Workflows(t.Context(), q)
			require.NoError(t, err)
			for _, w := range page.Workflows {
				out = append(out, fmt.Sprintf("%s/%s@%d", w.Tag, w.Owner, w.Version))
				require.NotEmpty(t, w.Definition)
			}
			q.Token = page.Next
			if q.Token == "" {
				return out
			}
		}
	}
	all := []string{"alpha/cid@1", "main/ann@2", "main/bob@1", "zeta/ann@1"}
	require.Equal(t, all, names(agent.WorkflowQuery{}))
	for size := 1; size <= 5; size++ {
		require.Equal(t, all, names(agent.WorkflowQuery{Page: agent.Page{Size: size}}), "pages of %d", size)
	}
	require.Equal(t, []string{"main/ann@2", "main/bob@1"}, names(agent.WorkflowQuery{Tag: "main"}))
	require.Equal(t, []string{"main/ann@2", "zeta/ann@1"}, names(agent.WorkflowQuery{Owner: "ann"}))
	require.Equal(t, []string{"main/ann@2"}, names(agent.WorkflowQuery{Owner: "ann", Tag: "main"}))
	require.Empty(t, names(agent.WorkflowQuery{Owner: "nobody"}))
}

func exerciseTenants(t *testing.T, s library.Store) {
	mine := commitAfter(key("ann", "main"), 0)
	mine.Idempotency, mine.RequestHash = "k", "h"
	mustCommit(t, s, mine)
	theirs := agent.WorkflowKey{Tenant: "globex", Owner: "ann", Tag: "main"}
	_, err := s.Workflow(t.Context(), theirs, 0)
	requireFieldError(t, err, agent.CodeNotFound, "workflow_tag")
	_, err = s.WorkflowPatch(t.Context(), "globex", mine.Stored.PatchID)
	requireFieldError(t, err, agent.CodeNotFound, "patch_id")
	_, _, ok, err := s.PatchedBefore(t.Context(), "globex", "k")
	require.NoError(t, err)
	require.False(t, ok)
	c := commitAfter(theirs, 0)
	c.Idempotency, c.RequestHash = "k", "other"
	mustCommit(t, s, c)
	page, err := s.Workflows(t.Context(), agent.WorkflowQuery{Tenant: "globex"})
	require.NoError(t, err)
	require.Len(t, page.Workflows, 1)
	require.Equal(t, theirs, page.Workflows[0].WorkflowKey)
}

func exerciseOneWinner(t *testing.T, s library.Store) {
	const writers, rounds = 4, 5
	k := key("ann", "main")
	for base := range int64(rounds) {
		won := make([]bool, writers)
		var g errgroup.Group
		for i := range writers {
			g.Go(func() error {
				c := commitAfter(k, base)
				c.Stored.PatchID = fmt.Sprintf("patch_%d_%d", base, i)
				_, err := s.CommitWorkflow(t.Context(), c)
				if agent.CodeOf(err) == agent.CodeConflict {
					return nil
				}
				won[i] = err == nil
				return err
			})
		}
		require.NoError(t, g.Wait())
		n := 0
		for _, w := range won {
			if w {
				n++
			}
		}
		require.Equal(t, 1, n, "only one commit wins")
	}
	page, err := s.WorkflowPatches(t.Context(), k, agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Patches, rounds)
}

func exerciseOneRequest(t *testing.T, s library.Store) {
	k := key("ann", "main")
	var g errgroup.Group
	got := make([]agent.StoredWorkflow, 4)
	for i := range got {
		g.Go(func() (err error) {
			c := commitAfter(k, 0)
			c.Idempotency, c.RequestHash, c.Stored.PatchID = "k", "h", "patch_k"
			got[i], err = s.CommitWorkflow(t.Context(), c)
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, w := range got {
		require.Equal(t, got[0], w)
	}
	version, _, err := s.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
}

// exerciseFaithful stores JSON that databases tend to change.
func exerciseFaithful(t *testing.T, s library.Store) {
	c := commitAfter(key("ann", "main"), 0)
	c.Stored.Definition = json.RawMessage(`{"description":"é <b> & \\u0000 ` + strings.Repeat("x", 100_000) +
		`","edges":[],"nodes":[{"config":{"action":"webhook","body":12345678901234567890.10,"url":"https://x.example"},"id":"a","type":"task"}]}`)
	mustCommit(t, s, c)
	got, err := s.Workflow(t.Context(), c.Stored.WorkflowKey, 0)
	require.NoError(t, err)
	require.Equal(t, string(c.Stored.Definition), string(got.Definition), "the exact bytes, because the hash is computed from them")
}
