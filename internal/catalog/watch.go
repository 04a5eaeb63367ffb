package catalog

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// view is what one tenant sees of a snapshot. Entries that did not change are the same pointers in the next view.
type view struct {
	agents       map[agentKey]*entry
	nodes        map[agent.DocumentKey]*entry
	defaultAgent string
}

func (s *snapshot) viewOf(tenant string) view {
	v := view{agents: map[agentKey]*entry{}, nodes: make(map[agent.DocumentKey]*entry, len(s.nodes)), defaultAgent: s.defaultAgent(tenant)}
	for _, e := range s.visible(tenant) {
		v.agents[agentKeyFor(tenant, e)] = e
	}
	for _, e := range s.nodes {
		v.nodes[e.doc.DocumentKey] = e
	}
	return v
}

// agentKeyFor returns the key of an agent in a tenant's view: its name, or tenant and name for [agent.SharedTenant].
func agentKeyFor(tenant string, e *entry) agentKey {
	if tenant == agent.SharedTenant {
		return agentKey{e.doc.Tenant, e.doc.Name}
	}
	return agentKey{name: e.doc.Name}
}

// Watch yields the nodes and agents that a tenant sees and then their changes until ctx ends. It begins after q.After if that is still
// known, otherwise with a snapshot. A slow consumer delays only itself: it gets all changes since its last event as one event.
func (r *Registry) Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error] {
	return func(yield func(agent.CatalogEvent, error) bool) {
		q.Tenant = cmp.Or(q.Tenant, agent.DefaultTenant)
		s, changed := r.currentAndNext()
		before := s.viewOf(q.Tenant)
		first := r.firstEvent(s, before, q)
		if (first.Snapshot || !isEmpty(&first)) && !yield(first, nil) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			s, changed = r.currentAndNext()
			after := s.viewOf(q.Tenant)
			e := r.eventBetween(s, before, after, q.Tenant)
			before = after
			if !isEmpty(&e) && !yield(e, nil) {
				return
			}
		}
	}
}

func isEmpty(e *agent.CatalogEvent) bool { return len(e.Nodes)+len(e.Agents)+len(e.Removed) == 0 }

// firstEvent returns the first event of a watch.
func (r *Registry) firstEvent(s *snapshot, v view, q agent.WatchQuery) agent.CatalogEvent {
	if q.After <= 0 || q.After < s.oldest || q.After > s.revision || !r.canResume(s, q.After) {
		e := r.eventBetween(s, view{}, v, q.Tenant)
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
		info := r.agentInfo(s, a, q.Tenant)
		if info.Revision > q.After || s.uncoveredAt(q.Tenant, a) > q.After {
			e.Agents = append(e.Agents, info)
		}
	}
	for k, revision := range s.gone {
		if revision > q.After {
			e.Removed = s.appendRemoved(e.Removed, k, q.Tenant, v)
		}
	}
	for _, a := range s.agents { // disabled since: removed for its tenant, with the shared agent of that name
		if a.doc.Revision > q.After && a.instance().Disabled {
			e.Removed = s.appendRemoved(e.Removed, a.doc.DocumentKey, q.Tenant, v)
		}
	}
	sortRemoved(e.Removed)
	return e
}

// canResume reports whether the documents alone tell what changed since a revision. They do not tell which agent is the default, nor what
// came back from the base layer.
func (r *Registry) canResume(s *snapshot, after int64) bool {
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

// uncoveredAt returns the revision that deleted the tenant's own agent which had hidden a shared one, 0 if there was none.
func (s *snapshot) uncoveredAt(tenant string, e *entry) int64 {
	if e.doc.Tenant != agent.SharedTenant || tenant == agent.SharedTenant {
		return 0
	}
	return s.gone[agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: e.doc.Name}]
}

// appendRemoved appends a deleted key, unless the tenant never saw it or sees something else under its name.
func (s *snapshot) appendRemoved(to []agent.RemovedEntry, k agent.DocumentKey, tenant string, v view) []agent.RemovedEntry {
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

// eventBetween returns the changes between two views.
func (r *Registry) eventBetween(s *snapshot, before, after view, tenant string) agent.CatalogEvent {
	e := agent.CatalogEvent{Revision: s.revision, Nodes: []agent.NodeInfo{}, Agents: []agent.AgentInfo{}, Removed: []agent.RemovedEntry{}}
	for _, n := range s.nodes {
		if before.nodes[n.doc.DocumentKey] != n {
			e.Nodes = append(e.Nodes, r.nodeInfo(n))
		}
	}
	for _, a := range s.visible(tenant) {
		defaultChanged := before.defaultAgent != after.defaultAgent && (a.doc.Name == before.defaultAgent || a.doc.Name == after.defaultAgent)
		if before.agents[agentKeyFor(tenant, a)] != a || defaultChanged {
			e.Agents = append(e.Agents, r.agentInfo(s, a, tenant))
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
