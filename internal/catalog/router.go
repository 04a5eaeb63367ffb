package catalog

import (
	"context"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// routers has the compiled routes of a snapshot: one router for each tenant with tables of its own, and one for all others.
type routers struct {
	own    map[string][]*agent.RouteTable
	shared []*agent.RouteTable

	mu       sync.Mutex
	byTenant map[string]Router // "": tenants without tables of their own
}

// newRouters groups the tables by tenant. A stored shared default agent replaces that of the base layer.
func newRouters(s *snapshot) *routers {
	r := &routers{own: map[string][]*agent.RouteTable{}, byTenant: map[string]Router{}}
	override := false
	for _, e := range s.tables {
		override = override || (e.stored() && e.doc.Tenant == agent.SharedTenant && e.table().DefaultAgent != "")
	}
	for _, e := range s.tables {
		t := e.table()
		switch {
		case t.Tenant != agent.SharedTenant:
			r.own[t.Tenant] = append(r.own[t.Tenant], t)
		case override && !e.stored():
			without := *t
			without.DefaultAgent = ""
			r.shared = append(r.shared, &without)
		default:
			r.shared = append(r.shared, t)
		}
	}
	return r
}

// routerFor returns the router of a tenant, which is compiled on first use.
func (r *routers) routerFor(routes Routes, tenant string) (Router, error) {
	own := r.own[tenant]
	if len(own) == 0 {
		tenant = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.byTenant[tenant]; ok {
		return found, nil
	}
	made, err := routes.Router(own, r.shared)
	if err == nil {
		r.byTenant[tenant] = made
	}
	return made, err
}

// defaultAgent returns the agent for requests of a tenant that name none and match no rule, empty if there is none.
func (s *snapshot) defaultAgent(tenant string) string {
	for _, tables := range [][]*agent.RouteTable{s.routers.own[tenant], s.routers.shared} {
		for _, t := range tables {
			if t.DefaultAgent != "" && s.agent(tenant, t.DefaultAgent) != nil {
				return t.DefaultAgent
			}
		}
	}
	return ""
}

// Choose returns which agent answers a request, without explanations. Its error is [agent.CodeNotFound] with Field "agent" if no rule
// matches and there is no default.
func (r *Registry) Choose(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	d, err := r.decide(c, false)
	if err != nil {
		return d, err
	}
	if d.Agent == "" {
		return d, agent.FieldErrorf(agent.CodeNotFound, "agent", "no rule matches and tenant %q has no default agent: name one", c.TenantName())
	}
	return d, nil
}

// Routed counts a decision in the metrics.
func (r *Registry) Routed(d *agent.RouteDecision) { r.metrics.countDecision(d) }

// Route is a dry run of Choose that explains every rule. It is no error if no agent is chosen.
func (r *Registry) Route(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	if c.Agent != "" && r.current.Load().agent(c.TenantName(), c.Agent) == nil {
		return agent.RouteDecision{}, unknownAgent(c.Agent)
	}
	return r.decide(c, true)
}

// available reports whether a tenant has an agent, and whether the agent has the model if one is given.
func (r *Registry) available(s *snapshot, tenant, name, model string) bool {
	e := s.agent(tenant, name)
	if e == nil || model == "" {
		return e != nil
	}
	_, err := r.compiled(s, e).plan.Model(model)
	return err == nil
}

func (r *Registry) decide(c agent.RouteContext, explain bool) (agent.RouteDecision, error) {
	s := r.current.Load()
	tenant := c.TenantName()
	router, err := s.routers.routerFor(r.cfg.Routes, tenant)
	if err != nil {
		return agent.RouteDecision{}, err
	}
	c.Tenant = tenant
	d := router.Decide(c, func(name, model string) bool { return r.available(s, tenant, name, model) }, explain)
	d.Revision = s.revision
	return d, nil
}
