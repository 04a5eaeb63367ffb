package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// maxDefinition bounds a definition and a patch, in bytes.
const maxDefinition = 1 << 20

// workflowsBody is the body of GET /v1/workflows.
type workflowsBody struct {
	Workflows []agent.StoredWorkflow `json:"workflows"`
	Next      string                 `json:"next_page_token"`
}

// patchesBody is the body of GET /v1/workflows/{tag}/patches.
type patchesBody struct {
	Patches []agent.WorkflowPatch `json:"patches"`
	Next    string                `json:"next_page_token"`
}

func (s *httpServer) routeWorkflows() {
	s.route(pathWorkflows, methods{http.MethodGet: needs(s.getWorkflows, agent.ActionWorkflowsRead)})
	s.route(pathWorkflows+"/{tag}", methods{
		http.MethodGet: needs(s.getWorkflow, agent.ActionWorkflowsRead), http.MethodPut: needs(s.putWorkflow, agent.ActionWorkflowsWrite),
		http.MethodDelete: needs(s.deleteWorkflow, agent.ActionWorkflowsWrite),
		http.MethodPost:   needs(s.postWorkflow, agent.ActionWorkflowsWrite, agent.ActionWorkflowsRun),
	})
	s.route(pathWorkflows+"/{tag}/patches", methods{http.MethodGet: needs(s.getPatches, agent.ActionWorkflowsRead)})
	s.route(pathRuns, methods{http.MethodGet: needs(s.getRuns, agent.ActionWorkflowsRead)})
	s.route(pathRuns+"/{id}", methods{http.MethodGet: needs(s.getRun, agent.ActionWorkflowsRead)})
	s.route(pathRuns+"/{id}/cancel", methods{http.MethodPost: needs(s.cancelRun, agent.ActionWorkflowsRun)})
	s.route(pathComposites, methods{http.MethodGet: needs(s.getComposites, agent.ActionToolsRead)})
	s.route(pathComposites+"/{name}", methods{http.MethodPatch: needs(s.patchComposite, agent.ActionToolsWrite)})
}

// onWorkflow is what the calls about a definition share: it names the caller and the definition, and asks whether he may.
func onWorkflow(r *http.Request, q *query, tag string, a agent.Action) (caller identity, key agent.WorkflowKey, err error) {
	if caller, err = q.readCaller(r); err != nil {
		return caller, key, err
	}
	if !agent.ValidName(tag) {
		return caller, key, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %.140q", tag)
	}
	key = agent.WorkflowKey{Tenant: caller.ownTenant(), Owner: q.text("owner", maxText), Tag: tag}
	return caller, key, cmp.Or(checkName("owner", key.Owner), caller.allow(a, tag))
}

// getWorkflows is GET /v1/workflows?owner=&tag=&page_size=&page_token=.
func (s *httpServer) getWorkflows(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, err := q.readCaller(r)
	if err != nil {
		return err
	}
	list := agent.WorkflowQuery{Tenant: caller.ownTenant(), Owner: q.text("owner", maxText), Tag: q.text("tag", maxText), Page: q.page()}
	if err := cmp.Or(q.end(), checkName("owner", list.Owner), checkName("tag", list.Tag)); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Runtime.Workflows(ctx, list)
	if err != nil {
		return err
	}
	if !caller.principal.MayAll(agent.ActionWorkflowsRead) {
		found.Workflows = kept(found.Workflows, func(f *agent.StoredWorkflow) bool { return caller.principal.May(agent.ActionWorkflowsRead, f.Tag) })
	}
	s.write(w, http.StatusOK, workflowsBody{Workflows: orEmpty(found.Workflows), Next: found.Next})
	return nil
}

// getWorkflow is GET /v1/workflows/{tag}?owner=&version=.
func (s *httpServer) getWorkflow(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	_, key, err := onWorkflow(r, q, r.PathValue("tag"), agent.ActionWorkflowsRead)
	if err != nil {
		return err
	}
	version := q.number("version")
	if err := q.end(); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	stored, err := s.cfg.Runtime.Workflow(ctx, key, version)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", versionTag(stored.Version))
	s.write(w, http.StatusOK, stored)
	return nil
}

// versionTag is a version as an entity tag.
func versionTag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// baseVersion is the version that a change was made from, as the header If-Match or the request says.
func baseVersion(r *http.Request, said int64) (int64, error) {
	header := r.Header.Get("If-Match")
	if header == "" || header == "*" {
		return said, nil
	}
	version, err := strconv.ParseInt(strings.Trim(header, `"`), 10, 64)
	switch {
	case err != nil || version <= 0:
		return 0, agent.Invalid("base_version", `the header If-Match wants a version such as "3", got %.60q`, header)
	case said != 0 && said != version:
		return 0, agent.Invalid("base_version", "is %d, but the header If-Match says %d", said, version)
	}
	return version, nil
}

// onlyNew reads the header If-None-Match: * is a definition that is not there yet.
func onlyNew(r *http.Request, base int64) (bool, error) {
	switch header := r.Header.Get("If-None-Match"); {
	case header == "":
		return false, nil
	case header != "*":
		return false, agent.Invalid("If-None-Match", "want *, which is only when there is none, got %.60q", header)
	case base != 0, r.Header.Get("If-Match") != "":
		return false, agent.Invalid("If-None-Match", "is only when there is none, but the request names a version that is there")
	default:
		return true, nil
	}
}

// idempotencyKey reads the header Idempotency-Key.
func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	return key, checkLine("idempotency_key", key, maxText)
}

// putWorkflow is PUT /v1/workflows/{tag}?owner=&base_version=&description=&by=&dry_run=. The body is the definition; with If-None-Match: *
// it must be new.
func (s *httpServer) putWorkflow(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, key, err := onWorkflow(r, q, r.PathValue("tag"), agent.ActionWorkflowsWrite)
	if err != nil {
		return err
	}
	put := WorkflowPut{
		WorkflowKey: key, BaseVersion: q.number("base_version"), Description: q.text("description", maxComment), By: q.text("by", maxText),
		DryRun: q.truth("dry_run"),
	}
	if err := q.end(); err != nil {
		return err
	}
	if put.BaseVersion, err = baseVersion(r, put.BaseVersion); err != nil {
		return err
	}
	if put.OnlyNew, err = onlyNew(r, put.BaseVersion); err != nil {
		return err
	}
	if put.Idempotency, err = idempotencyKey(r); err != nil {
		return err
	}
	if err := s.decodeBody(w, r, &put.Definition); err != nil {
		return err
	}
	if err := checkDocument("", put.Definition, '{'); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	put.By = caller.actor(put.By)
	result, err := s.cfg.Runtime.PutWorkflow(ctx, put)
	if !put.DryRun {
		caller.auditChange(agent.ActionWorkflowsWrite, key.Tag, facts{"change": "put", "version": result.Version}, err)
	}
	if err != nil {
		return err
	}
	w.Header().Set("ETag", versionTag(result.Version))
	s.write(w, http.StatusOK, result)
	return nil
}

// checkDocument bounds JSON, and wants an object or an array.
func checkDocument(field string, raw json.RawMessage, begins byte) error {
	switch text := bytes.TrimSpace(raw); {
	case len(raw) > maxDefinition:
		return agent.FieldErrorf(agent.CodeOverflow, field, "is %d bytes, at most %d", len(raw), maxDefinition)
	case len(text) > 0 && text[0] == begins:
		return nil
	case begins == '[':
		return agent.Invalid(field, "want an array")
	default:
		return agent.Invalid(field, "want an object")
	}
}

// deleteWorkflow is DELETE /v1/workflows/{tag}?owner=&base_version=&description=&by=.
func (s *httpServer) deleteWorkflow(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, key, err := onWorkflow(r, q, r.PathValue("tag"), agent.ActionWorkflowsWrite)
	if err != nil {
		return err
	}
	gone := WorkflowDelete{
		WorkflowKey: key, BaseVersion: q.number("base_version"), Description: q.text("description", maxComment), By: q.text("by", maxText),
	}
	if err := q.end(); err != nil {
		return err
	}
	if gone.BaseVersion, err = baseVersion(r, gone.BaseVersion); err != nil {
		return err
	}
	if gone.Idempotency, err = idempotencyKey(r); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	gone.By = caller.actor(gone.By)
	result, err := s.cfg.Runtime.DeleteWorkflow(ctx, gone)
	caller.auditChange(agent.ActionWorkflowsWrite, key.Tag, facts{"change": "delete", "version": result.Version}, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, result)
	return nil
}

// getPatches is GET /v1/workflows/{tag}/patches?owner=&page_size=&page_token=.
func (s *httpServer) getPatches(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	_, key, err := onWorkflow(r, q, r.PathValue("tag"), agent.ActionWorkflowsRead)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.end(); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Runtime.WorkflowPatches(ctx, key, page)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, patchesBody{Patches: orEmpty(found.Patches), Next: found.Next})
	return nil
}
