package catalog

import (
	"cmp"
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// AuthProfile returns the auth profile that a tenant sees under a name, in the form that plans use: with references to secrets. Its error
// is [agent.CodeNotFound] with Field "auth" if there is none.
func (r *Registry) AuthProfile(_ context.Context, tenant, name string) (agent.PlanAuth, error) {
	l := documentLookup{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := l.find(agent.KindAuth, name)
	if ref.entry == nil {
		return agent.PlanAuth{}, agent.FieldErrorf(agent.CodeNotFound, "auth", "there is no auth profile %q", name)
	}
	auth, _ := newCompiler(r.cfg.Parts, ref.entry, l.in).planAuth(&ref, "auth")
	return auth, nil
}

// Collection returns the knowledge collection that a tenant sees under a name, and its embedding model, nil if it has none. Tenant in the
// result says whether the collection is shared. The error is [agent.CodeNotFound] with Field "collection" if there is no collection,
// [agent.CodeUnavailable] if its model cannot be used.
func (r *Registry) Collection(_ context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error) {
	l := documentLookup{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := l.findKnowledge(name)
	if ref.entry == nil {
		return agent.KnowledgeCollection{}, nil, agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %q", name)
	}
	c := newCompiler(r.cfg.Parts, ref.entry, l.in)
	model := c.embeddingModel(&ref, "embedding")
	if len(c.out.faults) > 0 {
		return agent.KnowledgeCollection{}, nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: fmt.Sprintf("embeddings of collection %q", name), Field: "collection", Err: c.out.faults,
		}
	}
	k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
	return *k, model, nil
}
