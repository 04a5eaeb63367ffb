package catalog

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// view is what one tenant sees of a snapshot. Entries that did not change between snapshots are the same pointers.
type view struct {
	agents map[agentKey]*entry
	nodes  map[agent.DocumentKey]*entry
	usual  string // the default agent
}

func (s *snapshot) view(tenant string) view {
	v := view{agents: map[agentKey]*entry{}, nodes: make(map[agent.DocumentKey]*entry, len(s.nodes)), usual: s.defaultAgent(tenant)}
	for _, e := range s.visible(tenant) {
		v.agents[seenAs(tenant, e)] = e
	}
	for _, e := range s.nodes {
		v.nodes[e.doc.DocumentKey] = e
	}
	return v
}

// seenAs is the name under which a tenant knows an agent: its own name, whether it is shared or not.
func seenAs(tenant string, e *entry) agentKey {
	if tenant == agent.SharedTenant {
		return agentKey{e.doc.Tenant, e.doc.Name}
	}
	return agentKey{name: e.doc.Name}
}

// Watch yields the catalog as a tenant sees it, and then every change of it, nodes and agents, until ctx ends. It begins behind
// q.After where that is still known, else with a snapshot. A consumer that is slow stalls only itself: nothing is kept for it, and
// what changes meanwhile comes as one event.
func (r *Registry) Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error] {
	return func(yield func(agent.CatalogEvent, error) bool) {
		q.Tenant = cmp.Or(q.Tenant, agent.DefaultTenant)
		s, changed := r.now()
		before := s.view(q.Tenant)
		first := r.begin(s, before, q)
		if (first.Snapshot || !isEmpty(&first)) && !yield(first, nil) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			s, changed = r.now()
			after := s.view(q.Tenant)
			e := r.difference(s, before, after, q.Tenant)
			before = after
			if !isEmpty(&e) && !yield(e, nil) {
				return
			}
		}
	}
}

func isEmpty(e *agent.CatalogEvent) bool { return len(e.Nodes)+len(e.Agents)+len(e.Removed) == 0 }

// begin is the first event of a watch.
func (r *Registry) begin(s *snapshot, v view, q agent.WatchQuery) agent.CatalogEvent {
	if q.After <= 0 || q.After < s.oldest || q.After > s.revision || !r.resumable(s, q.After) {
		e := r.difference(s, view{}, v, q.Tenant)
		e.Snapshot = true
		return e
	}
	e := agent.CatalogEvent{Revision: s.revision, Nodes: []agent.NodeInfo{}, Agents: []agent.AgentInfo{}, Removed: []agent.RemovedEntry{}}
	for _, n := range s.nodes {
		if n.doc.Revision > q.After {
			e.Nodes = append(e.Nodes, r.nodeInfo(n))
		}
	}
	for _, a := range s.visible(q.Tenant) {
		info := r.info(s, a, q.Tenant)
		if info.Revision > q.After || s.uncovered(q.Tenant, a) > q.After {
			e.Agents = append(e.Agents, info)
		}
	}
	for k, revision := range s.gone {
		if revision > q.After {
			e.Removed = s.removed(e.Removed, k, q.Tenant, v)
		}
	}
	for _, a := range s.agents { // disabled since: gone for those who see it, shared ones of the name included
		if a.doc.Revision > q.After && a.instance().Disabled {
			e.Removed = s.removed(e.Removed, a.doc.DocumentKey, q.Tenant, v)
		}
	}
	sortRemoved(e.Removed)
	return e
}

// resumable reports whether what changed since a revision can be told from the documents alone. Which agent is the default, and what
// came back from the base layer, cannot.
func (r *Registry) resumable(s *snapshot, after int64) bool {
	for _, e := range s.tables {
		if e.doc.Revision > after {
			return false
		}
	}
	for k, revision := range s.gone {
		if _, below := r.base[k]; revision > after && (below || k.Kind == agent.KindRoutes) {
			return false
		}
	}
	return true
}

// uncovered is when the tenant's own agent went that had hidden a shared one.
func (s *snapshot) uncovered(tenant string, e *entry) int64 {
	if e.doc.Tenant != agent.SharedTenant || tenant == agent.SharedTenant {
		return 0
	}
	return s.gone[agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: e.doc.Name}]
}

// removed adds a key that is gone, unless the tenant never saw it or sees something else under the name.
func (s *snapshot) removed(to []agent.RemovedEntry, k agent.DocumentKey, tenant string, v view) []agent.RemovedEntry {
	switch k.Kind {
	case agent.KindNode:
		if _, there := v.nodes[k]; there {
			return to
		}
	case agent.KindAgent:
		name := agentKey{k.Tenant, k.Name}
		if tenant != agent.SharedTenant {
			if k.Tenant != tenant && k.Tenant != agent.SharedTenant {
				return to
			}
			name.tenant = ""
		}
		if _, there := v.agents[name]; there {
			return to
		}
	default:
		return to
	}
	r := agent.RemovedEntry(k)
	if slices.Contains(to, r) {
		return to
	}
	return append(to, r)
}

// difference is what changed between two views.
func (r *Registry) difference(s *snapshot, before, after view, tenant string) agent.CatalogEvent {
	e := agent.CatalogEvent{Revision: s.revision, Nodes: []agent.NodeInfo{}, Agents: []agent.AgentInfo{}, Removed: []agent.RemovedEntry{}}
	for _, n := range s.nodes {
		if before.nodes[n.doc.DocumentKey] != n {
			e.Nodes = append(e.Nodes, r.nodeInfo(n))
		}
	}
	for _, a := range s.visible(tenant) {
		usual := before.usual != after.usual && (a.doc.Name == before.usual || a.doc.Name == after.usual)
		if before.agents[seenAs(tenant, a)] != a || usual {
			e.Agents = append(e.Agents, r.info(s, a, tenant))
		}
	}
	for k := range before.nodes {
		if _, there := after.nodes[k]; !there {
			e.Removed = append(e.Removed, agent.RemovedEntry{Kind: agent.KindNode, Name: k.Name, Version: k.Version})
		}
	}
	for k, was := range before.agents {
		if _, there := after.agents[k]; !there {
			e.Removed = append(e.Removed, agent.RemovedEntry{Kind: agent.KindAgent, Tenant: was.doc.Tenant, Name: was.doc.Name})
		}
	}
	sortRemoved(e.Removed)
	return e
}

func sortRemoved(list []agent.RemovedEntry) {
	slices.SortFunc(list, func(a, b agent.RemovedEntry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
}
