package definitionstest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

// LibraryStore is a [library.Store] for tests. Its zero value is empty and ready.
type LibraryStore struct {
	mu       sync.Mutex
	versions map[agent.WorkflowKey][]agent.StoredWorkflow
	patches  []agent.WorkflowPatch
	requests map[[2]string]request // by tenant and idempotency key

	// BeforeCommit, if set, runs at the beginning of CommitWorkflow. It may make a competing commit.
	BeforeCommit func()
}

type request struct {
	result agent.WorkflowPatchResult
	hash   string
}

var _ library.Store = (*LibraryStore)(nil)

// Workflow implements [library.Store].
func (m *LibraryStore) Workflow(_ context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, err := m.withOwner(key)
	if err != nil {
		return agent.StoredWorkflow{}, err
	}
	all := m.versions[key]
	switch n := int64(len(all)); {
	case n == 0, version == 0 && all[n-1].Deleted:
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
	case version == 0:
		return all[n-1], nil
	case version < 0 || version > n:
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "version", "workflow %q has no version %d", key.Tag, version)
	default:
		return all[version-1], nil
	}
}

// withOwner returns a key with the only owner of its tag, unless it names an owner.
func (m *LibraryStore) withOwner(key agent.WorkflowKey) (agent.WorkflowKey, error) {
	if key.Owner != "" {
		return key, nil
	}
	var owners []string
	for k, all := range m.versions {
		if k.Tenant == key.Tenant && k.Tag == key.Tag && !all[len(all)-1].Deleted {
			owners = append(owners, k.Owner)
		}
	}
	switch len(owners) {
	case 0:
		return key, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
	case 1:
		key.Owner = owners[0]
		return key, nil
	default:
		return key, agent.FieldErrorf(agent.CodeConflict, "workflow_owner", "%d owners have a workflow %q", len(owners), key.Tag)
	}
}

// NewestVersion implements [library.Store].
func (m *LibraryStore) NewestVersion(_ context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.versions[key]
	if len(all) == 0 {
		return 0, false, nil
	}
	return int64(len(all)), all[len(all)-1].Deleted, nil
}

// Workflows implements [library.Store].
func (m *LibraryStore) Workflows(_ context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []agent.StoredWorkflow
	for key, all := range m.versions {
		newest := all[len(all)-1]
		if key.Tenant == q.Tenant && (q.Owner == "" || q.Owner == key.Owner) && (q.Tag == "" || q.Tag == key.Tag) && !newest.Deleted {
			found = append(found, newest)
		}
	}
	slices.SortFunc(found, func(a, b agent.StoredWorkflow) int {
		return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Owner, b.Owner))
	})
	part, next, err := pageOf(found, q.Page)
	return agent.WorkflowPage{Workflows: part, Next: next}, err
}

// CommitWorkflow implements [library.Store].
func (m *LibraryStore) CommitWorkflow(_ context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error) {
	if m.BeforeCommit != nil {
		m.BeforeCommit()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := [2]string{c.Stored.Tenant, c.Idempotency}
	if before, known := m.requests[id]; known && c.Idempotency != "" {
		if before.hash != c.RequestHash {
			return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was given with another request")
		}
		return m.versions[before.result.WorkflowKey][before.result.Version-1], nil
	}
	w := c.Stored
	all := m.versions[w.WorkflowKey]
	if n := int64(len(all)); n != c.Base {
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeConflict, "base_version", "is %d, and the newest version is %d", c.Base, n)
	}
	if m.versions == nil {
		m.versions = map[agent.WorkflowKey][]agent.StoredWorkflow{}
	}
	m.versions[w.WorkflowKey] = append(all, w)
	r := agent.WorkflowPatchResult{WorkflowKey: w.WorkflowKey, PatchID: w.PatchID, Version: w.Version, BaseVersion: c.Base, Hash: w.Hash}
	m.patches = append(m.patches, agent.WorkflowPatch{
		WorkflowPatchResult: r, Operations: c.Operations, Description: c.Description, Revert: c.Revert, At: w.UpdatedAt, By: w.UpdatedBy,
	})
	m.remember(id, request{result: r, hash: c.RequestHash})
	return w, nil
}

func (m *LibraryStore) remember(id [2]string, r request) {
	if id[1] == "" {
		return
	}
	if m.requests == nil {
		m.requests = map[[2]string]request{}
	}
	if _, known := m.requests[id]; !known {
		m.requests[id] = r
	}
}

// RememberUnchanged implements [library.Store].
func (m *LibraryStore) RememberUnchanged(_ context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember([2]string{r.Tenant, idempotency}, request{result: r, hash: requestHash})
	return nil
}

// PatchedBefore implements [library.Store].
func (m *LibraryStore) PatchedBefore(
	_ context.Context, tenant, idempotency string,
) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.requests[[2]string{tenant, idempotency}]
	return before.result, before.hash, ok, nil
}

// WorkflowPatches implements [library.Store].
func (m *LibraryStore) WorkflowPatches(_ context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, err := m.withOwner(key)
	if err != nil {
		return agent.WorkflowPatchPage{}, err
	}
	var found []agent.WorkflowPatch
	for i := range m.patches {
		if m.patches[i].WorkflowKey == key {
			found = append(found, m.patches[i])
		}
	}
	if len(found) == 0 {
		return agent.WorkflowPatchPage{}, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
	}
	slices.Reverse(found)
	part, next, err := pageOf(found, page)
	return agent.WorkflowPatchPage{Patches: part, Next: next}, err
}

// WorkflowPatch implements [library.Store].
func (m *LibraryStore) WorkflowPatch(_ context.Context, tenant, patchID string) (agent.WorkflowPatch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.patches {
		if m.patches[i].PatchID == patchID && m.patches[i].Tenant == tenant {
			return m.patches[i], nil
		}
	}
	return agent.WorkflowPatch{}, agent.FieldErrorf(agent.CodeNotFound, "patch_id", "there is no patch %.100q", patchID)
}

// pageOf returns a page of a list. The token of a page is its index.
func pageOf[T any](all []T, page agent.Page) (part []T, next string, err error) {
	const defaultSize = 100
	from := 0
	if page.Token != "" {
		if from, err = strconv.Atoi(page.Token); err != nil || from < 0 || from > len(all) {
			return nil, "", agent.Invalid("page_token", "is none of ours")
		}
	}
	to := min(from+cmp.Or(page.Size, defaultSize), len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next, nil
}
