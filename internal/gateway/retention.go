package gateway

import (
	"cmp"
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Retention is the port of the reports on what is kept and of the schedule of the sweeps.
type Retention interface {
	// Report is about one tenant, or a page of all for [agent.AnyTenant].
	Report(ctx context.Context, tenant string, p agent.Page) (retention.Report, error)
	// Trigger starts the sweeps now. If Temporal has no schedule of them, Trigger and Pause return [agent.CodeConflict].
	Trigger(ctx context.Context) (retention.Status, error)
	Pause(ctx context.Context, paused bool, note string) (retention.Status, error)
}

// Bounds of requests about retention.
const (
	maxReportToken  = 128 // a tenant's name
	maxReportPage   = 100
	usualReportPage = 20
)

const pathRetention = "/v1/retention"

func (s *httpServer) routeRetention() {
	write := func(handle func(*Call) (any, error)) methods {
		return methods{http.MethodPost: requires(s.answerPlain(tenantEither, handle), agent.ActionRetentionWrite)}
	}
	s.route(pathRetention, methods{http.MethodGet: requires(s.answer(tenantEither, s.getRetention), agent.ActionRetentionRead)})
	s.route(pathRetention+"/run", write(s.runSweeps))
	s.route(pathRetention+"/pause", write(s.pauseSweeps))
	s.route(pathRetention+"/resume", write(s.resumeSweeps))
}

// getRetention is GET /v1/retention?page_size=&page_token=. A credential of every tenant that names no tenant gets a page of all.
func (s *httpServer) getRetention(c *Call) (any, error) {
	page := c.query.pageWithin(usualReportPage, maxReportPage)
	if err := cmp.Or(c.query.end(), checkText("page_token", page.Token, maxReportToken)); err != nil {
		return nil, err
	}
	return s.cfg.Retention.Report(c.bounded(), c.caller.lookupTenant(), page)
}

// runSweeps is POST /v1/retention/run: it starts the sweeps of all tenants now, unless they are running.
func (s *httpServer) runSweeps(c *Call) (any, error) {
	if err := c.readSweepsBody("run", &struct{}{}); err != nil {
		return nil, err
	}
	c.status = http.StatusAccepted
	return c.auditSweeps("run", s.cfg.Retention.Trigger)
}

func (s *httpServer) pauseSweeps(c *Call) (any, error) { return s.setSweepsPaused(c, "pause", true) }

func (s *httpServer) resumeSweeps(c *Call) (any, error) { return s.setSweepsPaused(c, "resume", false) }

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
	return c.auditSweeps(action, func(ctx context.Context) (retention.Status, error) { return s.cfg.Retention.Pause(ctx, paused, note) })
}

// readSweepsBody reads the body of a request that concerns all tenants. It refuses and audits credentials of a single tenant.
func (c *Call) readSweepsBody(action string, body any) error {
	if c.caller.isOfOneTenant() {
		c.audit(agent.AuditDenied, agent.ActionRetentionWrite, "retention/"+action, nil)
		return agent.Errorf(agent.CodeDenied, "", "the sweeps are of all tenants, and the credential is of tenant %q", c.caller.principal.Tenant)
	}
	return c.decodeIfAny(body)
}

// auditSweeps does something to the sweeps and audits that.
func (c *Call) auditSweeps(action string, do func(context.Context) (retention.Status, error)) (any, error) {
	status, err := do(c.bounded())
	if err != nil {
		return nil, err
	}
	c.audit(agent.AuditAllowed, agent.ActionRetentionWrite, "retention/"+action, nil)
	return status, nil
}
