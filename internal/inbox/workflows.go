package inbox

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/flow/library"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Definitions keeps the definitions of workflows; library.Library does.
type Definitions interface {
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	Patches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	Put(ctx context.Context, r library.PutRequest) (agent.WorkflowPatchResult, error)
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	Revert(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	Delete(ctx context.Context, r library.DeleteRequest) (agent.WorkflowPatchResult, error)
}

// CompositeStore keeps the tools that were made of repeated pipelines.
type CompositeStore interface {
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	ChangeComposite(ctx context.Context, tenant, which string, c agent.CompositeChange) (agent.Composite, error)
}

var _ Definitions = (*library.Library)(nil)

// definitions are those that are configured.
func (b *Inbox) definitions() (Definitions, error) {
	if b.Definitions == nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "this server keeps no workflow definitions")
	}
	return b.Definitions, nil
}

// Workflow returns a version of a definition.
func (b *Inbox) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.StoredWorkflow{}, err
	}
	return d.Workflow(ctx, key, version)
}

// Workflows lists the newest versions.
func (b *Inbox) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPage{}, err
	}
	return d.ListWorkflows(ctx, q)
}

// WorkflowPatches lists the changes of a definition.
func (b *Inbox) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPatchPage{}, err
	}
	return d.Patches(ctx, key, page)
}

// PutWorkflow makes a definition be what it says.
func (b *Inbox) PutWorkflow(ctx context.Context, p gateway.WorkflowPut) (agent.WorkflowPatchResult, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return d.Put(ctx, library.PutRequest(p))
}

// PatchWorkflow changes a definition.
func (b *Inbox) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return d.PatchWorkflow(ctx, r)
}

// RevertWorkflow takes back what a patch did.
func (b *Inbox) RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return d.Revert(ctx, r)
}

// DeleteWorkflow takes a definition out of use.
func (b *Inbox) DeleteWorkflow(ctx context.Context, r gateway.WorkflowDelete) (agent.WorkflowPatchResult, error) {
	d, err := b.definitions()
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return d.Delete(ctx, library.DeleteRequest(r))
}

// Composites lists the tools that were made of repeated pipelines.
func (b *Inbox) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	return b.Store.Composites(ctx, tenant)
}

// ChangeComposite renames, describes or switches one.
func (b *Inbox) ChangeComposite(ctx context.Context, tenant, which string, c agent.CompositeChange) (agent.Composite, error) {
	return b.Store.ChangeComposite(ctx, tenant, which, c)
}
