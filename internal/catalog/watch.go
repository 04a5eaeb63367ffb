package catalog

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// view is the part of a snapshot that one tenant sees. Unchanged entries are the same pointers in the next view.
type view struct {
	agents       map[agentKey]*entry
	nodes        map[agent.DocumentKey]*entry
	defaultAgent string
}

func (s *snapshot) viewOf(tenant string) view {
	v := view{agents: map[agentKey]*entry{}, nodes: make(map[agent.DocumentKey]*entry, len(s.nodes)), defaultAgent: s.defaultAgent(tenant)}
	for _, e := range s.visibleAgents(tenant) {
		v.agents[viewKey(tenant, e.doc.DocumentKey)] = e
	}
	for _, e := range s.nodes {
		v.nodes[e.doc.DocumentKey] = e
	}
	return v
}

// viewKey returns the key of an agent in a tenant's view: its name, or tenant and name in the view of [agent.SharedTenant].
func viewKey(tenant string, k agent.DocumentKey) agentKey {
	if tenant == agent.SharedTenant {
		return agentKey{k.Tenant, k.Name}
	}
	return agentKey{name: k.Name}
}

// Watch yields the nodes and agents that a tenant sees, and then their changes until ctx ends. It resumes after revision q.After if it can,
// otherwise it begins with a snapshot. A slow consumer gets all changes since its last event as one event.
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

// firstEvent returns the first event of a watch: the changes after q.After if they can be told, otherwise a snapshot.
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
	for _, a := range s.visibleAgents(q.Tenant) {
		info := r.agentInfo(s, a, q.Tenant)
		if info.Revision > q.After || s.ownAgentDeletedAt(q.Tenant, a) > q.After {
			e.Agents = append(e.Agents, info)
		}
	}
	for k, revision := range s.deleted {
		if revision > q.After {
			e.Removed = appendRemoved(e.Removed, k, q.Tenant, v)
		}
	}
	for _, a := range s.agents { // a disabled agent is removed for its tenant, and hides the shared agent of its name
		if a.doc.Revision > q.After && a.instance().Disabled {
			e.Removed = appendRemoved(e.Removed, a.doc.DocumentKey, q.Tenant, v)
		}
	}
	sortRemoved(e.Removed)
	return e
}

// canResume reports whether the revisions of the documents show all changes after a revision. They do not show a change of the default agent,
// nor a base document that reappeared.
func (r *Registry) canResume(s *snapshot, after int64) bool {
	for _, e := range s.tables {
		if e.doc.Revision > after {
			return false
		}
	}
	for k, revision := range s.deleted {
		if _, inBase := r.base[k]; revision > after && (inBase || k.Kind == agent.KindRoutes) {
			return false
		}
	}
	return true
}

// ownAgentDeletedAt returns the revision that deleted the tenant's own agent that had hidden shared agent e, 0 if there was none.
func (s *snapshot) ownAgentDeletedAt(tenant string, e *entry) int64 {
	if e.doc.Tenant != agent.SharedTenant || tenant == agent.SharedTenant {
		return 0
	}
	return s.deleted[agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: e.doc.Name}]
}

// appendRemoved appends a removed document unless the tenant never saw it or sees another document under its name.
func appendRemoved(list []agent.RemovedEntry, k agent.DocumentKey, tenant string, v view) []agent.RemovedEntry {
	var stillVisible bool
	switch k.Kind {
	case agent.KindNode:
		_, stillVisible = v.nodes[k]
	case agent.KindAgent:
		if tenant != agent.SharedTenant && k.Tenant != tenant && k.Tenant != agent.SharedTenant {
			return list
		}
		_, stillVisible = v.agents[viewKey(tenant, k)]
	default:
		return list
	}
	if stillVisible || slices.Contains(list, agent.RemovedEntry(k)) {
		return list
	}
	return append(list, agent.RemovedEntry(k))
}

// eventBetween returns the changes between two views.
func (r *Registry) eventBetween(s *snapshot, before, after view, tenant string) agent.CatalogEvent {
	e := agent.CatalogEvent{Revision: s.revision, Nodes: []agent.NodeInfo{}, Agents: []agent.AgentInfo{}, Removed: []agent.RemovedEntry{}}
	for _, n := range s.nodes {
		if before.nodes[n.doc.DocumentKey] != n {
			e.Nodes = append(e.Nodes, r.nodeInfo(n))
		}
	}
	for _, a := range s.visibleAgents(tenant) {
		defaultChanged := (a.doc.Name == before.defaultAgent) != (a.doc.Name == after.defaultAgent)
		if before.agents[viewKey(tenant, a.doc.DocumentKey)] != a || defaultChanged {
			e.Agents = append(e.Agents, r.agentInfo(s, a, tenant))
		}
	}
	for k := range before.nodes {
		if _, exists := after.nodes[k]; !exists {
			e.Removed = append(e.Removed, agent.RemovedEntry{Kind: agent.KindNode, Name: k.Name, Version: k.Version})
		}
	}
	for k, a := range before.agents {
		if _, exists := after.agents[k]; !exists {
			e.Removed = append(e.Removed, agent.RemovedEntry{Kind: agent.KindAgent, Tenant: a.doc.Tenant, Name: a.doc.Name})
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
