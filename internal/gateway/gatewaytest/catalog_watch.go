package gatewaytest

import (
	"context"
	"iter"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Change makes a revision with new and removed nodes and agents.
func (c *Catalog) Change(e agent.CatalogEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commit(e)
}

// commit makes a revision: it changes the lists and wakes the watchers. c.mu is locked.
func (c *Catalog) commit(e agent.CatalogEvent) {
	c.changes++
	for i := range e.Nodes {
		n := &e.Nodes[i]
		c.NodeList = replaceOrAppend(c.NodeList, *n, func(other *agent.NodeInfo) bool {
			return other.NodeID == n.NodeID && other.Version == n.Version
		})
	}
	for i := range e.Agents {
		a := &e.Agents[i]
		c.AgentList = replaceOrAppend(c.AgentList, *a, func(other *agent.AgentInfo) bool {
			return other.Name == a.Name && other.Tenant == a.Tenant
		})
	}
	for _, removed := range e.Removed {
		c.NodeList = slices.DeleteFunc(c.NodeList, func(n agent.NodeInfo) bool { return removed == nodeEntry(&n) })
		c.AgentList = slices.DeleteFunc(c.AgentList, func(a agent.AgentInfo) bool { return removed == agentEntry(&a) })
	}
	c.log = append(c.log, change{c.revision(), e})
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func replaceOrAppend[T any](list []T, v T, same func(*T) bool) []T {
	list = slices.Clone(list) // callers hold pages of the old one
	for i := range list {
		if same(&list[i]) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

func nodeEntry(n *agent.NodeInfo) agent.RemovedEntry {
	return agent.RemovedEntry{Kind: agent.KindNode, Name: n.NodeID, Version: n.Version}
}

func agentEntry(a *agent.AgentInfo) agent.RemovedEntry {
	return agent.RemovedEntry{Kind: agent.KindAgent, Tenant: a.Tenant, Name: a.Name}
}

// Forget forgets the changes before a revision. A Watch that resumes before it begins with a snapshot.
func (c *Catalog) Forget(before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldestRevision = before
}

// Watchers returns the number of active calls of Watch.
func (c *Catalog) Watchers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers
}

// Watch implements [gateway.Agents].
func (c *Catalog) Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error] {
	return func(yield func(agent.CatalogEvent, error) bool) {
		c.addWatchers(1)
		defer c.addWatchers(-1)
		after := q.After
		for {
			e, hasChanges, changed := c.changesAfter(q.Tenant, after)
			after = e.Revision
			if hasChanges && !yield(e, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(agent.CatalogEvent{}, ctx.Err())
				return
			}
		}
	}
}

func (c *Catalog) addWatchers(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers += n
}

// changesAfter returns the changes after a revision that a tenant sees, as one event, whether there are any, and a channel that is closed at the next
// change.
func (c *Catalog) changesAfter(tenant string, after int64) (e agent.CatalogEvent, hasChanges bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	visible := func(a *agent.AgentInfo) bool { return isVisible(tenant, a.Tenant) }
	e = agent.CatalogEvent{Revision: c.revision()}
	if after == 0 || after < c.oldestRevision || after > c.revision() {
		e.Snapshot, e.Nodes, e.Agents = true, c.NodeList, filter(c.AgentList, visible)
		return e, true, c.changed
	}
	isRemoved := map[agent.RemovedEntry]bool{} // has all changed entries
	for _, l := range c.log {
		if l.revision <= after {
			continue
		}
		for i := range l.event.Nodes {
			isRemoved[nodeEntry(&l.event.Nodes[i])] = false
		}
		for i := range l.event.Agents {
			isRemoved[agentEntry(&l.event.Agents[i])] = false
		}
		for _, removed := range l.event.Removed {
			isRemoved[removed] = true
		}
	}
	isChanged := func(entry agent.RemovedEntry) bool { _, ok := isRemoved[entry]; return ok }
	e.Nodes = filter(c.NodeList, func(n *agent.NodeInfo) bool { return isChanged(nodeEntry(n)) })
	e.Agents = filter(c.AgentList, func(a *agent.AgentInfo) bool { return visible(a) && isChanged(agentEntry(a)) })
	for entry, removed := range isRemoved {
		if removed && (entry.Kind == agent.KindNode || isVisible(tenant, entry.Tenant)) {
			e.Removed = append(e.Removed, entry)
		}
	}
	return e, len(e.Nodes)+len(e.Agents)+len(e.Removed) > 0, c.changed
}
