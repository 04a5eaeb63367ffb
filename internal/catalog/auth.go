package catalog

import (
	"cmp"
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// AuthProfile returns the auth profile that a tenant sees under a name, as a plan holds it: with references to secrets. Its error is
// [agent.CodeNotFound] with Field "auth" if there is none.
func (r *Registry) AuthProfile(_ context.Context, tenant, name string) (agent.PlanAuth, error) {
	g := gatherer{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := g.find(agent.KindAuth, name)
	c := compiler{parts: r.cfg.Parts, e: ref.entry, in: g.in, out: &compiled{}}
	if ref.entry == nil {
		return agent.PlanAuth{}, agent.FieldErrorf(agent.CodeNotFound, "auth", "there is no auth profile %q", name)
	}
	auth, _ := c.planAuth(&ref, "auth")
	return auth, nil
}
