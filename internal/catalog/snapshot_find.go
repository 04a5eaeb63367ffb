package catalog

import (
	"cmp"
	"slices"

	"golang.org/x/mod/semver"

	"github.com/turnstone-run/turnstone/agent"
)

// compareKeys orders documents by kind, tenant, name and version.
func compareKeys(a, b agent.DocumentKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), compareVersions(a.Version, b.Version))
}

// compareVersions orders versions. Semantic versions, also short ones (1, 1.2), come after all other texts.
func compareVersions(a, b string) int {
	va, vb := "v"+a, "v"+b
	switch {
	case semver.IsValid(va) != semver.IsValid(vb):
		if semver.IsValid(va) {
			return 1
		}
		return -1
	case semver.IsValid(va):
		return cmp.Or(semver.Compare(va, vb), cmp.Compare(a, b))
	default:
		return cmp.Compare(a, b)
	}
}

// find returns the document that a tenant sees under a name: its own or else the shared one, nil if there is neither. It appends the keys
// that it looks up to keys, unless keys is nil.
func (s *snapshot) find(kind agent.Kind, tenant, name string, keys *[]agent.DocumentKey) *entry {
	for _, t := range tenantScopes(tenant) {
		k := agent.DocumentKey{Kind: kind, Tenant: t, Name: name}
		if keys != nil {
			*keys = append(*keys, k)
		}
		if e, ok := s.docs[k]; ok {
			return e
		}
	}
	return nil
}

// tenantScopes returns the tenants whose documents a tenant sees, its own first.
func tenantScopes(tenant string) []string {
	if tenant == agent.SharedTenant {
		return []string{agent.SharedTenant}
	}
	return []string{tenant, agent.SharedTenant}
}

// agent returns the agent that a tenant sees under a name, nil if there is none or the agent is disabled.
func (s *snapshot) agent(tenant, name string) *entry {
	e := s.find(agent.KindAgent, tenant, name, nil)
	if e == nil || e.instance().Disabled {
		return nil
	}
	return e
}

// visibleAgents returns the agents that a tenant sees, sorted by name. [agent.SharedTenant] sees the agents of every tenant, sorted by tenant
// and name.
func (s *snapshot) visibleAgents(tenant string) []*entry {
	if tenant == agent.SharedTenant {
		return slices.DeleteFunc(slices.Clone(s.agents), func(e *entry) bool { return e.instance().Disabled })
	}
	own := s.agentsOf(tenant)
	hidden := make(map[string]bool, len(own))
	var out []*entry
	for _, e := range own {
		hidden[e.doc.Name] = true
		if !e.instance().Disabled {
			out = append(out, e)
		}
	}
	for _, e := range s.agentsOf(agent.SharedTenant) {
		if !hidden[e.doc.Name] && !e.instance().Disabled {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.doc.Name, b.doc.Name) })
	return out
}

// agentsOf returns the agents of one tenant, including disabled ones.
func (s *snapshot) agentsOf(tenant string) []*entry {
	byTenant := func(e *entry, tenant string) int { return cmp.Compare(e.doc.Tenant, tenant) }
	from, _ := slices.BinarySearchFunc(s.agents, tenant, byTenant)
	to := from
	for to < len(s.agents) && s.agents[to].doc.Tenant == tenant {
		to++
	}
	return s.agents[from:to]
}
