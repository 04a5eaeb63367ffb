package gateway

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// Erasures is the port of requests to erase one user's data.
type Erasures interface {
	// Create records a request and starts the erasure. If the user has an erasure that has not ended, it returns that one.
	Create(ctx context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error)
	// Get returns an erasure with its report. Its error is [agent.CodeNotFound] if the tenant has no such erasure.
	Get(ctx context.Context, tenant, id string) (erasure.Erasure, error)
	List(ctx context.Context, tenant string, p agent.Page) (erasure.Page, error)
}

// maxErasureID is the maximum length of the id of an erasure in bytes.
const maxErasureID = 128

const pathErasures = "/v1/erasures"

func (s *httpServer) routeErasures() {
	s.route(pathErasures, methods{
		http.MethodGet:  requires(s.answer(tenantHeaderFirst, s.getErasures), erasure.ActionRead),
		http.MethodPost: requires(s.answerWithoutQuery(tenantHeaderFirst, s.postErasure), erasure.ActionWrite),
	})
	s.route(pathErasures+"/{id}", methods{http.MethodGet: requires(s.answerWithoutQuery(tenantHeaderFirst, s.getErasure), erasure.ActionRead)})
}

// postErasure is POST /v1/erasures. The audit trail gets the request without the user's id.
func (s *httpServer) postErasure(c *Call) (any, error) {
	var body erasure.Request
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	var err error
	if body.Tenant, err = c.tenantOfBody(body.Tenant); err != nil {
		return nil, err
	}
	if err := body.Validate(); err != nil {
		return nil, err
	}
	e, err := s.cfg.Erasures.Create(c.callContext(), body, c.Principal())
	if err != nil {
		return nil, err
	}
	c.caller.tenant = e.Tenant
	c.audit(agent.AuditAllowed, erasure.ActionWrite, "erasure/"+e.ID, facts{"dry_run": e.DryRun})
	c.w.Header().Set("Location", pathErasures+"/"+e.ID)
	c.status = http.StatusAccepted
	return e, nil
}

// getErasure is GET /v1/erasures/{id}.
func (s *httpServer) getErasure(c *Call) (any, error) {
	id := c.r.PathValue("id")
	if len(id) > maxErasureID {
		return nil, agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %.140q", id)
	}
	return s.cfg.Erasures.Get(c.callContext(), c.Tenant(), id)
}

// getErasures is GET /v1/erasures?page_size=&page_token=.
func (s *httpServer) getErasures(c *Call) (any, error) {
	page, err := c.storePage()
	if err != nil {
		return nil, err
	}
	found, err := s.cfg.Erasures.List(c.callContext(), c.Tenant(), page)
	found.Erasures = orEmpty(found.Erasures)
	return found, err
}
