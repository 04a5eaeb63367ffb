package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// Workflows is the port of workflow definitions. If a key's Owner is empty, the only owner of the tag is meant: [agent.CodeConflict] with
// Field "workflow_owner" when there are several. [agent.CodeNotFound] with Field "workflow_tag" for a definition that is unknown, deleted or
// another tenant's, with Field "version" or "patch_id" for one that it never had.
type Workflows interface {
	// Workflow returns a version of a definition, 0 for the newest.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists the newest versions by tag and owner.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
	// WorkflowPatches lists the changes of a definition, newest first, also of one that is deleted.
	WorkflowPatches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error)
	// PutWorkflow stores a whole definition. [agent.CodeConflict] with Field "base_version" when another version is the newest, here and
	// below; with Field "workflow_tag" when p.OnlyNew and there is one; with Field "idempotency_key" when the key was used for another request.
	PutWorkflow(ctx context.Context, p WorkflowPut) (agent.WorkflowPatchResult, error)
	// PatchWorkflow changes a definition; an error names the operation or the place.
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// RevertWorkflow takes back the patch r.Revert. [agent.CodeConflict] when something that it touched has changed since.
	RevertWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// DeleteWorkflow takes a definition out of use. Its history stays, and its runs go on.
	DeleteWorkflow(ctx context.Context, d WorkflowDelete) (agent.WorkflowPatchResult, error)
}

// WorkflowPut is a whole definition. Owner empty means [agent.DefaultWorkflowOwner].
type WorkflowPut struct {
	agent.WorkflowKey

	Definition  json.RawMessage
	Description string
	BaseVersion int64 // the version that the change is made from; 0: any
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

// maxDefinition bounds a definition and a patch, in bytes.
const maxDefinition = 1 << 20

const pathWorkflows = "/v1/workflows"

func (s *httpServer) routeWorkflows() {
	s.route(pathWorkflows, methods{http.MethodGet: requires(s.answer(tenantAgreed, s.getWorkflows), agent.ActionWorkflowsRead)})
	s.route(pathWorkflows+"/{tag}", methods{
		http.MethodGet:    requires(s.answer(tenantAgreed, s.getWorkflow), agent.ActionWorkflowsRead),
		http.MethodPut:    requires(s.answer(tenantAgreed, s.putWorkflow), agent.ActionWorkflowsWrite),
		http.MethodDelete: requires(s.answer(tenantAgreed, s.deleteWorkflow), agent.ActionWorkflowsWrite),
		http.MethodPost:   requires(s.answer(tenantAgreed, s.postWorkflow), agent.ActionWorkflowsWrite, agent.ActionWorkflowsRun),
	})
	s.route(pathWorkflows+"/{tag}/patches", methods{http.MethodGet: requires(s.answer(tenantAgreed, s.getPatches), agent.ActionWorkflowsRead)})
}

// workflowKey returns the key of a definition that the caller may do a to.
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
	if err := cmp.Or(q.end(), checkName("owner", list.Owner), checkName("tag", list.Tag)); err != nil {
		return nil, err
	}
	found, err := s.cfg.Workflows.Workflows(c.bounded(), list)
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
	if err := c.query.end(); err != nil {
		return nil, err
	}
	stored, err := s.cfg.Workflows.Workflow(c.bounded(), key, version)
	return c.withETag(stored.Version, stored, err)
}

// withETag returns body and err, and sets the version as the entity tag of a response without error.
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
	if err := c.query.end(); err != nil {
		return nil, err
	}
	found, err := s.cfg.Workflows.WorkflowPatches(c.bounded(), key, page)
	found.Patches = orEmpty(found.Patches)
	return found, err
}
