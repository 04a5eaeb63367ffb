package gatewaytest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// Catalog is a catalog in memory that does not check documents. Set its fields before it is used; later only Apply, Publish and [Catalog.Change] may
// change it. The first revision is 1.
type Catalog struct {
	NodeList     []agent.NodeInfo
	AgentList    []agent.AgentInfo // an empty Tenant means the default tenant
	DocumentList []agent.Document
	Entries      []agent.AuditEntry // newest first
	Sources      []agent.SourceStatus
	Plans        map[string][]byte // canonical JSON by hash

	// Refuse, if not nil, is called before each change, including dry runs; its error refuses the change.
	Refuse func(r agent.ApplyRequest) error
	// Decide, if not nil, is the implementation of Route. Otherwise Route chooses the first agent of the tenant.
	Decide func(r agent.RouteContext) (agent.RouteDecision, error)

	Empty bool // the first revision is 0: nothing was applied

	mu             sync.Mutex
	changed        chan struct{} // closed and replaced at every change; nil until the first Watch
	changes        int64         // the number of changes
	log            []change
	oldestRevision int64 // a Watch after an older one begins with a snapshot
	watchers       int
	applied        []agent.ApplyRequest
}

// change has the changed nodes and agents of a revision.
type change struct {
	revision int64
	event    agent.CatalogEvent
}

// Applied returns the requests of all calls of Apply.
func (c *Catalog) Applied() []agent.ApplyRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.applied)
}

// revision returns the newest revision. c.mu is locked.
func (c *Catalog) revision() int64 {
	if c.Empty {
		return c.changes
	}
	return c.changes + 1
}

// ListNodes implements [gateway.Agents].
func (c *Catalog) ListNodes(_ context.Context, q agent.NodeQuery) (agent.NodePage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := filter(c.NodeList, func(n *agent.NodeInfo) bool {
		return (q.Type == "" || q.Type == n.Type) && (q.NodeID == "" || q.NodeID == n.NodeID) && hasLabels(n.Labels, q.Labels)
	})
	nodes, next, err := pageOf(found, q.Page)
	return agent.NodePage{Nodes: nodes, Next: next, Revision: c.revision()}, err
}

// ListAgents implements [gateway.Agents].
func (c *Catalog) ListAgents(_ context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := filter(c.AgentList, func(a *agent.AgentInfo) bool {
		return isVisible(q.Tenant, a.Tenant) && (q.NodeID == "" || q.NodeID == a.NodeID) && hasLabels(a.Labels, q.Labels) &&
			(q.Tool == "" || slices.ContainsFunc(a.Tools, func(t agent.ToolInfo) bool { return t.Name == q.Tool }))
	})
	agents, next, err := pageOf(found, q.Page)
	return agent.AgentPage{Agents: agents, Next: next, Revision: c.revision()}, err
}

// Documents implements [gateway.Documents].
func (c *Catalog) Documents(_ context.Context, q agent.DocumentQuery) (agent.DocumentPage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := filter(c.DocumentList, func(d *agent.Document) bool {
		return (q.Kind == "" || q.Kind == d.Kind) && (q.Tenant == "" || q.Tenant == d.Tenant) && (q.Name == "" || q.Name == d.Name) &&
			(q.Version == "" || q.Version == d.Version) && (q.Source == "" || q.Source == d.Source)
	})
	documents, next, err := pageOf(found, q.Page)
	return agent.DocumentPage{Documents: documents, Next: next, Revision: c.revision()}, err
}

// History implements [gateway.Documents].
func (c *Catalog) History(_ context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := filter(c.Entries, func(e *agent.AuditEntry) bool {
		return (q.Kind == "" || q.Kind == e.Kind) && (q.Tenant == "" || q.Tenant == e.Tenant) && (q.Name == "" || q.Name == e.Name)
	})
	entries, next, err := pageOf(found, q.Page)
	return agent.HistoryPage{Entries: entries, Next: next}, err
}

// Status implements [gateway.Documents].
func (c *Catalog) Status(context.Context) agent.CatalogStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := agent.CatalogStatus{Revision: c.revision(), LoadedAt: Epoch(), Sources: slices.Clone(c.Sources), Counts: map[agent.Kind]int{}}
	for i := range c.DocumentList {
		s.Counts[c.DocumentList[i].Kind]++
	}
	return s
}

// AgentPlan implements [gateway.Agents].
func (c *Catalog) AgentPlan(_ context.Context, tenant, name string) (body []byte, hash string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agent(tenant, name)
	if a == nil {
		return nil, "", agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
	}
	body, err = c.plan(a.PlanHash)
	return body, a.PlanHash, err
}

// PlanBody implements [gateway.Agents].
func (c *Catalog) PlanBody(_ context.Context, hash string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan(hash)
}

func (c *Catalog) plan(hash string) ([]byte, error) {
	body, ok := c.Plans[hash]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "there is no plan %q", hash)
	}
	return body, nil
}

// agent returns the agent with a name that a tenant sees, nil if there is none. c.mu is locked.
func (c *Catalog) agent(tenant, name string) *agent.AgentInfo {
	for i := range c.AgentList {
		if a := &c.AgentList[i]; a.Name == name && isVisible(tenant, a.Tenant) {
			return a
		}
	}
	return nil
}

// Publish implements [gateway.Documents].
func (c *Catalog) Publish(_ context.Context, tenant, name, _ string) (agent.AgentInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agent(tenant, name)
	if a == nil {
		return agent.AgentInfo{}, agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
	}
	c.publish(a)
	c.commit(agent.CatalogEvent{Agents: []agent.AgentInfo{*a}})
	return *a, nil
}

func (c *Catalog) publish(a *agent.AgentInfo) {
	a.Artifact = &agent.Artifact{
		Tenant: cmp.Or(a.Tenant, agent.DefaultTenant), Agent: a.Name, URI: "cas://" + a.PlanHash, Hash: a.PlanHash, CompiledAt: Epoch(),
		Revision: c.revision() + 1,
	}
}

// Route implements [gateway.Agents].
func (c *Catalog) Route(_ context.Context, r agent.RouteContext) (agent.RouteDecision, error) {
	if c.Decide != nil {
		return c.Decide(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := agent.RouteDecision{Agent: r.Agent, Reason: agent.RouteNamed, Revision: c.revision()}
	if r.Agent != "" {
		if c.agent(r.Tenant, r.Agent) == nil {
			return d, agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", r.Agent)
		}
		return d, nil
	}
	for i := range c.AgentList {
		if isVisible(r.Tenant, c.AgentList[i].Tenant) {
			d.Agent, d.Reason = c.AgentList[i].Name, agent.RouteDefault
			return d, nil
		}
	}
	return d, agent.FieldErrorf(agent.CodeNotFound, "agent", "no rule matches, and there is no default agent")
}

// isVisible reports whether a tenant sees the agents of an owner.
func isVisible(tenant, owner string) bool {
	tenant, owner = cmp.Or(tenant, agent.DefaultTenant), cmp.Or(owner, agent.DefaultTenant)
	return tenant == agent.SharedTenant || owner == agent.SharedTenant || tenant == owner
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func filter[T any](all []T, keep func(*T) bool) []T {
	var kept []T
	for i := range all {
		if keep(&all[i]) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// pageOf returns a page of a list and the token of the next page, which is the number of entries before that page.
func pageOf[T any](all []T, p agent.Page) ([]T, string, error) {
	from := 0
	if p.Token != "" {
		var err error
		if from, err = strconv.Atoi(p.Token); err != nil || from < 0 || from > len(all) {
			return nil, "", agent.Invalid("page_token", "was not made by this query")
		}
	}
	all = all[from:]
	if size := cmp.Or(p.Size, 100); len(all) > size {
		return all[:size], strconv.Itoa(from + size), nil
	}
	return all, "", nil
}
