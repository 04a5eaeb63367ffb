package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// Workflows is the port of workflow definitions. A key without Owner means the only owner of the tag; if there are several, the error is
// [agent.CodeConflict] with Field "workflow_owner". The error is [agent.CodeNotFound] with Field "workflow_tag" if the definition is unknown, deleted
// or another tenant's, and with Field "version" or "patch_id" if the definition has no such version or patch.
type Workflows interface {
	// Workflow returns a version of a definition, or the newest for 0.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists the newest versions by tag and owner.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// WorkflowPatches lists the changes of a definition, newest first. The definition may be deleted.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// PutWorkflow stores a complete definition. Its error is [agent.CodeConflict] with Field "base_version" if another version is the newest,
	// which holds for all changes, with Field "workflow_tag" if p.OnlyNew and the definition exists, and with Field "idempotency_key" if the
	// key was used for another request.
	PutWorkflow(ctx context.Context, p WorkflowPut) (agent.WorkflowPatchResult, error)
	// PatchWorkflow changes a definition. The Field of its error names the operation or the path.
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// RevertWorkflow reverts the patch r.Revert. Its error is [agent.CodeConflict] if an element that the patch changed has changed since.
	RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// DeleteWorkflow deletes a definition. Its history stays, and its runs go on.
	DeleteWorkflow(ctx context.Context, d WorkflowDelete) (agent.WorkflowPatchResult, error)
}

// WorkflowPut is a request to store a definition. An empty Owner means [agent.DefaultWorkflowOwner].
type WorkflowPut struct {
	agent.WorkflowKey

	Definition  json.RawMessage
	Description string
	BaseVersion int64 // the version on which the change is based; 0: any
	By          string
	Idempotency string
	DryRun      bool
	OnlyNew     bool // refuse if the definition exists and is not deleted
}

// WorkflowDelete is a request to delete a definition.
type WorkflowDelete struct {
	agent.WorkflowKey

	Description string
	BaseVersion int64
	By          string
	Idempotency string
}

// maxDefinition is the maximum size of a definition, of a patch and of the input of a run in bytes.
const maxDefinition = 1 << 20

const pathWorkflows = "/v1/workflows"

func (s *httpServer) routeWorkflows() {
	s.route(pathWorkflows, methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getWorkflows), agent.ActionWorkflowsRead)})
	s.route(pathWorkflows+"/{tag}", methods{
		http.MethodGet:    requires(s.answer(tenantUnambiguous, s.getWorkflow), agent.ActionWorkflowsRead),
		http.MethodPut:    requires(s.answer(tenantUnambiguous, s.putWorkflow), agent.ActionWorkflowsWrite),
		http.MethodDelete: requires(s.answer(tenantUnambiguous, s.deleteWorkflow), agent.ActionWorkflowsWrite),
		http.MethodPost:   requires(s.answer(tenantUnambiguous, s.postWorkflow), agent.ActionWorkflowsWrite, agent.ActionWorkflowsRun),
	})
	s.route(pathWorkflows+"/{tag}/patches", methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getPatches), agent.ActionWorkflowsRead)})
}

// workflowKey returns the key of a definition, if the caller may do a to it.
func (c *Call) workflowKey(tag string, a agent.Action) (key agent.WorkflowKey, err error) {
	if !agent.ValidName(tag) {
		return key, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %.140q", tag)
	}
	key = agent.WorkflowKey{Tenant: c.Tenant(), Owner: c.query.text("owner", maxText), Tag: tag}
	return key, cmp.Or(checkName("owner", key.Owner), c.Allow(a, tag))
}

// getWorkflows is GET /v1/workflows?owner=&tag=&page_size=&page_token=.
func (s *httpServer) getWorkflows(c *Call) (any, error) {
	q := c.query
	list := agent.WorkflowQuery{Tenant: c.Tenant(), Owner: q.text("owner", maxText), Tag: q.text("tag", maxText), Page: q.page()}
	if err := cmp.Or(q.validate(), checkName("owner", list.Owner), checkName("tag", list.Tag)); err != nil {
		return nil, err
	}
	found, err := s.cfg.Workflows.Workflows(c.callContext(), list)
	found.Workflows = orEmpty(filterAllowed(c.caller, agent.ActionWorkflowsRead, found.Workflows, func(w *agent.StoredWorkflow) string { return w.Tag }))
	return found, err
}

// getWorkflow is GET /v1/workflows/{tag}?owner=&version=.
func (s *httpServer) getWorkflow(c *Call) (any, error) {
	key, err := c.workflowKey(c.r.PathValue("tag"), agent.ActionWorkflowsRead)
	if err != nil {
		return nil, err
	}
	version := c.query.number("version")
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	stored, err := s.cfg.Workflows.Workflow(c.callContext(), key, version)
	return c.withETag(stored.Version, stored, err)
}

// withETag returns body and err, and sets the header ETag to the version unless there is an error.
func (c *Call) withETag(version int64, body any, err error) (any, error) {
	if err == nil {
		c.w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(version, 10)))
	}
	return body, err
}

// getPatches is GET /v1/workflows/{tag}/patches?owner=&page_size=&page_token=.
func (s *httpServer) getPatches(c *Call) (any, error) {
	key, err := c.workflowKey(c.r.PathValue("tag"), agent.ActionWorkflowsRead)
	if err != nil {
		return nil, err
	}
	page := c.query.page()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	found, err := s.cfg.Workflows.WorkflowPatches(c.callContext(), key, page)
	found.Patches = orEmpty(found.Patches)
	return found, err
}
