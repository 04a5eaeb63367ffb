package library

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store stores the versions of definitions. The versions of a key are numbered from 1 without gaps and never change. A deletion adds a version that
// is marked as deleted; later versions continue the numbering. Every write is atomic. definitionstest.ExerciseLibraryStore tests implementations.
type Store interface {
	// Workflow returns a version, 0 for the newest. An empty Owner means the only owner of a definition of the tag that is not deleted. Its error is
	// [agent.CodeNotFound] with Field "workflow_tag" if there is none or the newest version is deleted, with Field "version" if the key does not
	// have the version; [agent.CodeConflict] with Field "workflow_owner" if Owner is empty and there are several. Older versions of a deleted
	// definition stay available, because runs keep their version.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// NewestVersion returns the newest version of a key, and whether it is deleted; 0 if there never was one. Owner must not be empty.
	NewestVersion(ctx context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error)
	// Workflows returns the newest versions that are not deleted, sorted by tag and owner.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// CommitWorkflow stores the next version and returns it. Its error is [agent.CodeConflict] with Field "base_version" if the newest version
	// is not Base. If the tenant has used the Idempotency key before, it stores nothing and returns the version of that request, or
	// [agent.CodeConflict] with Field "idempotency_key" if RequestHash differs. The key is checked before Base.
	CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error)
	// RememberUnchanged stores the result of a request that changed nothing under its idempotency key. The first result is kept.
	RememberUnchanged(ctx context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error
	// PatchedBefore returns the result and the hash of the request under an idempotency key; ok is false if the key is new. Keys are unique
	// per tenant, not per definition.
	PatchedBefore(ctx context.Context, tenant, idempotency string) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error)
	// WorkflowPatches returns the changes of a definition, newest first, even if it is deleted. An empty Owner is resolved as in Workflow.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// WorkflowPatch returns one change. Its error is [agent.CodeNotFound] with Field "patch_id" if the tenant has no such change.
	WorkflowPatch(ctx context.Context, tenant, patchID string) (agent.WorkflowPatch, error)
}

// Schedules manages the schedules that start runs of a definition.
type Schedules interface {
	// Check is called before a version is stored. Its error is [agent.CodeInvalid] if the schedules of the version are invalid; then it has changed
	// nothing. Any other error means that the schedules could not be checked.
	Check(ctx context.Context, w agent.StoredWorkflow) error
	// Sync updates the schedules to the newest version. It may be called again with the same version, with an older version, or with a version that was
	// checked but not stored.
	Sync(ctx context.Context, w agent.StoredWorkflow) error
}
