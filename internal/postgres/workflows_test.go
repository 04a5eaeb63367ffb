package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func key(owner, tag string) agent.WorkflowKey {
	return agent.WorkflowKey{Tenant: tenant, Owner: owner, Tag: tag}
}

// version returns the commit of a definition after base.
func version(k agent.WorkflowKey, base int64) agent.WorkflowCommit {
	return agent.WorkflowCommit{
		Stored: agent.StoredWorkflow{
			WorkflowKey: k, Definition: json.RawMessage(fmt.Sprintf(`{"nodes": [{"id":"n%d"}], "price":1.50, "x":"\u0000"}`, base+1)),
			Hash: fmt.Sprintf("sha256:%d", base+1), PatchID: fmt.Sprintf("patch_%s_%s_%s_%d", k.Tenant, k.Owner, k.Tag, base+1), UpdatedBy: "ops",
		},
		Base: base, Operations: json.RawMessage(`[{"op":"add","path":"/nodes/-","value":1.0}]`), Description: "adds", Revert: "patch_0",
	}
}

func (b *bench) store(c agent.WorkflowCommit) agent.StoredWorkflow {
	b.t.Helper()
	w, err := b.CommitWorkflow(b.t.Context(), c)
	require.NoError(b.t, err)
	require.Equal(b.t, c.Base+1, w.Version)
	return w
}

func TestWorkflowVersions(t *testing.T) {
	b := newBench(t, postgres.Config{})
	k := key("ops", "main")
	_, err := b.Workflow(t.Context(), k, 0)
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)
	first := b.store(version(k, 0))
	require.WithinDuration(t, time.Now(), first.UpdatedAt, time.Minute)
	second := b.store(version(k, 1))
	for number, want := range map[int64]agent.StoredWorkflow{0: second, 1: first, 2: second} {
		got, err := b.Workflow(t.Context(), k, number)
		require.NoError(t, err)
		require.Equal(t, want, got, "to the byte")
	}
	_, err = b.Workflow(t.Context(), k, 3)
	requireFault(t, agent.CodeNotFound, "version", err)
	foreign := k
	foreign.Tenant = "evil"
	_, err = b.Workflow(t.Context(), foreign, 1)
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)

	late := version(k, 1)
	late.Stored.PatchID = "patch_late"
	for _, base := range []int64{0, 1, 3} {
		late.Base = base
		_, err = b.CommitWorkflow(t.Context(), late)
		requireFault(t, agent.CodeConflict, "base_version", err)
	}
	taken := version(k, 2)
	taken.Stored.PatchID = first.PatchID
	_, err = b.CommitWorkflow(t.Context(), taken)
	requireFault(t, agent.CodeConflict, "patch_id", err)
	require.Equal(t, 2, b.count("workflow_versions"))

	gone := version(k, 2)
	gone.Stored.Deleted = true
	b.store(gone)
	_, err = b.Workflow(t.Context(), k, 0)
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)
	newest, deleted, err := b.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 3, newest)
	require.True(t, deleted)
	got, err := b.Workflow(t.Context(), k, 2)
	require.NoError(t, err, "runs keep their versions")
	require.Equal(t, second, got)
	require.EqualValues(t, 4, b.store(version(k, 3)).Version, "version numbers continue")
	newest, deleted, err = b.NewestVersion(t.Context(), k)
	require.NoError(t, err)
	require.EqualValues(t, 4, newest)
	require.False(t, deleted)
	newest, _, err = b.NewestVersion(t.Context(), key("ops", "other"))
	require.NoError(t, err)
	require.Zero(t, newest)
	require.Equal(t, 1, b.count("workflow_definitions"), "failed commits leave nothing")
}

func TestWorkflowOfTheOneOwner(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.store(version(key("ann", "main"), 0))
	unnamed := key("", "main")
	w, err := b.Workflow(t.Context(), unnamed, 0)
	require.NoError(t, err)
	require.Equal(t, "ann", w.Owner)
	b.store(version(key("bob", "main"), 0))
	_, err = b.Workflow(t.Context(), unnamed, 0)
	requireFault(t, agent.CodeConflict, "workflow_owner", err)
	_, err = b.WorkflowPatches(t.Context(), unnamed, agent.Page{})
	requireFault(t, agent.CodeConflict, "workflow_owner", err)
	gone := version(key("ann", "main"), 1)
	gone.Stored.Deleted, gone.Stored.Definition = true, nil
	b.store(gone)
	w, err = b.Workflow(t.Context(), unnamed, 1)
	require.NoError(t, err)
	require.Equal(t, "bob", w.Owner)
	page, err := b.WorkflowPatches(t.Context(), unnamed, agent.Page{})
	require.NoError(t, err)
	require.Equal(t, "bob", page.Patches[0].Owner)
	gone.Stored.Owner, gone.Stored.PatchID = "bob", "patch_bob"
	b.store(gone)
	_, err = b.Workflow(t.Context(), unnamed, 0)
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)
}

func TestCommitWorkflowOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	k := key("ops", "main")
	b.store(version(k, 0))
	c := version(k, 1)
	c.Idempotency, c.RequestHash = "k1", "h1"
	w := b.store(c)
	b.store(version(k, 2))
	again, err := b.CommitWorkflow(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, w, again)
	c.Base = 77
	again, err = b.CommitWorkflow(t.Context(), c)
	require.NoError(t, err, "the key is checked before the base")
	require.Equal(t, w, again)
	c.RequestHash = "h2"
	_, err = b.CommitWorkflow(t.Context(), c)
	requireFault(t, agent.CodeConflict, "idempotency_key", err)
	elsewhere := version(key("ops", "other"), 0)
	elsewhere.Idempotency, elsewhere.RequestHash = "k1", "h1"
	again, err = b.CommitWorkflow(t.Context(), elsewhere)
	require.NoError(t, err)
	require.Equal(t, w, again, "keys belong to a tenant")
	foreign := version(agent.WorkflowKey{Tenant: "evil", Owner: "ops", Tag: "main"}, 0)
	foreign.Idempotency, foreign.RequestHash = "k1", "h9"
	b.store(foreign)

	r, hash, ok, err := b.PatchedBefore(t.Context(), tenant, "k1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "h1", hash)
	require.Equal(t, agent.WorkflowPatchResult{WorkflowKey: k, PatchID: w.PatchID, Version: 2, BaseVersion: 1, Hash: w.Hash}, r)
	_, _, ok, err = b.PatchedBefore(t.Context(), tenant, "k2")
	require.NoError(t, err)
	require.False(t, ok)

	same := agent.WorkflowPatchResult{WorkflowKey: k, PatchID: w.PatchID, Version: 3, BaseVersion: 3, Hash: "h", Unchanged: true}
	require.NoError(t, b.RememberUnchanged(t.Context(), same, "k2", "h3"))
	other := same
	other.Version = 9
	require.NoError(t, b.RememberUnchanged(t.Context(), other, "k2", "h4"))
	r, hash, ok, err = b.PatchedBefore(t.Context(), tenant, "k2")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "h3", hash)
	require.Equal(t, same, r, "the first one wins")

	b.exec(`UPDATE workflow_requests SET at = at - interval '91 days'`)
	require.NoError(t, b.RememberUnchanged(t.Context(), same, "k3", "h3"))
	require.Equal(t, 2, b.count("workflow_requests"), "old requests are removed two at a time")
}

func TestCommitWorkflowAtOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	k := key("ops", "main")
	const writers = 8
	for base := range int64(3) {
		keyed := make([]agent.StoredWorkflow, writers)
		won := 0
		for i, err := range atOnce(2*writers, func(i int) (err error) {
			if i < writers {
				c := version(key("ops", "keyed"), base)
				c.Idempotency, c.RequestHash, c.Stored.PatchID = fmt.Sprint("k", base), "h", fmt.Sprintf("patch_keyed_%d_%d", base, i)
				keyed[i], err = b.CommitWorkflow(t.Context(), c)
				return err
			}
			c := version(k, base)
			c.Stored.PatchID = fmt.Sprintf("patch_%d_%d", base, i)
			_, err = b.CommitWorkflow(t.Context(), c)
			return err
		}) {
			switch {
			case i < writers:
				require.NoError(t, err)
				require.Equal(t, keyed[0], keyed[i], "one answer for each key")
			case err == nil:
				won++
			default:
				requireFault(t, agent.CodeConflict, "base_version", err)
			}
		}
		require.Equal(t, 1, won)
	}
	require.Equal(t, 6, b.count("workflow_versions"))
}

func TestCommitWorkflowRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	tests := map[string]struct {
		field  string
		change func(c *agent.WorkflowCommit)
	}{
		"no tenant":     {"tenant", func(c *agent.WorkflowCommit) { c.Stored.Tenant = "" }},
		"no owner":      {"workflow_owner", func(c *agent.WorkflowCommit) { c.Stored.Owner = "" }},
		"no tag":        {"workflow_tag", func(c *agent.WorkflowCommit) { c.Stored.Tag = "" }},
		"a NUL":         {"workflow_tag", func(c *agent.WorkflowCommit) { c.Stored.Tag = "a\x00" }},
		"no patch":      {"patch_id", func(c *agent.WorkflowCommit) { c.Stored.PatchID = "" }},
		"no definition": {"definition", func(c *agent.WorkflowCommit) { c.Stored.Definition = nil }},
		"no JSON":       {"definition", func(c *agent.WorkflowCommit) { c.Stored.Definition = json.RawMessage(`{`) }},
		"large": {"definition", func(c *agent.WorkflowCommit) {
			c.Stored.Definition = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		}},
		"operations":      {"operations", func(c *agent.WorkflowCommit) { c.Operations = json.RawMessage(`[`) }},
		"many operations": {"operations", func(c *agent.WorkflowCommit) { c.Operations = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) }},
		"description":     {"description", func(c *agent.WorkflowCommit) { c.Description = strings.Repeat("x", 4<<10) }},
		"base":            {"base_version", func(c *agent.WorkflowCommit) { c.Base = -1 }},
		"long key":        {"idempotency_key", func(c *agent.WorkflowCommit) { c.Idempotency = strings.Repeat("x", 4<<10) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := version(key("ops", "main"), 0)
			test.change(&c)
			_, err := b.CommitWorkflow(t.Context(), c)
			requireFault(t, agent.CodeInvalid, test.field, err)
		})
	}
	require.Zero(t, b.count("workflow_definitions"))
}

func TestWorkflowPatches(t *testing.T) {
	b := newBench(t, postgres.Config{})
	k := key("ops", "main")
	_, err := b.WorkflowPatches(t.Context(), k, agent.Page{})
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)
	for base := range int64(5) {
		c := version(k, base)
		c.Stored.Deleted = base == 4
		if base == 0 {
			c.Operations, c.Revert = nil, ""
		}
		b.store(c)
	}
	b.store(version(key("bob", "main"), 0))
	var numbers []int64
	page := agent.WorkflowPatchPage{}
	for n := 0; n == 0 || page.Next != ""; n++ {
		require.Less(t, n, 4)
		page, err = b.WorkflowPatches(t.Context(), k, agent.Page{Size: 2, Token: page.Next})
		require.NoError(t, err)
		for _, p := range page.Patches {
			numbers = append(numbers, p.Version)
			require.Equal(t, p.Version-1, p.BaseVersion)
			one, err := b.WorkflowPatch(t.Context(), tenant, p.PatchID)
			require.NoError(t, err)
			require.Equal(t, p, one)
		}
	}
	require.Equal(t, []int64{5, 4, 3, 2, 1}, numbers)
	first := page.Patches[0]
	require.Nil(t, first.Operations)
	require.Equal(t, "adds", first.Description)
	require.Equal(t, "ops", first.By)
	second, err := b.WorkflowPatch(t.Context(), tenant, "patch_acme_ops_main_2")
	require.NoError(t, err)
	require.Equal(t, version(k, 1).Operations, second.Operations, "to the byte")
	require.Equal(t, "patch_0", second.Revert)
	for who, id := range map[string]string{"evil": first.PatchID, tenant: "patch_nobody"} {
		_, err = b.WorkflowPatch(t.Context(), who, id)
		requireFault(t, agent.CodeNotFound, "patch_id", err)
	}
	_, err = b.WorkflowPatches(t.Context(), k, agent.Page{Token: "%"})
	requireFault(t, agent.CodeInvalid, "page_token", err)
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	for _, k := range []agent.WorkflowKey{key("ann", "b"), key("bob", "a"), key("ann", "a"), {Tenant: "zeta", Owner: "o", Tag: "0"}, key("ann", "gone")} {
		b.store(version(k, 0))
	}
	b.store(version(key("ann", "b"), 1))
	gone := version(key("ann", "gone"), 1)
	gone.Stored.Deleted = true
	b.store(gone)
	list := func(q agent.WorkflowQuery) (lines []string) {
		t.Helper()
		for {
			page, err := b.Workflows(t.Context(), q)
			require.NoError(t, err)
			for _, w := range page.Workflows {
				lines = append(lines, fmt.Sprintf("%s/%s/%s@%d", w.Tenant, w.Tag, w.Owner, w.Version))
				require.NotEmpty(t, w.Definition)
			}
			if q.Token = page.Next; q.Token == "" {
				return lines
			}
			require.LessOrEqual(t, len(page.Workflows), max(q.Size, 1))
		}
	}
	for _, size := range []int{0, 1, 2, 3} {
		q := agent.WorkflowQuery{Tenant: tenant, Page: agent.Page{Size: size}}
		require.Equal(t, []string{"acme/a/ann@1", "acme/a/bob@1", "acme/b/ann@2"}, list(q))
		q.Owner = "ann"
		require.Equal(t, []string{"acme/a/ann@1", "acme/b/ann@2"}, list(q))
		q.Tag = "b"
		require.Equal(t, []string{"acme/b/ann@2"}, list(q))
		q.Tenant, q.Owner, q.Tag = "*", "", ""
		require.Equal(t, []string{"acme/a/ann@1", "acme/a/bob@1", "acme/b/ann@2", "zeta/0/o@1"}, list(q))
		q.Tenant = "evil"
		require.Empty(t, list(q))
	}
	for _, token := range []string{"%", "e30", "eyJ0IjoiYSIsImciOiJhXHUwMDAwIiwibyI6IiJ9", strings.Repeat("A", 1<<20)} {
		_, err := b.Workflows(t.Context(), agent.WorkflowQuery{Tenant: tenant, Page: agent.Page{Token: token}})
		requireFault(t, agent.CodeInvalid, "page_token", err)
	}
	large := make([]string, 12)
	for i := range large {
		c := version(agent.WorkflowKey{Tenant: "large", Owner: "o", Tag: fmt.Sprintf("t%02d", i)}, 0)
		c.Stored.Definition = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
		b.store(c)
		large[i] = fmt.Sprintf("large/t%02d/o@1", i)
	}
	page, err := b.Workflows(t.Context(), agent.WorkflowQuery{Tenant: "large"})
	require.NoError(t, err)
	require.Len(t, page.Workflows, 8, "of 8 MiB")
	require.NotEmpty(t, page.Next)
	require.Equal(t, large, list(agent.WorkflowQuery{Tenant: "large", Page: agent.Page{Size: 100}}))
}

// Reading the newest version only uses indexes, however many definitions and versions there are.
func TestWorkflowReadsOneRow(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`
		INSERT INTO workflow_definitions SELECT 'acme', 't' || i, 'ops', 20, false FROM generate_series(1, 1000) i;
		INSERT INTO workflow_versions SELECT 'acme', 't' || i % 1000 + 1, 'ops', i / 1000 + 1, '{}', '', false, 'p' || i, NULL, '', '', now(), ''
		FROM generate_series(0, 19999) i; ANALYZE`)
	plan := b.explain(postgres.ReadWorkflow, tenant, "t7", "", 0)
	require.NotContains(t, plan, "Seq Scan", plan)
	require.Contains(t, plan, "workflow_definitions_pkey", plan)
	require.Contains(t, plan, "workflow_versions_pkey", plan)
}

func (b *bench) explain(sql string, args ...any) string {
	b.t.Helper()
	return strings.Join(column[string](b, `EXPLAIN (ANALYZE, FORMAT TEXT) `+sql, args...), "\n")
}
