package inbox

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Definitions stores the definitions of workflows. library.Library implements it.
type Definitions interface {
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	Patches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	Put(ctx context.Context, r library.PutRequest) (agent.WorkflowPatchResult, error)
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	Revert(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	Delete(ctx context.Context, r library.DeleteRequest) (agent.WorkflowPatchResult, error)
}

var _ Definitions = (*library.Library)(nil)

// Workflow returns a version of a definition.
func (b *Inbox) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	return b.Definitions.Workflow(ctx, key, version)
}

// Workflows lists the newest versions.
func (b *Inbox) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	return b.Definitions.ListWorkflows(ctx, q)
}

// WorkflowPatches lists the changes of a definition.
func (b *Inbox) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	return b.Definitions.Patches(ctx, key, page)
}

// PutWorkflow creates or replaces a definition.
func (b *Inbox) PutWorkflow(ctx context.Context, p gateway.WorkflowPut) (agent.WorkflowPatchResult, error) {
	return b.Definitions.Put(ctx, library.PutRequest(p))
}

// PatchWorkflow changes a definition.
func (b *Inbox) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return b.Definitions.PatchWorkflow(ctx, r)
}

// RevertWorkflow reverts a patch.
func (b *Inbox) RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return b.Definitions.Revert(ctx, r)
}

// DeleteWorkflow deletes a definition.
func (b *Inbox) DeleteWorkflow(ctx context.Context, r gateway.WorkflowDelete) (agent.WorkflowPatchResult, error) {
	return b.Definitions.Delete(ctx, library.DeleteRequest(r))
}
