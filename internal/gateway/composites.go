package gateway

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// Composites is the port of the tools that were made of repeated pipelines.
type Composites interface {
	// Composites lists the composites of a tenant by name, including disabled ones.
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	// ChangeComposite changes the composite with a name or an id. Its error is [agent.CodeNotFound] with Field "composite" if there is none, and
	// [agent.CodeConflict] with Field "name" if another one has the new name.
	ChangeComposite(ctx context.Context, tenant, nameOrID string, c agent.CompositeChange) (agent.Composite, error)
}

func (s *httpServer) routeComposites() {
	const all = "/v1/tools/composites"
	s.route(all, methods{http.MethodGet: requires(s.answerWithoutQuery(tenantUnambiguous, s.getComposites), agent.ActionToolsRead)})
	s.route(all+"/{name}", methods{http.MethodPatch: requires(s.answerWithoutQuery(tenantUnambiguous, s.patchComposite), agent.ActionToolsWrite)})
}

// getComposites is GET /v1/tools/composites.
func (s *httpServer) getComposites(c *Call) (any, error) {
	found, err := s.cfg.Composites.Composites(c.callContext(), c.Tenant())
	return struct {
		Composites []agent.Composite `json:"composites"`
	}{orEmpty(found)}, err
}

// patchComposite is PATCH /v1/tools/composites/{name}, with a name or an id.
func (s *httpServer) patchComposite(c *Call) (any, error) {
	name := c.r.PathValue("name")
	if checkLine("", name, maxText) != nil {
		return nil, agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %.140q", name)
	}
	var change agent.CompositeChange
	if err := c.decode(&change); err != nil {
		return nil, err
	}
	if change == (agent.CompositeChange{}) {
		return nil, agent.Invalid("", "there is nothing to change: want name, description or enabled")
	}
	changed, err := s.cfg.Composites.ChangeComposite(c.callContext(), c.Tenant(), name, change)
	c.caller.auditChange(agent.ActionToolsWrite, name, nil, err)
	return changed, err
}
