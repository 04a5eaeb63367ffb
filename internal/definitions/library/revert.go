package library

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// Revert reverts the patch r.Revert in the newest version. Its error is [agent.CodeConflict] if the same elements were changed since, or if the
// definition would be invalid without the patch. Tag and Owner of r may be empty. Operations of r must be empty.
func (l *Library) Revert(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if len(r.Operations) > 0 {
		return agent.WorkflowPatchResult{}, agent.Invalid("operations", "are made of the patch that is taken back: give revert_of alone")
	}
	tenant := cmp.Or(r.Tenant, agent.DefaultTenant)
	patch, err := l.Patch(ctx, tenant, r.Revert)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	key := patch.WorkflowKey
	if (r.Tag != "" && r.Tag != key.Tag) || (r.Owner != "" && r.Owner != key.Owner) {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeNotFound, "patch_id", "is a patch of workflow %s of owner %s", key.Tag, key.Owner)
	}
	before, after, err := l.versionsAround(ctx, &patch)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		operation: "revert", key: key, description: r.Description, base: r.BaseVersion, author: r.By, idempotencyKey: r.Idempotency, dryRun: r.DryRun,
		revertedPatch: patch.PatchID,
		build: func(current *currentVersion) (nextVersion, error) {
			return revertPatch(current, before, after)
		},
	})
}

// versionsAround returns the versions before and after a patch.
func (l *Library) versionsAround(ctx context.Context, p *agent.WorkflowPatch) (before, after *agent.StoredWorkflow, err error) {
	if p.BaseVersion < 1 {
		return nil, nil, agent.FieldErrorf(agent.CodeConflict, "patch_id", "made the first version: delete the workflow to take that back")
	}
	versions := make([]agent.StoredWorkflow, 2)
	for i, v := range []int64{p.BaseVersion, p.Version} {
		if versions[i], err = l.store.Workflow(ctx, p.WorkflowKey, v); err != nil {
			return nil, nil, fmt.Errorf("read version %d of workflow %s: %w", v, p.Tag, err)
		}
	}
	if versions[0].Deleted {
		return nil, nil, agent.FieldErrorf(agent.CodeConflict, "patch_id", "made the workflow again: delete it to take that back")
	}
	return &versions[0], &versions[1], nil
}

// revertPatch returns the current version without the change from before to after.
func revertPatch(current *currentVersion, before, after *agent.StoredWorkflow) (nextVersion, error) {
	switch {
	case after.Deleted && current.version == after.Version:
		return nextVersion{definition: before.Definition}, nil
	case after.Deleted:
		return nextVersion{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "deleted the workflow, which was made again since")
	case current.stored == nil:
		return nextVersion{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "is of a workflow that was deleted since")
	}
	operations, err := undo(before.Definition, after.Definition, current.stored.Definition)
	if err != nil {
		return nextVersion{}, fmt.Errorf("take back version %d in version %d: %w", after.Version, current.version, err)
	}
	reverted, err := Apply(current.stored.Definition, operations)
	if err != nil {
		return nextVersion{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "what came since needs it: %w", err)
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return nextVersion{}, agent.Errorf(agent.CodeInternal, "take back patch", "%w", err)
	}
	return nextVersion{definition: reverted, operations: raw}, nil
}
