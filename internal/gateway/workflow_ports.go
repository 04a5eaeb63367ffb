package gateway

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Workflows is the part of a [Runtime] that keeps the definitions of workflows and runs them. Where a key's Owner is empty, the one owner
// of the tag is meant: [agent.CodeConflict] with Field "workflow_owner" when there are several. [agent.CodeNotFound] with Field
// "workflow_tag" for a definition that is unknown, deleted or another tenant's, with Field "version" or "patch_id" for what it never had.
type Workflows interface {
	// Workflow returns a version of a definition, 0 for the newest.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists the newest versions by tag and owner.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// WorkflowPatches lists the changes of a definition, newest first, also of one that is deleted.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// PutWorkflow makes a definition be what it says. [agent.CodeConflict] with Field "base_version" when another version is the newest, here
	// as below; with Field "workflow_tag" when p.OnlyNew and there is one; with Field "idempotency_key" when the key was used for another request.
	PutWorkflow(ctx context.Context, p WorkflowPut) (agent.WorkflowPatchResult, error)
	// PatchWorkflow changes a definition; what is wrong names the operation or the place.
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// RevertWorkflow takes back what the patch r.Revert did. [agent.CodeConflict] when something that it touched has changed since.
	RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// DeleteWorkflow takes a definition out of use. Its history stays, and its runs go on.
	DeleteWorkflow(ctx context.Context, d WorkflowDelete) (agent.WorkflowPatchResult, error)
}

// WorkflowPut is a whole definition. Owner empty means [agent.DefaultWorkflowOwner].
type WorkflowPut struct {
	agent.WorkflowKey

	Definition  json.RawMessage
	Description string
	BaseVersion int64 // the version that was looked at; 0: any
	By          string
	Idempotency string
	DryRun      bool
	OnlyNew     bool // conflict when there is a definition that is not deleted
}

// WorkflowDelete asks for the end of a definition.
type WorkflowDelete struct {
	agent.WorkflowKey

	Description string
	BaseVersion int64
	By          string
	Idempotency string
}

// WorkflowRuns is the part of a [Runtime] that runs definitions. [agent.CodeNotFound] with Field "run_id" for a run that is unknown or
// another tenant's.
type WorkflowRuns interface {
	// StartRun starts a run of a definition, the tenant being that of r.Context. The same run id, or idempotency key, is one run, however
	// often it is started; for another definition it is [agent.CodeConflict] with Field "run_id".
	StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (RunReceipt, error)
	// Run returns a run with its steps. tenant may be [AnyTenant].
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	// ListRuns lists runs, newest first, without their inputs and steps.
	ListRuns(ctx context.Context, q agent.RunQuery) (agent.RunPage, error)
	// CancelRun asks a run to stop. [agent.CodeConflict] for one that is over. tenant may be [AnyTenant].
	CancelRun(ctx context.Context, tenant, runID string, c agent.CancelRequest) error
}

// RunReceipt says which run was started.
type RunReceipt struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"` // Temporal's
	Owner      string `json:"workflow_owner"`
	Tag        string `json:"workflow_tag"`
	Joined     bool   `json:"joined,omitempty"` // it had been started before
}

// Composites is the part of a [Runtime] that keeps the tools that were made of repeated pipelines.
type Composites interface {
	// Composites lists those of a tenant by name, disabled ones included.
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	// ChangeComposite changes the one of a name or an id. [agent.CodeNotFound] with Field "composite", [agent.CodeConflict] with Field "name".
	ChangeComposite(ctx context.Context, tenant, which string, c agent.CompositeChange) (agent.Composite, error)
}
