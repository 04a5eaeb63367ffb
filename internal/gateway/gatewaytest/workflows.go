package gatewaytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// workflowStore numbers the patches of a definition: patch_<tag>_<version>.
type workflowStore struct{ definitionstest.LibraryStore }

// CommitWorkflow implements [library.Store].
func (s *workflowStore) CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error) {
	c.Stored.PatchID = fmt.Sprintf("patch_%s_%d", c.Stored.Tag, c.Stored.Version)
	return s.LibraryStore.CommitWorkflow(ctx, c)
}

func newLibrary() *library.Library {
	l, err := library.New(library.Config{Store: &workflowStore{}, Now: Epoch})
	if err != nil {
		panic(err) // cannot happen: there is a store
	}
	return l
}

// Workflow implements [gateway.Workflows].
func (rt *Runtime) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	return rt.library.Workflow(ctx, key, version)
}

// Workflows implements [gateway.Workflows].
func (rt *Runtime) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	return rt.library.ListWorkflows(ctx, q)
}

// WorkflowPatches implements [gateway.Workflows].
func (rt *Runtime) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	return rt.library.Patches(ctx, key, page)
}

// PutWorkflow implements [gateway.Workflows].
func (rt *Runtime) PutWorkflow(ctx context.Context, p gateway.WorkflowPut) (agent.WorkflowPatchResult, error) {
	return rt.library.Put(ctx, library.PutRequest(p))
}

// PatchWorkflow implements [gateway.Workflows].
func (rt *Runtime) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return rt.library.PatchWorkflow(ctx, r)
}

// RevertWorkflow implements [gateway.Workflows].
func (rt *Runtime) RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return rt.library.Revert(ctx, r)
}

// DeleteWorkflow implements [gateway.Workflows].
func (rt *Runtime) DeleteWorkflow(ctx context.Context, d gateway.WorkflowDelete) (agent.WorkflowPatchResult, error) {
	return rt.library.Delete(ctx, library.DeleteRequest(d))
}

// StartRun implements [gateway.WorkflowRuns]. The run ids are run-1, run-2 and so on. A run runs until EndRun or CancelRun ends it.
func (rt *Runtime) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (gateway.RunReceipt, error) {
	key := agent.WorkflowKey{Tenant: r.Context.Tenant, Owner: r.Owner, Tag: r.Tag}
	stored, err := rt.Workflow(ctx, key, r.Version)
	if err != nil {
		return gateway.RunReceipt{}, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	id := cmp.Or(r.RunID, rt.runIDs[idempotency], fmt.Sprintf("run-%d", len(rt.runs)+1))
	receipt := gateway.RunReceipt{
		RunID: id, WorkflowID: strings.Join([]string{"workflow", key.Tenant, stored.Owner, key.Tag, id}, "/"), Owner: stored.Owner, Tag: key.Tag,
	}
	if slices.ContainsFunc(rt.runs, func(r agent.Run) bool { return r.RunID == id }) {
		receipt.Joined = true
		return receipt, nil
	}
	if idempotency != "" {
		rt.runIDs[idempotency] = id
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
	page, next, err := pageOf(all, q.Page)
	return agent.RunPage{Runs: page, Next: next}, err
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
func (rt *Runtime) ChangeComposite(_ context.Context, tenant, nameOrID string, change agent.CompositeChange) (agent.Composite, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range rt.Promoted {
		c := &rt.Promoted[i]
		if c.Tenant != tenant || c.Name != nameOrID && c.ID != nameOrID {
			continue
		}
		if name := change.Name; name != nil {
			if slices.ContainsFunc(rt.Promoted, func(other agent.Composite) bool {
				return other.Tenant == tenant && other.ID != c.ID && other.Name == *name
			}) {
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
	return agent.Composite{}, agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %q", nameOrID)
}
