package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

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
	query := url.Values{}
	set(query, "owner", key.Owner)
	setNumber(query, "version", version)
	var out agent.StoredWorkflow
	return out, c.call(ctx, http.MethodGet, []string{workflowsPath, key.Tag}, query, nil, &out)
}

// Workflows returns a page of the newest versions, by tag and owner.
func (c *Client) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	query := pageQuery(q.Page)
	set(query, "owner", q.Owner)
	set(query, "tag", q.Tag)
	var out agent.WorkflowPage
	return out, c.call(ctx, http.MethodGet, []string{workflowsPath}, query, nil, &out)
}

// WorkflowPatches returns a page of a definition's history, newest first.
func (c *Client) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, p agent.Page) (agent.WorkflowPatchPage, error) {
	query := pageQuery(p)
	set(query, "owner", key.Owner)
	var out agent.WorkflowPatchPage
	return out, c.call(ctx, http.MethodGet, []string{workflowsPath, key.Tag, "patches"}, query, nil, &out)
}

// PutWorkflow makes a definition be what it says. Without an idempotency key it gets one, so that the HTTP client's own retry of a lost
// connection changes nothing twice; here as below.
func (c *Client) PutWorkflow(ctx context.Context, p WorkflowPut) (agent.WorkflowPatchResult, error) {
	query := url.Values{}
	set(query, "owner", p.Owner)
	set(query, "description", p.Description)
	set(query, "by", p.By)
	setNumber(query, "base_version", p.BaseVersion)
	if p.DryRun {
		query.Set("dry_run", "true")
	}
	var out agent.WorkflowPatchResult
	return out, c.callOnce(ctx, http.MethodPut, []string{workflowsPath, p.Tag}, query, p.Idempotency, p.Definition, &out)
}

// DeleteWorkflow takes a definition out of use.
func (c *Client) DeleteWorkflow(ctx context.Context, d WorkflowDelete) (agent.WorkflowPatchResult, error) {
	query := url.Values{}
	set(query, "owner", d.Owner)
	set(query, "description", d.Description)
	set(query, "by", d.By)
	setNumber(query, "base_version", d.BaseVersion)
	var out agent.WorkflowPatchResult
	return out, c.callOnce(ctx, http.MethodDelete, []string{workflowsPath, d.Tag}, query, d.Idempotency, nil, &out)
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
	var out agent.WorkflowPatchResult
	return out, c.callOnce(ctx, http.MethodPost, []string{workflowsPath, r.Tag + action}, nil, r.Idempotency, body, &out)
}

// StartRun starts a run of a definition and does not wait for it.
func (c *Client) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (RunReceipt, error) {
	body := struct {
		Input   json.RawMessage         `json:"input,omitempty"`
		Version int64                   `json:"version,omitempty"`
		RunID   string                  `json:"run_id,omitempty"`
		Owner   string                  `json:"workflow_owner,omitempty"`
		Context agent.InvocationContext `json:"context,omitzero"`
	}{r.Input, r.Version, r.RunID, r.Owner, r.Context}
	var out RunReceipt
	return out, c.callOnce(ctx, http.MethodPost, []string{workflowsPath, r.Tag + ":run"}, nil, idempotency, body, &out)
}

// Run returns a run with its steps.
func (c *Client) Run(ctx context.Context, runID string) (agent.Run, error) {
	var out agent.Run
	return out, c.call(ctx, http.MethodGet, []string{runsPath, runID}, nil, nil, &out)
}

// Runs returns a page of runs, newest first, without their steps.
func (c *Client) Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error) {
	query := pageQuery(q.Page)
	set(query, "tag", q.Tag)
	set(query, "owner", q.Owner)
	set(query, "status", string(q.Status))
	var out agent.RunPage
	return out, c.call(ctx, http.MethodGet, []string{runsPath}, query, nil, &out)
}

// CancelRun asks a run to stop.
func (c *Client) CancelRun(ctx context.Context, runID string, r agent.CancelRequest) error {
	return c.call(ctx, http.MethodPost, []string{runsPath, runID, "cancel"}, nil, r, nil)
}

// Composites lists the tools that were made of repeated pipelines, by name.
func (c *Client) Composites(ctx context.Context) ([]agent.Composite, error) {
	var out struct {
		Composites []agent.Composite `json:"composites"`
	}
	err := c.call(ctx, http.MethodGet, []string{"tools", "composites"}, nil, nil, &out)
	return out.Composites, err
}

// ChangeComposite changes the one of a name or an id.
func (c *Client) ChangeComposite(ctx context.Context, which string, change agent.CompositeChange) (agent.Composite, error) {
	var out agent.Composite
	return out, c.call(ctx, http.MethodPatch, []string{"tools", "composites", which}, nil, change, &out)
}

// callOnce is call under an idempotency key, one of its own when key is empty.
func (c *Client) callOnce(ctx context.Context, method string, path []string, query url.Values, key string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return agent.Invalid("", "encode request: %w", err)
		}
	}
	if key == "" {
		key = uuid.NewString()
	}
	resp, err := c.send(ctx, method, path, query, body, http.Header{"Idempotency-Key": {key}})
	if err != nil {
		return err
	}
	return decodeAnswer(ctx, resp, method, path, out)
}

func setNumber(query url.Values, name string, value int64) {
	if value != 0 {
		query.Set(name, strconv.FormatInt(value, 10))
	}
}
