package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// checkDelegation adds faults for delegates that do not exist and for cycles of delegation. It looks for cycles once for each tenant, because
// tenants see different agents under the same name.
func (c *checker) checkDelegation() {
	if !c.agentsChanged {
		return
	}
	tenants := map[string]bool{agent.SharedTenant: true}
	for _, e := range c.s.agents {
		tenants[e.doc.Tenant] = true
		for i, name := range e.instance().Delegates {
			isMissing := c.s.agent(e.doc.Tenant, name) == nil
			if isMissing && (c.changed[e.doc.DocumentKey] || c.existedBefore(e.doc.Tenant, name)) {
				c.addFault(e, fmt.Sprintf("delegates[%d]", i), "there is no agent %q", name)
			}
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		finder := cycleFinder{checker: c, tenant: tenant, visited: map[*entry]bool{}}
		for _, e := range c.s.agents {
			if e.doc.Tenant == tenant || (e.doc.Tenant == agent.SharedTenant && c.s.agent(tenant, e.doc.Name) == e) {
				finder.visit(e, nil)
			}
		}
	}
}

// cycleFinder is a depth-first search along the delegates that a tenant sees.
type cycleFinder struct {
	checker *checker
	tenant  string
	visited map[*entry]bool
}

// visit searches the delegates of e. path has the agents from the start of the search to e.
func (f *cycleFinder) visit(e *entry, path []*entry) {
	if start := slices.Index(path, e); start >= 0 {
		f.addFault(path[start:])
		return
	}
	if e == nil || f.visited[e] {
		return
	}
	path = append(path, e)
	for _, name := range e.instance().Delegates {
		f.visit(f.checker.s.agent(f.tenant, name), path)
	}
	f.visited[e] = true
}

// addFault adds a fault for a cycle. It names the first agent of the cycle that the change contains.
func (f *cycleFinder) addFault(cycle []*entry) {
	first := max(slices.IndexFunc(cycle, func(e *entry) bool { return f.checker.changed[e.doc.DocumentKey] }), 0)
	cycle = slices.Concat(cycle[first:], cycle[:first+1])
	names := make([]string, len(cycle))
	for i, e := range cycle {
		names[i] = e.doc.Name
	}
	index := slices.Index(cycle[0].instance().Delegates, names[1])
	fault := cycle[0].parsed.Fault(fmt.Sprintf("delegates[%d]", index), "agents delegate in a circle: %s", strings.Join(names, " → "))
	if !slices.Contains(f.checker.faults, fault) {
		f.checker.faults = append(f.checker.faults, fault)
	}
}

// existedBefore reports whether the tenant saw an agent of that name before the change.
func (c *checker) existedBefore(tenant, name string) bool {
	return c.before != nil && c.before.agent(tenant, name) != nil
}
