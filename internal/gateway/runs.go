package gateway

import (
	"cmp"
	"context"
	"net/http"
	"regexp"

	"github.com/turnstone-run/turnstone/agent"
)

// WorkflowRuns is the port of runs of workflow definitions. An unknown run and another tenant's are [agent.CodeNotFound] with Field "run_id". A
// tenant may be [agent.AnyTenant].
type WorkflowRuns interface {
	// StartRun starts a run of a definition of r.Context's tenant. Requests with the same run id or idempotency key start one run. Its error is
	// [agent.CodeConflict] with Field "run_id" if that is a run of another definition.
	StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (RunReceipt, error)
	// Run returns a run with its steps.
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	// ListRuns lists runs, newest first, without their inputs and steps.
	ListRuns(ctx context.Context, q agent.RunQuery) (agent.RunPage, error)
	// CancelRun asks a run to stop. Its error is [agent.CodeConflict] if the run has ended.
	CancelRun(ctx context.Context, tenant, runID string, c agent.CancelRequest) error
}

// RunReceipt identifies a run that was started.
type RunReceipt struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"` // in Temporal
	Owner      string `json:"workflow_owner"`
	Tag        string `json:"workflow_tag"`
	Joined     bool   `json:"joined,omitempty"` // an earlier request had started it
}

// runIDPattern matches a valid run id.
var runIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

const pathRuns = "/v1/runs"

func (s *httpServer) routeRuns() {
	s.route(pathRuns, methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getRuns), agent.ActionWorkflowsRead)})
	s.route(pathRuns+"/{id}", methods{http.MethodGet: requires(s.answerWithoutQuery(tenantUnambiguous, s.getRun), agent.ActionWorkflowsRead)})
	s.route(pathRuns+"/{id}/cancel", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.cancelRun), agent.ActionWorkflowsRun)})
}

// runDetail is the body of GET /v1/runs/{id}: a run whose list of steps is present even if it is empty.
type runDetail struct {
	agent.Run

	Steps []agent.RunStep `json:"steps"`
}

// getRuns is GET /v1/runs?tag=&owner=&status=&page_size=&page_token=.
func (s *httpServer) getRuns(c *Call) (any, error) {
	q := c.query
	list := agent.RunQuery{
		Tenant: c.Tenant(), Tag: q.text("tag", maxText), Owner: q.text("owner", maxText), Status: agent.RunStatus(q.text("status", maxText)), Page: q.page(),
	}
	if err := cmp.Or(q.validate(), checkName("tag", list.Tag), checkName("owner", list.Owner)); err != nil {
		return nil, err
	}
	switch list.Status {
	case "", agent.RunRunning, agent.RunCompleted, agent.RunFailed, agent.RunCancelled:
	default:
		return nil, agent.Invalid("status", "want running, completed, failed or cancelled, got %.60q", string(list.Status))
	}
	found, err := s.cfg.Runs.ListRuns(c.callContext(), list)
	found.Runs = orEmpty(filterAllowed(c.caller, agent.ActionWorkflowsRead, found.Runs, func(r *agent.Run) string { return r.Tag }))
	return found, err
}

// runID returns the run id of the path.
func (c *Call) runID() (string, error) {
	id := c.r.PathValue("id")
	if !runIDPattern.MatchString(id) {
		return "", agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %.140q", id)
	}
	return id, nil
}

// findRun returns a run of the caller's tenant, if the caller may do a to it.
func (s *httpServer) findRun(c *Call, runID string, a agent.Action) (agent.Run, error) {
	run, err := s.cfg.Runs.Run(c.callContext(), c.caller.lookupTenant(), runID)
	if err != nil {
		return run, err
	}
	return run, c.Allow(a, run.Tag)
}

// getRun is GET /v1/runs/{id}.
func (s *httpServer) getRun(c *Call) (any, error) {
	runID, err := c.runID()
	if err != nil {
		return nil, err
	}
	run, err := s.findRun(c, runID, agent.ActionWorkflowsRead)
	return runDetail{Run: run, Steps: orEmpty(run.Steps)}, err
}

// cancelRun is POST /v1/runs/{id}/cancel with an optional body. The run ends a moment later.
func (s *httpServer) cancelRun(c *Call) (any, error) {
	runID, err := c.runID()
	if err != nil {
		return nil, err
	}
	var body agent.CancelRequest
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	if err := cmp.Or(checkText("reason", body.Reason, maxComment), checkText("by", body.By, maxText)); err != nil {
		return nil, err
	}
	if !c.caller.principal.MayAll(agent.ActionWorkflowsRun) {
		if _, err := s.findRun(c, runID, agent.ActionWorkflowsRun); err != nil {
			return nil, err
		}
	}
	body.By = c.caller.actor(body.By)
	err = s.cfg.Runs.CancelRun(c.callContext(), c.caller.lookupTenant(), runID, body)
	c.caller.auditChange(agent.ActionWorkflowsRun, "run/"+runID, facts{"cancel": true}, err)
	c.status = http.StatusAccepted
	return struct {
		RunID string `json:"run_id"`
	}{runID}, err
}
