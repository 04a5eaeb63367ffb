package gatewaytest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// flow is one definition: its versions, with the change that made each.
type flow struct {
	versions []agent.StoredWorkflow
	patches  []agent.WorkflowPatch
}

func (f *flow) newest() *agent.StoredWorkflow { return &f.versions[len(f.versions)-1] }

func noWorkflow(key agent.WorkflowKey) error {
	return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
}

// flow finds a definition; rt.mu is held.
func (rt *Runtime) flow(key agent.WorkflowKey) (*flow, error) {
	var found []*flow
	for _, f := range rt.flows {
		w := f.newest()
		if w.Tenant == key.Tenant && w.Tag == key.Tag && (w.Owner == key.Owner || key.Owner == "" && !w.Deleted) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return nil, noWorkflow(key)
	case 1:
		return found[0], nil
	default:
		return nil, agent.FieldErrorf(agent.CodeConflict, "workflow_owner", "several owners have a workflow %q", key.Tag)
	}
}

// Workflow implements [gateway.Workflows].
func (rt *Runtime) Workflow(_ context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f, err := rt.flow(key)
	switch {
	case err != nil:
		return agent.StoredWorkflow{}, err
	case version == 0 && f.newest().Deleted:
		return agent.StoredWorkflow{}, noWorkflow(key)
	case version > int64(len(f.versions)):
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "version", "workflow %q has no version %d", key.Tag, version)
	}
	return f.versions[cmp.Or(version, int64(len(f.versions)))-1], nil
}

// Workflows implements [gateway.Workflows]; a token is the number of a page's first entry.
func (rt *Runtime) Workflows(_ context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var all []agent.StoredWorkflow
	for _, f := range rt.flows {
		w := *f.newest()
		if w.Tenant == q.Tenant && (q.Owner == "" || q.Owner == w.Owner) && (q.Tag == "" || q.Tag == w.Tag) && !w.Deleted {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b agent.StoredWorkflow) int {
		return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Owner, b.Owner))
	})
	part, next, err := pageOf(all, q.Page)
	return agent.WorkflowPage{Workflows: part, Next: next}, err
}

// WorkflowPatches implements [gateway.Workflows].
func (rt *Runtime) WorkflowPatches(_ context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f, err := rt.flow(key)
	if err != nil {
		return agent.WorkflowPatchPage{}, err
	}
	all := slices.Clone(f.patches)
	slices.Reverse(all)
	part, next, err := pageOf(all, page)
	return agent.WorkflowPatchPage{Patches: part, Next: next}, err
}

// PutWorkflow implements [gateway.Workflows]. Like the changes below it checks nothing but the base version.
func (rt *Runtime) PutWorkflow(_ context.Context, p gateway.WorkflowPut) (agent.WorkflowPatchResult, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	p.Owner = cmp.Or(p.Owner, agent.DefaultWorkflowOwner)
	f, err := rt.flow(p.WorkflowKey)
	if err != nil {
		f = nil
	}
	if p.OnlyNew && f != nil {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, "workflow_tag", "there is a workflow %q already", p.Tag)
	}
	return rt.change(f, p.WorkflowKey, p.Definition, agent.WorkflowPatchRequest{
		Description: p.Description, BaseVersion: p.BaseVersion, By: p.By, DryRun: p.DryRun, Idempotency: p.Idempotency,
	}, false)
}

// PatchWorkflow implements [gateway.Workflows]: only {"op":"replace","path":"/description"} does something, the rest makes a version alike.
func (rt *Runtime) PatchWorkflow(_ context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f, err := rt.flow(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(r.Operations, &operations); err != nil {
		return agent.WorkflowPatchResult{}, agent.Invalid("operations", "%w", err)
	}
	definition := map[string]json.RawMessage{}
	if err := json.Unmarshal(f.newest().Definition, &definition); err != nil {
		return agent.WorkflowPatchResult{}, agent.Invalid("definition", "%w", err)
	}
	for i, o := range operations {
		if o.Op == "remove" {
			return agent.WorkflowPatchResult{}, agent.Invalid(fmt.Sprintf("operations[%d].path", i), "there is nothing at %q", o.Path)
		}
		if o.Path == "/description" {
			definition["description"] = o.Value
		}
	}
	text, err := json.Marshal(definition)
	if err != nil {
		return agent.WorkflowPatchResult{}, agent.Invalid("operations", "%w", err)
	}
	return rt.change(f, r.WorkflowKey, text, r, false)
}

// RevertWorkflow implements [gateway.Workflows]: the definition becomes what it was before the patch.
func (rt *Runtime) RevertWorkflow(_ context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f, err := rt.flow(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	i := slices.IndexFunc(f.patches, func(p agent.WorkflowPatch) bool { return p.PatchID == r.Revert })
	if i < 1 {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeNotFound, "patch_id", "there is no patch %q", r.Revert)
	}
	return rt.change(f, r.WorkflowKey, f.versions[i-1].Definition, r, false)
}

// DeleteWorkflow implements [gateway.Workflows].
func (rt *Runtime) DeleteWorkflow(_ context.Context, d gateway.WorkflowDelete) (agent.WorkflowPatchResult, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f, err := rt.flow(d.WorkflowKey)
	if err == nil && f.newest().Deleted {
		err = noWorkflow(d.WorkflowKey)
	}
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return rt.change(f, d.WorkflowKey, f.newest().Definition, agent.WorkflowPatchRequest{
		Description: d.Description, BaseVersion: d.BaseVersion, By: d.By, Idempotency: d.Idempotency,
	}, true)
}

// change makes the next version; rt.mu is held.
func (rt *Runtime) change(
	f *flow, key agent.WorkflowKey, definition json.RawMessage, r agent.WorkflowPatchRequest, deleted bool,
) (agent.WorkflowPatchResult, error) {
	if known, ok := rt.changes[r.Idempotency]; ok && r.Idempotency != "" {
		return known, nil
	}
	base := int64(0)
	if f != nil {
		base, key = f.newest().Version, f.newest().WorkflowKey
	}
	if r.BaseVersion != 0 && r.BaseVersion != base {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, "base_version", "the newest version is %d, not %d", base, r.BaseVersion)
	}
	result := agent.WorkflowPatchResult{
		WorkflowKey: key, PatchID: fmt.Sprintf("patch_%s_%d", key.Tag, base+1), Version: base + 1, BaseVersion: base,
		Hash: fmt.Sprintf("sha256:%x", sha256.Sum256(definition)),
	}
	if r.DryRun {
		return result, nil
	}
	if f == nil {
		f = &flow{}
		rt.flows = append(rt.flows, f)
	}
	f.versions = append(f.versions, agent.StoredWorkflow{
		WorkflowKey: key, Version: result.Version, Definition: definition, Hash: result.Hash, PatchID: result.PatchID, Deleted: deleted,
		UpdatedAt: Epoch(), UpdatedBy: r.By,
	})
	f.patches = append(f.patches, agent.WorkflowPatch{
		WorkflowPatchResult: result, Operations: r.Operations, Description: r.Description, Revert: r.Revert, At: Epoch(), By: r.By,
	})
	rt.changes[r.Idempotency] = result
	return result, nil
}

// StartRun implements [gateway.WorkflowRuns]: run ids count from run-1, and a run runs until the test ends it.
func (rt *Runtime) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (gateway.RunReceipt, error) {
	key := agent.WorkflowKey{Tenant: r.Context.Tenant, Owner: r.Owner, Tag: r.Tag}
	stored, err := rt.Workflow(ctx, key, r.Version)
	if err != nil {
		return gateway.RunReceipt{}, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	id := cmp.Or(r.RunID, rt.runKeys[idempotency], fmt.Sprintf("run-%d", len(rt.runs)+1))
	receipt := gateway.RunReceipt{
		RunID: id, WorkflowID: strings.Join([]string{"workflow", key.Tenant, stored.Owner, key.Tag, id}, "/"), Owner: stored.Owner, Tag: key.Tag,
	}
	if slices.ContainsFunc(rt.runs, func(r agent.Run) bool { return r.RunID == id }) {
		receipt.Joined = true
		return receipt, nil
	}
	if idempotency != "" {
		rt.runKeys[idempotency] = id
	}
	rt.runs = append(rt.runs, agent.Run{
		RunID: id, WorkflowID: receipt.WorkflowID, WorkflowKey: stored.WorkflowKey, Version: stored.Version, Status: agent.RunRunning,
		Input: r.Input, UserID: r.Context.UserID, StartedAt: Epoch(),
	})
	if rt.OnRun != nil {
		go rt.OnRun(rt, id)
	}
	return receipt, nil
}

// EndRun ends a run.
func (rt *Runtime) EndRun(id string, status agent.RunStatus, failure *agent.Failure, steps ...agent.RunStep) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range rt.runs {
		if rt.runs[i].RunID == id {
			rt.runs[i].Status, rt.runs[i].Error, rt.runs[i].Steps, rt.runs[i].FinishedAt = status, failure, steps, new(Epoch())
		}
	}
}

// Run implements [gateway.WorkflowRuns].
func (rt *Runtime) Run(_ context.Context, tenant, id string) (agent.Run, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, r := range rt.runs {
		if r.RunID == id && (tenant == agent.AnyTenant || r.Tenant == tenant) {
			return r, nil
		}
	}
	return agent.Run{}, agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", id)
}

// ListRuns implements [gateway.WorkflowRuns].
func (rt *Runtime) ListRuns(_ context.Context, q agent.RunQuery) (agent.RunPage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var all []agent.Run
	for _, r := range slices.Backward(rt.runs) {
		if r.Tenant == q.Tenant && (q.Owner == "" || q.Owner == r.Owner) && (q.Tag == "" || q.Tag == r.Tag) && (q.Status == "" || q.Status == r.Status) {
			r.Input, r.Steps = nil, nil
			all = append(all, r)
		}
	}
	part, next, err := pageOf(all, q.Page)
	return agent.RunPage{Runs: part, Next: next}, err
}

// CancelRun implements [gateway.WorkflowRuns].
func (rt *Runtime) CancelRun(ctx context.Context, tenant, id string, _ agent.CancelRequest) error {
	r, err := rt.Run(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case r.Status != agent.RunRunning:
		return agent.Errorf(agent.CodeConflict, "", "run %s is over", id)
	}
	rt.EndRun(id, agent.RunCancelled, nil)
	return nil
}

// Composites implements [gateway.Composites].
func (rt *Runtime) Composites(_ context.Context, tenant string) ([]agent.Composite, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var found []agent.Composite
	for _, c := range rt.Promoted {
		if c.Tenant == tenant {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b agent.Composite) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// ChangeComposite implements [gateway.Composites].
func (rt *Runtime) ChangeComposite(_ context.Context, tenant, which string, change agent.CompositeChange) (agent.Composite, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range rt.Promoted {
		c := &rt.Promoted[i]
		if c.Tenant != tenant || c.Name != which && c.ID != which {
			continue
		}
		if name := change.Name; name != nil {
			if slices.ContainsFunc(rt.Promoted, func(o agent.Composite) bool { return o.Tenant == tenant && o.ID != c.ID && o.Name == *name }) {
				return agent.Composite{}, agent.FieldErrorf(agent.CodeConflict, "name", "%q is taken", *name)
			}
			c.Name = *name
		}
		if change.Description != nil {
			c.Description = *change.Description
		}
		if change.Enabled != nil {
			c.Enabled = *change.Enabled
		}
		return *c, nil
	}
	return agent.Composite{}, agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %q", which)
}
