package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// patchSpec is a change of a workflow definition: JSON Patch operations and a description.
type patchSpec struct {
	Operations  json.RawMessage `json:"operations,omitempty"`
	Description string          `json:"description,omitempty"`
}

// patchBody is the body of POST /v1/workflows/{tag}:patch. The operations may also be in patch_spec, as in a call of the tool patch_workflow.
type patchBody struct {
	patchSpec

	Spec        *patchSpec `json:"patch_spec,omitempty"`
	Tag         string     `json:"workflow_tag,omitempty"` // must be that of the path
	Owner       string     `json:"workflow_owner,omitempty"`
	BaseVersion int64      `json:"base_version,omitempty"`
	DryRun      bool       `json:"dry_run,omitempty"`
	By          string     `json:"by,omitempty"`
}

// revertBody is the body of POST /v1/workflows/{tag}:revert.
type revertBody struct {
	PatchID     string `json:"patch_id"`
	Description string `json:"description,omitempty"`
	Owner       string `json:"workflow_owner,omitempty"`
	BaseVersion int64  `json:"base_version,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`
	By          string `json:"by,omitempty"`
}

// RunBody is the optional body of POST /v1/workflows/{tag}:run.
type RunBody struct {
	Input   json.RawMessage         `json:"input,omitempty"`
	Version int64                   `json:"version,omitempty"`
	RunID   string                  `json:"run_id,omitempty"`
	Owner   string                  `json:"workflow_owner,omitempty"`
	Context agent.InvocationContext `json:"context,omitzero"`
}

// putWorkflow is PUT /v1/workflows/{tag}?owner=&base_version=&description=&by=&dry_run=. The body is the definition. With If-None-Match: * the
// definition must not exist.
func (s *httpServer) putWorkflow(c *Call) (any, error) {
	key, err := c.workflowKey(c.r.PathValue("tag"), agent.ActionWorkflowsWrite)
	if err != nil {
		return nil, err
	}
	q := c.query
	put := WorkflowPut{
		WorkflowKey: key, BaseVersion: c.baseVersion(q.number("base_version")), Description: q.text("description", maxComment),
		By: q.text("by", maxText), DryRun: q.bool("dry_run"), Idempotency: c.idempotencyKey(),
	}
	put.OnlyNew = c.onlyNew(put.BaseVersion)
	if err := q.validate(); err != nil {
		return nil, err
	}
	if err := c.decode(&put.Definition); err != nil {
		return nil, err
	}
	if err := checkJSONSize("", put.Definition, "{", "an object"); err != nil {
		return nil, err
	}
	put.By = c.caller.actor(put.By)
	result, err := s.cfg.Workflows.PutWorkflow(c.callContext(), put)
	if !put.DryRun {
		c.caller.auditChange(agent.ActionWorkflowsWrite, key.Tag, facts{"change": "put", "version": result.Version}, err)
	}
	return c.withETag(result.Version, result, err)
}

// deleteWorkflow is DELETE /v1/workflows/{tag}?owner=&base_version=&description=&by=.
func (s *httpServer) deleteWorkflow(c *Call) (any, error) {
	key, err := c.workflowKey(c.r.PathValue("tag"), agent.ActionWorkflowsWrite)
	if err != nil {
		return nil, err
	}
	q := c.query
	request := WorkflowDelete{
		WorkflowKey: key, BaseVersion: c.baseVersion(q.number("base_version")), Description: q.text("description", maxComment),
		By: q.text("by", maxText), Idempotency: c.idempotencyKey(),
	}
	if err := q.validate(); err != nil {
		return nil, err
	}
	request.By = c.caller.actor(request.By)
	result, err := s.cfg.Workflows.DeleteWorkflow(c.callContext(), request)
	c.caller.auditChange(agent.ActionWorkflowsWrite, key.Tag, facts{"change": "delete", "version": result.Version}, err)
	return result, err
}

// baseVersion returns the version on which a change is based: that of the header If-Match or the one that the request names, which must not differ.
// Like onlyNew and idempotencyKey, it adds its errors to the query's.
func (c *Call) baseVersion(named int64) int64 {
	header := c.r.Header.Get("If-Match")
	if header == "" || header == "*" {
		return named
	}
	version, err := strconv.ParseInt(strings.Trim(header, `"`), 10, 64)
	switch {
	case err != nil || version <= 0:
		c.query.fail(agent.Invalid("base_version", `the header If-Match wants a version such as "3", got %.60q`, header))
	case named != 0 && named != version:
		c.query.fail(agent.Invalid("base_version", "is %d, but the header If-Match says %d", named, version))
	}
	return version
}

// onlyNew reports whether the header If-None-Match: * demands that the definition does not exist.
func (c *Call) onlyNew(baseVersion int64) bool {
	switch header := c.r.Header.Get("If-None-Match"); {
	case header == "":
		return false
	case header != "*":
		c.query.fail(agent.Invalid("If-None-Match", "want *, got %.60q", header))
	case baseVersion != 0, c.r.Header.Get("If-Match") != "":
		c.query.fail(agent.Invalid("If-None-Match", "is for a definition that does not exist, but the request names its version"))
	}
	return true
}

// idempotencyKey reads the header Idempotency-Key.
func (c *Call) idempotencyKey() string {
	key := c.r.Header.Get("Idempotency-Key")
	if err := checkLine("idempotency_key", key, maxText); err != nil {
		c.query.fail(err)
	}
	return key
}

// checkJSONSize returns an error if JSON is too large or does not begin with begin, the first byte of want.
func checkJSONSize(field string, raw json.RawMessage, begin, want string) error {
	switch {
	case len(raw) > maxDefinition:
		return agent.FieldErrorf(agent.CodeOverflow, field, "is %d bytes, at most %d", len(raw), maxDefinition)
	case !bytes.HasPrefix(bytes.TrimSpace(raw), []byte(begin)):
		return agent.Invalid(field, "want %s", want)
	}
	return nil
}

// postWorkflow is POST /v1/workflows/{tag}:{action}. For the mux, tag and action are one segment.
func (s *httpServer) postWorkflow(c *Call) (any, error) {
	tag, action, _ := strings.Cut(c.r.PathValue("tag"), ":")
	actions := map[string]struct {
		required agent.Action
		handle   func(*Call, agent.WorkflowKey) (any, error)
	}{
		"patch":  {agent.ActionWorkflowsWrite, s.patchWorkflow},
		"revert": {agent.ActionWorkflowsWrite, s.revertWorkflow},
		"run":    {agent.ActionWorkflowsRun, s.runWorkflow},
	}
	chosen, ok := actions[action]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no such path: want %s/{tag}:patch, :revert or :run, got %.200q", pathWorkflows, c.r.URL.Path)
	}
	key, err := c.workflowKey(tag, chosen.required)
	if err == nil {
		err = c.query.validate()
	}
	if err != nil {
		return nil, err
	}
	return chosen.handle(c, key)
}

// setOwner sets the owner of a key to that of the body, if there is one. The query must not name another one.
func setOwner(key *agent.WorkflowKey, owner string) error {
	if key.Owner != "" && owner != "" && key.Owner != owner {
		return agent.Invalid("workflow_owner", "is %.140q, but the query says %.140q", owner, key.Owner)
	}
	key.Owner = cmp.Or(owner, key.Owner)
	return checkName("workflow_owner", key.Owner)
}

func (s *httpServer) patchWorkflow(c *Call, key agent.WorkflowKey) (any, error) {
	var body patchBody
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.Tag != "" && body.Tag != key.Tag {
		return nil, agent.Invalid("workflow_tag", "is %.140q, but the path says %.140q", body.Tag, key.Tag)
	}
	spec, path := body.patchSpec, "operations"
	if body.Spec != nil {
		if len(spec.Operations) > 0 || spec.Description != "" {
			return nil, agent.Invalid("patch_spec", "give operations and description in it or beside it, not both")
		}
		spec, path = *body.Spec, "patch_spec.operations"
	}
	if err := checkJSONSize(path, spec.Operations, "[", "an array"); err != nil {
		return nil, err
	}
	return s.changeWorkflow(c, agent.WorkflowPatchRequest{
		WorkflowKey: key, Operations: spec.Operations, Description: spec.Description, BaseVersion: body.BaseVersion, By: body.By, DryRun: body.DryRun,
	}, body.Owner, s.cfg.Workflows.PatchWorkflow)
}

func (s *httpServer) revertWorkflow(c *Call, key agent.WorkflowKey) (any, error) {
	var body revertBody
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.PatchID == "" {
		return nil, agent.Invalid("patch_id", "is missing: which change is to be taken back?")
	}
	if err := checkLine("patch_id", body.PatchID, maxText); err != nil {
		return nil, err
	}
	return s.changeWorkflow(c, agent.WorkflowPatchRequest{
		WorkflowKey: key, Revert: body.PatchID, Description: body.Description, BaseVersion: body.BaseVersion, By: body.By, DryRun: body.DryRun,
	}, body.Owner, s.cfg.Workflows.RevertWorkflow)
}

// changeWorkflow completes, checks, makes and audits a patch or its reversal.
func (s *httpServer) changeWorkflow(
	c *Call, p agent.WorkflowPatchRequest, owner string,
	change func(context.Context, agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error),
) (any, error) {
	if err := cmp.Or(setOwner(&p.WorkflowKey, owner), checkText("description", p.Description, maxComment), checkLine("by", p.By, maxText)); err != nil {
		return nil, err
	}
	if p.BaseVersion < 0 {
		return nil, agent.Invalid("base_version", "want a version, got %d", p.BaseVersion)
	}
	p.BaseVersion, p.Idempotency, p.By = c.baseVersion(p.BaseVersion), c.idempotencyKey(), c.caller.actor(p.By)
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	result, err := change(c.callContext(), p)
	if !p.DryRun {
		c.caller.auditChange(agent.ActionWorkflowsWrite, p.Tag, facts{
			"patch_id": result.PatchID, "version": result.Version, "revert_of": clip.Bytes(p.Revert, maxText),
		}, err)
	}
	return c.withETag(result.Version, result, err)
}

func (b *RunBody) validate() error {
	switch {
	case b.RunID != "" && !runIDPattern.MatchString(b.RunID):
		return agent.Invalid("run_id", "want 1 to 128 of A-Z a-z 0-9 . _ : -")
	case b.Version < 0:
		return agent.Invalid("version", "want a version, got %d", b.Version)
	case len(b.Input) > maxDefinition:
		return agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(b.Input), maxDefinition)
	}
	return nil
}

func (s *httpServer) runWorkflow(c *Call, key agent.WorkflowKey) (any, error) {
	var body RunBody
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	if err := cmp.Or(setOwner(&key, body.Owner), body.validate()); err != nil {
		return nil, err
	}
	tenant := body.Context.Tenant
	if err := c.caller.checkTenant(tenant, "context.tenant"); err != nil {
		return nil, err
	}
	if tenant != "" && tenant != key.Tenant {
		return nil, agent.Invalid("context.tenant", "is %.140q, but the request is made for tenant %q", tenant, key.Tenant)
	}
	idempotency := c.idempotencyKey()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	body.Context.Tenant = key.Tenant
	c.caller.setUser(&body.Context)
	receipt, err := s.cfg.Runs.StartRun(c.callContext(), agent.RunRequest{
		RunID: body.RunID, Owner: key.Owner, Tag: key.Tag, Version: body.Version, Input: body.Input, Context: body.Context,
	}, idempotency)
	c.caller.auditChange(agent.ActionWorkflowsRun, key.Tag, facts{"run_id": receipt.RunID}, err)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathRuns+"/"+receipt.RunID)
	c.status = http.StatusAccepted
	return receipt, nil
}
