package gatewaytest

import (
	"context"
	"iter"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Change makes the next revision out of new and removed nodes and agents, and tells those who watch.
func (c *Catalog) Change(e agent.CatalogEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(e)
}

// move changes the lists and wakes the watchers; the lock is held.
func (c *Catalog) move(e agent.CatalogEvent) {
	c.behind++
	for i := range e.Nodes {
		n := &e.Nodes[i]
		c.NodeList = put(c.NodeList, *n, func(o *agent.NodeInfo) bool { return o.NodeID == n.NodeID && o.Version == n.Version })
	}
	for i := range e.Agents {
		a := &e.Agents[i]
		c.AgentList = put(c.AgentList, *a, func(o *agent.AgentInfo) bool { return o.Name == a.Name && o.Tenant == a.Tenant })
	}
	for _, gone := range e.Removed {
		c.NodeList = slices.DeleteFunc(c.NodeList, func(n agent.NodeInfo) bool { return gone == removedNode(&n) })
		c.AgentList = slices.DeleteFunc(c.AgentList, func(a agent.AgentInfo) bool { return gone == removedAgent(&a) })
	}
	c.log = append(c.log, change{c.revision(), e})
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func put[T any](list []T, v T, same func(*T) bool) []T {
	list = slices.Clone(list) // a page that was handed out stays as it was
	for i := range list {
		if same(&list[i]) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

func removedNode(n *agent.NodeInfo) agent.RemovedEntry {
	return agent.RemovedEntry{Kind: agent.KindNode, Name: n.NodeID, Version: n.Version}
}

func removedAgent(a *agent.AgentInfo) agent.RemovedEntry {
	return agent.RemovedEntry{Kind: agent.KindAgent, Tenant: a.Tenant, Name: a.Name}
}

// Forget makes the changes before a revision unavailable: a watcher that resumes from before gets a snapshot.
func (c *Catalog) Forget(before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = before
}

// Watchers returns how many watch.
func (c *Catalog) Watchers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watching
}

// Watch implements [gateway.Agents].
func (c *Catalog) Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error] {
	return func(yield func(agent.CatalogEvent, error) bool) {
		c.count(1)
		defer c.count(-1)
		after := q.After
		for {
			e, news, changed := c.since(q.Tenant, after)
			after = e.Revision
			if news && !yield(e, nil) {
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

func (c *Catalog) count(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching += by
}

// since returns what a tenant sees of everything behind a revision as one event, whether that is anything, and what is closed when
// there is more.
func (c *Catalog) since(tenant string, after int64) (e agent.CatalogEvent, news bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	visible := func(a *agent.AgentInfo) bool { return sees(tenant, a.Tenant) }
	e = agent.CatalogEvent{Revision: c.revision()}
	if after == 0 || after < c.oldest || after > c.revision() {
		e.Snapshot, e.Nodes, e.Agents = true, c.NodeList, filter(c.AgentList, visible)
		return e, true, c.changed
	}
	gone := map[agent.RemovedEntry]bool{}
	for _, l := range c.log {
		if l.revision <= after {
			continue
		}
		for i := range l.event.Nodes {
			gone[removedNode(&l.event.Nodes[i])] = false
		}
		for i := range l.event.Agents {
			gone[removedAgent(&l.event.Agents[i])] = false
		}
		for _, r := range l.event.Removed {
			gone[r] = true
		}
	}
	touched := func(r agent.RemovedEntry) bool { _, ok := gone[r]; return ok }
	e.Nodes = filter(c.NodeList, func(n *agent.NodeInfo) bool { return touched(removedNode(n)) })
	e.Agents = filter(c.AgentList, func(a *agent.AgentInfo) bool { return visible(a) && touched(removedAgent(a)) })
	for r, is := range gone {
		if is && (r.Kind == agent.KindNode || sees(tenant, r.Tenant)) {
			e.Removed = append(e.Removed, r)
		}
	}
	return e, len(e.Nodes)+len(e.Agents)+len(e.Removed) > 0, c.changed
}
