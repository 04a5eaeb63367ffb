package catalog

import (
	"cmp"
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// AuthProfile returns the auth profile that a tenant sees under a name, as a plan holds it: with references to secrets. Its error is
// [agent.CodeNotFound] with Field "auth" if there is none.
func (r *Registry) AuthProfile(_ context.Context, tenant, name string) (agent.PlanAuth, error) {
	g := documentLookup{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := g.find(agent.KindAuth, name)
	c := compiler{parts: r.cfg.Parts, e: ref.entry, in: g.in, out: &compiledPlan{}}
	if ref.entry == nil {
		return agent.PlanAuth{}, agent.FieldErrorf(agent.CodeNotFound, "auth", "there is no auth profile %q", name)
	}
	auth, _ := c.planAuth(&ref, "auth")
	return auth, nil
}

// Collection returns the knowledge collection that a tenant sees under a name, its own or a shared one as its Tenant says, and the model of
// its vectors, nil if it has none. Its error is [agent.CodeNotFound] with Field "collection" if there is none, [agent.CodeUnavailable] if its
// model cannot be used.
func (r *Registry) Collection(_ context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error) {
	g := documentLookup{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := g.findKnowledge(name)
	if ref.entry == nil {
		return agent.KnowledgeCollection{}, nil, agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %q", name)
	}
	c := compiler{parts: r.cfg.Parts, e: ref.entry, in: g.in, out: &compiledPlan{}}
	model := c.embeddingModel(&ref, "embedding")
	if err := c.out.err(); err != nil {
		return agent.KnowledgeCollection{}, nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: fmt.Sprintf("embeddings of collection %q", name), Field: "collection", Err: c.out.faults,
		}
	}
	k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
	return *k, model, nil
}
