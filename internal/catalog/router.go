package catalog

import (
	"context"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// routers holds the compiled routes of a snapshot: one per tenant that has tables of its own, one for all the others.
type routers struct {
	own    map[string][]*agent.RouteTable
	shared []*agent.RouteTable

	mu       sync.Mutex
	byTenant map[string]Router // "": those without tables of their own
}

// newRouters sorts the tables. A default agent of the base layer steps back behind one that is stored.
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

// of returns the router of a tenant, compiling it on first use.
func (r *routers) of(routes Routes, tenant string) (Router, error) {
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

// defaultAgent is the agent that answers a tenant's requests when they name none and no rule matches.
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

// Choose decides which agent answers, without explaining the rules. When no rule matches and there is no default, it is
// [agent.CodeNotFound] with Field "agent".
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

// Routed counts a decision.
func (r *Registry) Routed(d *agent.RouteDecision) { r.metrics.decided(d) }

// Route is a dry run of Choose: every rule with the reason why it did or did not match. That there is no agent is no error.
func (r *Registry) Route(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	if c.Agent != "" && r.current.Load().agent(c.TenantName(), c.Agent) == nil {
		return agent.RouteDecision{}, unknownAgent(c.Agent)
	}
	return r.decide(c, true)
}

// available reports whether a tenant's requests can be routed to an agent, and to a model of it when one is named.
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
	router, err := s.routers.of(r.cfg.Routes, tenant)
	if err != nil {
		return agent.RouteDecision{}, err
	}
	c.Tenant = tenant
	d := router.Decide(c, func(name, model string) bool { return r.available(s, tenant, name, model) }, explain)
	d.Revision = s.revision
	return d, nil
}
