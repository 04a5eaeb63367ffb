package library

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps the versions of definitions. The versions of a key are numbered from 1 without gaps and never change. Deleting adds a version that is
// marked as deleted; later versions continue the numbers. Every write is atomic. The conformance suite is definitionstest.ExerciseLibraryStore.
type Store interface {
	// Workflow returns a version, 0 for the newest. Owner "" means the only owner of the tag that has not deleted it. Its error is
	// [agent.CodeNotFound] with Field "workflow_tag" if there is none or the newest is deleted, with Field "version" if the key has no such
	// version; [agent.CodeConflict] with Field "workflow_owner" if Owner is empty and there are several. An older version stays available after
	// the definition is deleted: runs keep theirs.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// NewestVersion returns the newest version of a key with an Owner, and whether it is deleted; 0 if there never was one.
	NewestVersion(ctx context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error)
	// Workflows returns the newest versions that are not deleted, sorted by tag and owner.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// CommitWorkflow stores the next version and returns it. Its error is [agent.CodeConflict] with Field "base_version" if the newest is not
	// Base. If the tenant has used the Idempotency before, it stores nothing and returns the version of then, or [agent.CodeConflict] with Field
	// "idempotency_key" if RequestHash differs. The key is checked before the base.
	CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error)
	// RememberUnchanged stores the result of a request that changed nothing, for when it is repeated. The first result is kept.
	RememberUnchanged(ctx context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error
	// PatchedBefore returns the result and the hash of the request under an idempotency key; ok is false if the key is new. The scope of a key is
	// the tenant, not a definition.
	PatchedBefore(ctx context.Context, tenant, idempotency string) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error)
	// WorkflowPatches returns the changes of a definition, newest first, also of a deleted one. Owner is as in Workflow.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// WorkflowPatch returns one change. Its error is [agent.CodeNotFound] with Field "patch_id", also if the change is of another tenant.
	WorkflowPatch(ctx context.Context, tenant, patchID string) (agent.WorkflowPatch, error)
}

// Schedules creates, updates and deletes the schedules that start runs of a definition.
type Schedules interface {
	// Check is called with a version before it is stored. Its error is [agent.CodeInvalid] if the schedules of the version are invalid, and then it
	// has changed nothing; any other error if that is unknown.
	Check(ctx context.Context, w agent.StoredWorkflow) error
	// Sync makes the schedules follow the newest version. It may be called again with the same version, with an older one by a slow caller, or with
	// one that was checked but not stored.
	Sync(ctx context.Context, w agent.StoredWorkflow) error
}
