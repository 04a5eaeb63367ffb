package catalog

import (
	"cmp"
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// AuthProfile returns the auth profile that a tenant means by a name, as a plan holds it: references to secrets. [agent.CodeNotFound] with Field
// "auth" when there is none.
func (r *Registry) AuthProfile(_ context.Context, tenant, name string) (agent.PlanAuth, error) {
	g := gatherer{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := g.find(agent.KindAuth, name)
	c := compiler{parts: r.cfg.Parts, e: ref.entry, in: g.in, out: &compiled{}}
	if ref.entry == nil {
		return agent.PlanAuth{}, agent.FieldErrorf(agent.CodeNotFound, "auth", "there is no auth profile %q", name)
	}
	auth, _ := c.auth(&ref, "auth")
	return auth, nil
}
