package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// patchSpec is a change of a workflow definition: JSON Patch operations and a description.
type patchSpec struct {
	Operations  json.RawMessage `json:"operations,omitempty"`
	Description string          `json:"description,omitempty"`
}

// patchBody is the body of POST /v1/workflows/{tag}:patch: the operations, or the whole call of the tool patch_workflow.
type patchBody struct {
	patchSpec

	Spec        *patchSpec `json:"patch_spec,omitempty"`
	Tag         string     `json:"workflow_tag,omitempty"` // that of the path
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

// runBody is the body of POST /v1/workflows/{tag}:run; it may be left out.
type runBody struct {
	Input   json.RawMessage         `json:"input,omitempty"`
	Version int64                   `json:"version,omitempty"`
	RunID   string                  `json:"run_id,omitempty"`
	Owner   string                  `json:"workflow_owner,omitempty"`
	Context agent.InvocationContext `json:"context,omitzero"`
}

// postWorkflow is POST /v1/workflows/{tag}:{action}. The mux takes tag and action for one segment.
func (s *httpServer) postWorkflow(w http.ResponseWriter, r *http.Request) error {
	tag, action, _ := strings.Cut(r.PathValue("tag"), ":")
	actions := map[string]struct {
		needs  agent.Action
		handle func(http.ResponseWriter, *http.Request, identity, agent.WorkflowKey) error
	}{
		"patch":  {agent.ActionWorkflowsWrite, s.patchWorkflow},
		"revert": {agent.ActionWorkflowsWrite, s.revertWorkflow},
		"run":    {agent.ActionWorkflowsRun, s.runWorkflow},
	}
	asked, ok := actions[action]
	if !ok {
		return agent.Errorf(agent.CodeNotFound, "", "no such path: want %s/{tag}:patch, :revert or :run, got %.200q", pathWorkflows, r.URL.Path)
	}
	q := readQuery(r)
	caller, key, err := onWorkflow(r, q, tag, asked.needs)
	if err == nil {
		err = q.end()
	}
	if err != nil {
		return err
	}
	return asked.handle(w, r, caller, key)
}

// owned puts the owner of a body into a key; a query that says another one is a fault.
func owned(key *agent.WorkflowKey, owner string) error {
	if key.Owner != "" && owner != "" && key.Owner != owner {
		return agent.Invalid("workflow_owner", "is %.140q, but the query says %.140q", owner, key.Owner)
	}
	key.Owner = cmp.Or(owner, key.Owner)
	return checkName("workflow_owner", key.Owner)
}

func (s *httpServer) patchWorkflow(w http.ResponseWriter, r *http.Request, caller identity, key agent.WorkflowKey) error {
	var body patchBody
	if err := s.decodeBody(w, r, &body); err != nil {
		return err
	}
	if body.Tag != "" && body.Tag != key.Tag {
		return agent.Invalid("workflow_tag", "is %.140q, but the path says %.140q", body.Tag, key.Tag)
	}
	spec, at := body.patchSpec, "operations"
	if body.Spec != nil {
		if len(spec.Operations) > 0 || spec.Description != "" {
			return agent.Invalid("patch_spec", "give operations and description in it or beside it, not both")
		}
		spec, at = *body.Spec, "patch_spec.operations"
	}
	if err := checkDocument(at, spec.Operations, '['); err != nil {
		return err
	}
	return s.changeWorkflow(w, r, caller, agent.WorkflowPatchRequest{
		WorkflowKey: key, Operations: spec.Operations, Description: spec.Description, BaseVersion: body.BaseVersion, By: body.By, DryRun: body.DryRun,
	}, body.Owner, s.cfg.Runtime.PatchWorkflow)
}

func (s *httpServer) revertWorkflow(w http.ResponseWriter, r *http.Request, caller identity, key agent.WorkflowKey) error {
	var body revertBody
	if err := s.decodeBody(w, r, &body); err != nil {
		return err
	}
	if body.PatchID == "" {
		return agent.Invalid("patch_id", "is missing: which change is to be taken back?")
	}
	if err := checkLine("patch_id", body.PatchID, maxText); err != nil {
		return err
	}
	return s.changeWorkflow(w, r, caller, agent.WorkflowPatchRequest{
		WorkflowKey: key, Revert: body.PatchID, Description: body.Description, BaseVersion: body.BaseVersion, By: body.By, DryRun: body.DryRun,
	}, body.Owner, s.cfg.Runtime.RevertWorkflow)
}

// changeWorkflow does what a patch and its reversal have in common.
func (s *httpServer) changeWorkflow(
	w http.ResponseWriter, r *http.Request, caller identity, p agent.WorkflowPatchRequest, owner string,
	change func(context.Context, agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error),
) (err error) {
	if err := cmp.Or(owned(&p.WorkflowKey, owner), checkPlain("description", p.Description, maxComment), checkLine("by", p.By, maxText)); err != nil {
		return err
	}
	if p.BaseVersion < 0 {
		return agent.Invalid("base_version", "want a version, got %d", p.BaseVersion)
	}
	if p.BaseVersion, err = baseVersion(r, p.BaseVersion); err != nil {
		return err
	}
	if p.Idempotency, err = idempotencyKey(r); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	p.By = caller.actor(p.By)
	result, err := change(ctx, p)
	if !p.DryRun {
		caller.auditChange(agent.ActionWorkflowsWrite, p.Tag, facts{"patch_id": result.PatchID, "version": result.Version, "revert_of": clip.Bytes(p.Revert, maxText)}, err)
	}
	if err != nil {
		return err
	}
	w.Header().Set("ETag", versionTag(result.Version))
	s.write(w, http.StatusOK, result)
	return nil
}

func (s *httpServer) runWorkflow(w http.ResponseWriter, r *http.Request, caller identity, key agent.WorkflowKey) error {
	var body runBody
	if r.ContentLength != 0 {
		if err := s.decodeBody(w, r, &body); err != nil {
			return err
		}
	}
	if err := owned(&key, body.Owner); err != nil {
		return err
	}
	switch {
	case body.RunID != "" && !runIDPattern.MatchString(body.RunID):
		return agent.Invalid("run_id", "want 1 to 128 of A-Z a-z 0-9 . _ : -")
	case body.Version < 0:
		return agent.Invalid("version", "want a version, got %d", body.Version)
	case len(body.Input) > maxDefinition:
		return agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(body.Input), maxDefinition)
	}
	if err := caller.checkTenant(body.Context.Tenant, "context.tenant"); err != nil {
		return err
	}
	if said := body.Context.Tenant; said != "" && said != key.Tenant {
		return agent.Invalid("context.tenant", "is %.140q, but the request is made for tenant %q", said, key.Tenant)
	}
	idempotency, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body.Context.Tenant = key.Tenant
	caller.setUser(&body.Context)
	ctx, cancel := s.call(r)
	defer cancel()
	receipt, err := s.cfg.Runtime.StartRun(ctx, agent.RunRequest{
		RunID: body.RunID, Owner: key.Owner, Tag: key.Tag, Version: body.Version, Input: body.Input, Context: body.Context,
	}, idempotency)
	caller.auditChange(agent.ActionWorkflowsRun, key.Tag, facts{"run_id": receipt.RunID}, err)
	if err != nil {
		return err
	}
	w.Header().Set("Location", pathRuns+"/"+receipt.RunID)
	s.write(w, http.StatusAccepted, receipt)
	return nil
}
