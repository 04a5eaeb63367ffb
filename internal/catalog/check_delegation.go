package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// checkDelegation adds faults for delegates that do not exist, and for agents that delegate in a cycle, as any tenant sees them.
func (c *checker) checkDelegation() {
	if !c.agents {
		return
	}
	scopes := map[string]bool{agent.SharedTenant: true}
	for _, e := range c.s.agents {
		scopes[e.doc.Tenant] = true
		for i, name := range e.instance().Delegates {
			gone := c.s.agent(e.doc.Tenant, name) == nil
			if gone && (c.changed[e.doc.DocumentKey] || c.existedBefore(e.doc.Tenant, name)) {
				c.addFault(e, fmt.Sprintf("delegates[%d]", i), "there is no agent %q", name)
			}
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(scopes)) {
		walk := cycleFinder{c: c, tenant: tenant, done: map[*entry]bool{}}
		for _, e := range c.s.agents {
			if e.doc.Tenant == tenant || (e.doc.Tenant == agent.SharedTenant && c.s.agent(tenant, e.doc.Name) == e) {
				walk.visit(e, nil)
			}
		}
	}
}

// cycleFinder visits the agents that a tenant sees, each once, along their delegates.
type cycleFinder struct {
	c      *checker
	tenant string
	done   map[*entry]bool
}

func (w *cycleFinder) visit(e *entry, way []*entry) {
	if at := slices.Index(way, e); at >= 0 {
		w.addFault(append(slices.Clone(way[at:]), e))
		return
	}
	if e == nil || w.done[e] {
		return
	}
	way = append(way, e)
	for _, name := range e.instance().Delegates {
		w.visit(w.c.s.agent(w.tenant, name), way)
	}
	w.done[e] = true
}

// addFault reports a cycle at one of its agents, one that changed if there is any.
func (w *cycleFinder) addFault(circle []*entry) {
	at := max(slices.IndexFunc(circle, func(e *entry) bool { return w.c.changed[e.doc.DocumentKey] }), 0)
	names := []string{}
	ring := circle[:len(circle)-1]
	for i := range circle {
		names = append(names, ring[(at%len(ring)+i)%len(ring)].doc.Name)
	}
	next := slices.Index(circle[at].instance().Delegates, names[1])
	f := circle[at].parsed.Fault(fmt.Sprintf("delegates[%d]", next), "agents delegate in a circle: %s", strings.Join(names, " → "))
	if !slices.Contains(w.c.faults, f) {
		w.c.faults = append(w.c.faults, f)
	}
}

// existedBefore reports whether the tenant saw an agent of that name before the change.
func (c *checker) existedBefore(tenant, name string) bool {
	return c.before != nil && c.before.agent(tenant, name) != nil
}
