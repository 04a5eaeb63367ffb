package catalog

import (
	"context"
	"slices"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// routers has the routers of a snapshot: one for each tenant with route tables of its own, and one for all other tenants.
type routers struct {
	tables map[string][]*agent.RouteTable // by tenant, also [agent.SharedTenant]

	mu       sync.Mutex
	byTenant map[string]Router // [agent.SharedTenant] for tenants without tables of their own
}

// newRouters groups the tables by tenant. A stored shared default agent replaces that of the base layer.
func newRouters(s *snapshot) *routers {
	r := &routers{tables: map[string][]*agent.RouteTable{}, byTenant: map[string]Router{}}
	hasStoredDefault := slices.ContainsFunc(s.tables, func(e *entry) bool {
		return e.isStored() && e.doc.Tenant == agent.SharedTenant && e.table().DefaultAgent != ""
	})
	for _, e := range s.tables {
		t := e.table()
		if hasStoredDefault && t.Tenant == agent.SharedTenant && !e.isStored() {
			withoutDefault := *t
			withoutDefault.DefaultAgent = ""
			t = &withoutDefault
		}
		r.tables[t.Tenant] = append(r.tables[t.Tenant], t)
	}
	return r
}

// routerFor returns the router of a tenant. It compiles the router on first use.
func (r *routers) routerFor(routes Routes, tenant string) (Router, error) {
	tenantTables, key := r.tables[tenant], tenant
	if len(tenantTables) == 0 || tenant == agent.SharedTenant {
		tenantTables, key = nil, agent.SharedTenant
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if router, ok := r.byTenant[key]; ok {
		return router, nil
	}
	router, err := routes.Router(tenantTables, r.tables[agent.SharedTenant])
	if err == nil {
		r.byTenant[key] = router
	}
	return router, err
}

// defaultAgent returns the agent for requests of a tenant that name no agent and match no rule, empty if there is none.
func (s *snapshot) defaultAgent(tenant string) string {
	for _, scope := range tenantScopes(tenant) {
		for _, t := range s.routers.tables[scope] {
			if t.DefaultAgent != "" && s.agent(tenant, t.DefaultAgent) != nil {
				return t.DefaultAgent
			}
		}
	}
	return ""
}

// Choose returns the agent that answers a request, without explanations. Its error is [agent.CodeNotFound] with Field "agent" if no rule
// matches and there is no default agent.
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

// Route makes the same decision as [Registry.Choose] and explains every rule. It does not fail if no agent is chosen.
func (r *Registry) Route(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	if c.Agent != "" && r.current.Load().agent(c.TenantName(), c.Agent) == nil {
		return agent.RouteDecision{}, unknownAgent(c.Agent)
	}
	return r.decide(c, true)
}

// isAvailable reports whether a tenant has an agent, and whether the agent has the model, unless model is empty.
func (r *Registry) isAvailable(s *snapshot, tenant, name, model string) bool {
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
	d := router.Decide(c, func(name, model string) bool { return r.isAvailable(s, tenant, name, model) }, explain)
	d.Revision = s.revision
	return d, nil
}
