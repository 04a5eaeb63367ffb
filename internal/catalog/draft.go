package catalog

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// CompileDraft compiles the document of an agent as if it were applied, and stores the plan under its hash. The catalog does not list the
// draft. CompileDraft returns the error of allow, if any, before it stores anything. Other errors are those of [Registry.Apply], and
// [agent.CodeInvalid] with Field "draft" unless the text is one enabled AgentInstance that the tenant may use.
func (r *Registry) CompileDraft(ctx context.Context, tenant, text string, allow func(agent.DocumentKey) error) (agent.Draft, error) {
	d, err := parseDraft(tenant, text)
	if err != nil {
		return agent.Draft{}, err
	}
	if err := allow(d.Key); err != nil {
		return agent.Draft{}, err
	}
	s := r.current.Load()
	e := &entry{doc: agent.Document{DocumentKey: d.Key, Body: d.Body, Revision: s.revision + 1, Source: agent.SourceAPI}, parsed: d}
	candidate := s.next(r.base, &change{revision: s.revision + 1, oldest: s.oldest, put: []*entry{e}})
	if err := r.check(s, candidate, []agent.DocumentKey{d.Key}).Err(); err != nil {
		return agent.Draft{}, err
	}
	c := r.compiled(candidate, e)
	if _, err := r.savePlan(ctx, c.hash, &c.plan, c.body); err != nil {
		return agent.Draft{}, err
	}
	return agent.Draft{Text: text, Agent: d.Key.Name, PlanHash: c.hash, Revision: s.revision}, nil
}

func parseDraft(tenant, text string) (*manifest.Document, error) {
	documents, faults := manifest.Parse([]agent.ManifestFile{{Name: "draft", Tenant: tenant, Data: []byte(text)}})
	if err := faults.Err(); err != nil {
		return nil, err
	}
	if len(documents) != 1 || documents[0].Key.Kind != agent.KindAgent {
		return nil, agent.Invalid("draft", "want one AgentInstance")
	}
	d := documents[0]
	switch inst, _ := d.Value.(*agent.AgentInstance); {
	case d.Key.Tenant != tenant && d.Key.Tenant != agent.SharedTenant:
		return nil, agent.Invalid("draft", "is of tenant %q, and the turn of %q", d.Key.Tenant, tenant)
	case inst.Disabled:
		return nil, agent.Invalid("draft", "is disabled")
	}
	return d, nil
}
