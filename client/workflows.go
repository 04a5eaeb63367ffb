package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

const (
	workflowsPath = "workflows"
	runsPath      = "runs"
)

// WorkflowPut is a whole definition.
type WorkflowPut = gateway.WorkflowPut

// WorkflowDelete asks for the end of a definition.
type WorkflowDelete = gateway.WorkflowDelete

// RunReceipt says which run was started.
type RunReceipt = gateway.RunReceipt

// Workflow returns a version of a definition, 0 for the newest. An empty owner is the one owner of the tag, here as below. The tenant is the
// client's, whatever a key says.
func (c *Client) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	return get[agent.StoredWorkflow](ctx, c, params("owner", key.Owner, "version", number(version)), workflowsPath, key.Tag)
}

// Workflows returns a page of the newest versions, by tag and owner.
func (c *Client) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	return get[agent.WorkflowPage](ctx, c, pageParams(q.Page, "owner", q.Owner, "tag", q.Tag), workflowsPath)
}

// WorkflowPatches returns a page of a definition's history, newest first.
func (c *Client) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, p agent.Page) (agent.WorkflowPatchPage, error) {
	return get[agent.WorkflowPatchPage](ctx, c, pageParams(p, "owner", key.Owner), workflowsPath, key.Tag, "patches")
}

// PutWorkflow makes a definition be what it says. Without an idempotency key it gets one, so that the HTTP client's own retry of a lost
// connection changes nothing twice; here as below.
func (c *Client) PutWorkflow(ctx context.Context, p WorkflowPut) (agent.WorkflowPatchResult, error) {
	query := params("owner", p.Owner, "description", p.Description, "by", p.By, "base_version", number(p.BaseVersion), "dry_run", flag(p.DryRun))
	return call[agent.WorkflowPatchResult](ctx, c, request{
		method: http.MethodPut, path: []string{workflowsPath, p.Tag}, query: query, body: p.Definition, header: idempotencyKey(p.Idempotency),
	})
}

// DeleteWorkflow takes a definition out of use.
func (c *Client) DeleteWorkflow(ctx context.Context, d WorkflowDelete) (agent.WorkflowPatchResult, error) {
	query := params("owner", d.Owner, "description", d.Description, "by", d.By, "base_version", number(d.BaseVersion))
	return call[agent.WorkflowPatchResult](ctx, c, request{
		method: http.MethodDelete, path: []string{workflowsPath, d.Tag}, query: query, header: idempotencyKey(d.Idempotency),
	})
}

// workflowChange is the body of a patch and of its reversal.
type workflowChange struct {
	Operations  json.RawMessage `json:"operations,omitempty"`
	PatchID     string          `json:"patch_id,omitempty"`
	Description string          `json:"description,omitempty"`
	Owner       string          `json:"workflow_owner,omitempty"`
	BaseVersion int64           `json:"base_version,omitempty"`
	DryRun      bool            `json:"dry_run,omitempty"`
	By          string          `json:"by,omitempty"`
}

// PatchWorkflow changes a definition.
func (c *Client) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return c.changeWorkflow(ctx, r, ":patch")
}

// RevertWorkflow takes back what the patch r.Revert did.
func (c *Client) RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return c.changeWorkflow(ctx, r, ":revert")
}

func (c *Client) changeWorkflow(ctx context.Context, r agent.WorkflowPatchRequest, action string) (agent.WorkflowPatchResult, error) {
	body := workflowChange{
		Operations: r.Operations, PatchID: r.Revert, Description: r.Description, Owner: r.Owner, BaseVersion: r.BaseVersion, DryRun: r.DryRun, By: r.By,
	}
	return call[agent.WorkflowPatchResult](ctx, c, request{
		method: http.MethodPost, path: []string{workflowsPath, r.Tag + action}, body: body, header: idempotencyKey(r.Idempotency),
	})
}

// StartRun starts a run of a definition and does not wait for it.
func (c *Client) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (RunReceipt, error) {
	body := gateway.RunBody{Input: r.Input, Version: r.Version, RunID: r.RunID, Owner: r.Owner, Context: r.Context}
	return call[RunReceipt](ctx, c, request{
		method: http.MethodPost, path: []string{workflowsPath, r.Tag + ":run"}, body: body, header: idempotencyKey(idempotency),
	})
}

// Run returns a run with its steps.
func (c *Client) Run(ctx context.Context, runID string) (agent.Run, error) {
	return get[agent.Run](ctx, c, nil, runsPath, runID)
}

// Runs returns a page of runs, newest first, without their steps.
func (c *Client) Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error) {
	return get[agent.RunPage](ctx, c, pageParams(q.Page, "tag", q.Tag, "owner", q.Owner, "status", string(q.Status)), runsPath)
}

// CancelRun asks a run to stop.
func (c *Client) CancelRun(ctx context.Context, runID string, r agent.CancelRequest) error {
	return c.exchange(ctx, request{method: http.MethodPost, path: []string{runsPath, runID, "cancel"}, body: r}, nil)
}

// Composites lists the tools that were made of repeated pipelines, by name.
func (c *Client) Composites(ctx context.Context) ([]agent.Composite, error) {
	composites, _, err := page[agent.Composite](ctx, c, "composites", nil, "tools", "composites")
	return composites, err
}

// ChangeComposite changes the one of a name or an id.
func (c *Client) ChangeComposite(ctx context.Context, which string, change agent.CompositeChange) (agent.Composite, error) {
	return call[agent.Composite](ctx, c, request{method: http.MethodPatch, path: []string{"tools", "composites", which}, body: change})
}
