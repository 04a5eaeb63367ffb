package gateway

import (
	"cmp"
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Retention is the port of the reports on stored data and of the schedule of the sweeps, which delete expired data.
type Retention interface {
	// Report returns the report on one tenant, or on a page of all tenants for [agent.AnyTenant].
	Report(ctx context.Context, tenant string, p agent.Page) (retention.Report, error)
	// Trigger starts the sweeps now. Its error is [agent.CodeConflict] if they have no schedule.
	Trigger(ctx context.Context) (retention.Status, error)
	// Pause pauses or resumes the schedule. Its error is [agent.CodeConflict] if there is no schedule.
	Pause(ctx context.Context, paused bool, note string) (retention.Status, error)
}

// Bounds of requests about retention.
const (
	maxReportToken    = 128 // a tenant's name
	maxReportPage     = 100
	defaultReportPage = 20
)

const pathRetention = "/v1/retention"

func (s *httpServer) routeRetention() {
	write := func(handle func(*Call) (any, error)) methods {
		return methods{http.MethodPost: requires(s.answerWithoutQuery(tenantHeaderFirst, handle), agent.ActionRetentionWrite)}
	}
	s.route(pathRetention, methods{http.MethodGet: requires(s.answer(tenantHeaderFirst, s.getRetention), agent.ActionRetentionRead)})
	s.route(pathRetention+"/run", write(s.runSweeps))
	s.route(pathRetention+"/pause", write(func(c *Call) (any, error) { return s.setSweepsPaused(c, "pause", true) }))
	s.route(pathRetention+"/resume", write(func(c *Call) (any, error) { return s.setSweepsPaused(c, "resume", false) }))
}

// getRetention is GET /v1/retention?page_size=&page_token=. Without a tenant, a credential of every tenant gets a page of all tenants.
func (s *httpServer) getRetention(c *Call) (any, error) {
	page := c.query.pageWithin(defaultReportPage, maxReportPage)
	if err := cmp.Or(c.query.validate(), checkText("page_token", page.Token, maxReportToken)); err != nil {
		return nil, err
	}
	return s.cfg.Retention.Report(c.callContext(), c.caller.lookupTenant(), page)
}

// runSweeps is POST /v1/retention/run. It starts the sweeps of all tenants, unless they are running.
func (s *httpServer) runSweeps(c *Call) (any, error) {
	if err := c.readSweepsBody("run", &struct{}{}); err != nil {
		return nil, err
	}
	c.status = http.StatusAccepted
	return c.changeSweeps("run", s.cfg.Retention.Trigger)
}

// setSweepsPaused is POST /v1/retention/pause and POST /v1/retention/resume.
func (s *httpServer) setSweepsPaused(c *Call, action string, paused bool) (any, error) {
	var body struct {
		Reason string `json:"reason,omitempty"`
	}
	if err := c.readSweepsBody(action, &body); err != nil {
		return nil, err
	}
	note, err := c.pauseNote("reason", body.Reason, paused)
	if err != nil {
		return nil, err
	}
	return c.changeSweeps(action, func(ctx context.Context) (retention.Status, error) { return s.cfg.Retention.Pause(ctx, paused, note) })
}

// readSweepsBody reads the body of a request that concerns all tenants. It refuses and audits credentials of a single tenant.
func (c *Call) readSweepsBody(action string, body any) error {
	if c.caller.isOfOneTenant() {
		c.audit(agent.AuditDenied, agent.ActionRetentionWrite, "retention/"+action, nil)
		return agent.Errorf(agent.CodeDenied, "", "the sweeps are of all tenants, and the credential is of tenant %q", c.caller.principal.Tenant)
	}
	return c.decodeIfAny(body)
}

// changeSweeps calls change and audits a successful change.
func (c *Call) changeSweeps(action string, change func(context.Context) (retention.Status, error)) (any, error) {
	status, err := change(c.callContext())
	if err != nil {
		return nil, err
	}
	c.audit(agent.AuditAllowed, agent.ActionRetentionWrite, "retention/"+action, nil)
	return status, nil
}
