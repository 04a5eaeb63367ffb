package library

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps definitions, version by version. Versions of a key are contiguous from 1 and never changed; deleting makes a version that
// says so, and what is made afterwards continues the numbers. Every write is atomic. The suite is librarytest.Exercise.
type Store interface {
	// Workflow returns a version, 0 for the newest. Owner "" is the one owner of that tag that has not deleted it. [agent.CodeNotFound] with
	// Field "workflow_tag" when there is none, or the newest is asked for and says deleted, with Field "version" when the key has no such
	// version; [agent.CodeConflict] with Field "workflow_owner" when Owner is empty and there are several. A version that is named is there
	// for ever, also when the newest says deleted: runs keep theirs.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// NewestVersion says which version of a key, its Owner given, is the newest, and whether it says deleted; 0 when there never was one.
	NewestVersion(ctx context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error)
	// Workflows lists the newest versions by tag and owner, without those that say deleted.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// CommitWorkflow stores the next version and answers it. [agent.CodeConflict] with Field "base_version" when the newest is not Base. With
	// an Idempotency that the tenant has used: what was answered then, and nothing is stored; when RequestHash is another one,
	// [agent.CodeConflict] with Field "idempotency_key". The key is looked at before the base.
	CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error)
	// RememberUnchanged keeps what a request that changed nothing was answered, so that it is answered the same when it comes again; the
	// first stands.
	RememberUnchanged(ctx context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error
	// PatchedBefore returns what a request under an idempotency key of the tenant was answered, and the hash of that request; ok is false
	// when the key is new. The scope of a key is the tenant, not a definition.
	PatchedBefore(ctx context.Context, tenant, idempotency string) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error)
	// WorkflowPatches lists the changes of a definition, newest first, also of one that is deleted. Owner as in Workflow.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// WorkflowPatch returns one change; [agent.CodeNotFound] with Field "patch_id", also for one of another tenant.
	WorkflowPatch(ctx context.Context, tenant, patchID string) (agent.WorkflowPatch, error)
}

// Schedules makes what starts runs by itself be as a definition says.
type Schedules interface {
	// Check is given a version before it is stored. [agent.CodeInvalid] if its schedules cannot be made, and nothing has happened then; any other
	// error if that is not known.
	Check(ctx context.Context, w agent.StoredWorkflow) error
	// Sync is given the newest version. It may be called again with the same one, with an older one by a caller that was slow, or with one that
	// was checked and then not stored.
	Sync(ctx context.Context, w agent.StoredWorkflow) error
}
