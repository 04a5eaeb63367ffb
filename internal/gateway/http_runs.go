package gateway

import (
	"cmp"
	"net/http"
	"regexp"

	"github.com/turnstone-run/turnstone/agent"
)

// runIDPattern is what a run may be called.
var runIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// runsBody is the body of GET /v1/runs.
type runsBody struct {
	Runs []agent.Run `json:"runs"`
	Next string      `json:"next_page_token"`
}

// runDetail is the body of GET /v1/runs/{id}: its steps are there, even if there are none.
type runDetail struct {
	agent.Run

	Steps []agent.RunStep `json:"steps"`
}

// getRuns is GET /v1/runs?tag=&owner=&status=&page_size=&page_token=.
func (s *httpServer) getRuns(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, err := q.readCaller(r)
	if err != nil {
		return err
	}
	list := agent.RunQuery{
		Tenant: caller.ownTenant(), Tag: q.text("tag", maxText), Owner: q.text("owner", maxText), Status: agent.RunStatus(q.text("status", maxText)),
		Page: q.page(),
	}
	if err := cmp.Or(q.end(), checkName("tag", list.Tag), checkName("owner", list.Owner)); err != nil {
		return err
	}
	switch list.Status {
	case "", agent.RunRunning, agent.RunCompleted, agent.RunFailed, agent.RunCancelled:
	default:
		return agent.Invalid("status", "want running, completed, failed or cancelled, got %.60q", string(list.Status))
	}
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Runtime.ListRuns(ctx, list)
	if err != nil {
		return err
	}
	if !caller.principal.MayAll(agent.ActionWorkflowsRead) {
		found.Runs = kept(found.Runs, func(f *agent.Run) bool { return caller.principal.May(agent.ActionWorkflowsRead, f.Tag) })
	}
	s.write(w, http.StatusOK, runsBody{Runs: orEmpty(found.Runs), Next: found.Next})
	return nil
}

// onRun names the caller and the run of a path.
func onRun(r *http.Request) (caller identity, runID string, err error) {
	if caller, err = readCaller(r); err != nil {
		return caller, "", err
	}
	runID = r.PathValue("id")
	if !runIDPattern.MatchString(runID) {
		return caller, "", agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %.140q", runID)
	}
	return caller, runID, nil
}

// getRun is GET /v1/runs/{id}.
func (s *httpServer) getRun(w http.ResponseWriter, r *http.Request) error {
	caller, runID, err := onRun(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	run, err := s.cfg.Runtime.Run(ctx, caller.lookupTenant(), runID)
	if err == nil {
		err = caller.allow(agent.ActionWorkflowsRead, run.Tag)
	}
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, runDetail{Run: run, Steps: orEmpty(run.Steps)})
	return nil
}

// cancelRun is POST /v1/runs/{id}/cancel; the body may be left out. The run ends a moment later.
func (s *httpServer) cancelRun(w http.ResponseWriter, r *http.Request) error {
	caller, runID, err := onRun(r)
	if err != nil {
		return err
	}
	var c agent.CancelRequest
	if r.ContentLength != 0 {
		if err := s.decodeBody(w, r, &c); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkPlain("reason", c.Reason, maxComment), checkPlain("by", c.By, maxText)); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	if !caller.principal.MayAll(agent.ActionWorkflowsRun) {
		run, err := s.cfg.Runtime.Run(ctx, caller.lookupTenant(), runID)
		if err == nil {
			err = caller.allow(agent.ActionWorkflowsRun, run.Tag)
		}
		if err != nil {
			return err
		}
	}
	c.By = caller.actor(c.By)
	err = s.cfg.Runtime.CancelRun(ctx, caller.lookupTenant(), runID, c)
	caller.auditChange(agent.ActionWorkflowsRun, "run/"+runID, facts{"cancel": true}, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusAccepted, struct {
		RunID string `json:"run_id"`
	}{runID})
	return nil
}

// getComposites is GET /v1/tools/composites.
func (s *httpServer) getComposites(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Runtime.Composites(ctx, caller.ownTenant())
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, struct {
		Composites []agent.Composite `json:"composites"`
	}{orEmpty(found)})
	return nil
}

// patchComposite is PATCH /v1/tools/composites/{name}: a name or an id.
func (s *httpServer) patchComposite(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	which := r.PathValue("name")
	if checkLine("", which, maxText) != nil {
		return agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %.140q", which)
	}
	var change agent.CompositeChange
	if err := s.decodeBody(w, r, &change); err != nil {
		return err
	}
	if change == (agent.CompositeChange{}) {
		return agent.Invalid("", "there is nothing to change: want name, description or enabled")
	}
	ctx, cancel := s.call(r)
	defer cancel()
	changed, err := s.cfg.Runtime.ChangeComposite(ctx, caller.ownTenant(), which, change)
	caller.auditChange(agent.ActionToolsWrite, which, nil, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, changed)
	return nil
}
