package catalog

import (
	"cmp"
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// Collection returns the knowledge collection that a tenant means by a name, its own or a shared one as its Tenant says, and the model
// that its vectors are made by, nil when it has none: the one that searches of it use. [agent.CodeNotFound] with Field "collection" when
// there is none; [agent.CodeUnavailable] when its model cannot be had.
func (r *Registry) Collection(_ context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error) {
	g := gatherer{s: r.current.Load(), tenant: cmp.Or(tenant, agent.DefaultTenant), in: &inputs{}}
	ref := g.knowledge(name)
	if ref.entry == nil {
		return agent.KnowledgeCollection{}, nil, agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %q", name)
	}
	c := compiler{parts: r.cfg.Parts, e: ref.entry, in: g.in, out: &compiled{}}
	model := c.embedding(&ref, "embedding")
	if err := c.out.err(); err != nil {
		return agent.KnowledgeCollection{}, nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: fmt.Sprintf("embeddings of collection %q", name), Field: "collection", Err: c.out.faults,
		}
	}
	k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
	return *k, model, nil
}
