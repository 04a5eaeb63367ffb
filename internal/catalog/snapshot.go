package catalog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/semver"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// snapshot is the whole catalog at one revision. It does not change once made; what is compiled of it is kept in its entries.
type snapshot struct {
	revision int64
	oldest   int64 // changes behind this revision are complete
	loadedAt time.Time

	docs      map[agent.DocumentKey]*entry // both layers, the upper one's where both have one
	gone      map[agent.DocumentKey]int64  // tombstones: the revision that deleted
	artifacts map[agentKey]agent.Artifact
	agents    []*entry // all of them, by tenant and name
	nodes     []*entry // by id and version
	tables    []*entry // by tenant and name
	routers   *routers
	faults    map[agent.DocumentKey]agent.Fault // stored documents that this process cannot read
}

// agentKey names an agent instance.
type agentKey struct{ tenant, name string }

// entry is a document in a snapshot. Snapshots share the entries that did not change between them.
type entry struct {
	doc    agent.Document
	parsed *manifest.Document

	mu       sync.Mutex
	compiled *compiled           // of an agent, once somebody asked
	schema   *properties         // of a node, likewise
	claims   *agent.Capabilities // of a model, likewise
}

// properties is a node's property schema, compiled, or what keeps it from being so.
type properties struct {
	*manifest.Properties

	faults agent.Faults
}

// properties compiles a node's property schema once: every agent of the node is checked against it.
func (e *entry) properties() (*manifest.Properties, agent.Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.schema == nil {
		p, faults := manifest.NewProperties(e.node().Properties)
		e.schema = &properties{p, faults}
	}
	return e.schema.Properties, e.schema.faults
}

func (e *entry) instance() *agent.AgentInstance {
	a, _ := e.parsed.Value.(*agent.AgentInstance)
	return a
}

func (e *entry) node() *agent.NodeDefinition {
	n, _ := e.parsed.Value.(*agent.NodeDefinition)
	return n
}

func (e *entry) table() *agent.RouteTable {
	t, _ := e.parsed.Value.(*agent.RouteTable)
	return t
}

// known returns what is compiled of the entry, nil when nothing is.
func (e *entry) known() *compiled {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.compiled
}

// stored reports whether the document is in the store, and not of the base layer.
func (e *entry) stored() bool { return e.doc.Revision > 0 }

// change is what makes one snapshot out of another.
type change struct {
	revision  int64
	oldest    int64
	put       []*entry
	gone      map[agent.DocumentKey]int64
	artifacts []agent.Artifact
	faults    map[agent.DocumentKey]agent.Fault
}

// next makes the snapshot behind s. base holds the lower layer.
func (s *snapshot) next(base map[agent.DocumentKey]*entry, c *change) *snapshot {
	n := &snapshot{
		revision: c.revision, oldest: c.oldest, loadedAt: time.Now(), docs: maps.Clone(s.docs), gone: maps.Clone(s.gone),
		artifacts: maps.Clone(s.artifacts), agents: slices.Clone(s.agents), nodes: slices.Clone(s.nodes), tables: slices.Clone(s.tables),
		routers: s.routers, faults: maps.Clone(s.faults),
	}
	touched := map[agent.DocumentKey]bool{}
	for _, e := range c.put {
		n.set(e.doc.DocumentKey, e)
		delete(n.gone, e.doc.DocumentKey)
		delete(n.faults, e.doc.DocumentKey)
		touched[e.doc.DocumentKey] = true
	}
	for k, revision := range c.gone {
		var below *entry
		if e, ok := base[k]; ok {
			below = &entry{doc: e.doc, parsed: e.parsed} // what was compiled of it before was made of other documents
		}
		n.set(k, below)
		n.gone[k] = revision
		delete(n.faults, k)
		touched[k] = true
	}
	for k, f := range c.faults {
		if n.faults == nil {
			n.faults = map[agent.DocumentKey]agent.Fault{}
		}
		n.faults[k] = f
	}
	for _, a := range c.artifacts {
		n.artifacts[agentKey{a.Tenant, a.Agent}] = a
		n.renew(agent.DocumentKey{Kind: agent.KindAgent, Tenant: a.Tenant, Name: a.Agent})
	}
	n.forget(touched)
	n.redescribe(s, touched)
	for k := range touched {
		if k.Kind == agent.KindRoutes {
			n.routers = newRouters(n)
			break
		}
	}
	return n
}

// set replaces a document, or removes it when e is nil, also in the list of its kind.
func (s *snapshot) set(k agent.DocumentKey, e *entry) {
	if e == nil {
		delete(s.docs, k)
	} else {
		s.docs[k] = e
	}
	list := s.list(k.Kind)
	if list == nil {
		return
	}
	at, found := slices.BinarySearchFunc(*list, k, func(e *entry, k agent.DocumentKey) int { return compareKeys(e.doc.DocumentKey, k) })
	switch {
	case found && e == nil:
		*list = slices.Delete(*list, at, at+1)
	case found:
		(*list)[at] = e
	case e != nil:
		*list = slices.Insert(*list, at, e)
	}
}

func (s *snapshot) list(k agent.Kind) *[]*entry {
	switch k {
	case agent.KindAgent:
		return &s.agents
	case agent.KindNode:
		return &s.nodes
	case agent.KindRoutes:
		return &s.tables
	case agent.KindBinding, agent.KindModel, agent.KindAuth, agent.KindKnowledge:
	}
	return nil
}

// renew gives a document a fresh entry: nothing is compiled of it.
func (s *snapshot) renew(k agent.DocumentKey) {
	if e, ok := s.docs[k]; ok {
		s.set(k, &entry{doc: e.doc, parsed: e.parsed})
	}
}

// forget renews the agents that were compiled from something that changed, and those that nobody compiled yet: an entry that two
// snapshots share must mean the same in both.
func (s *snapshot) forget(touched map[agent.DocumentKey]bool) {
	deep := map[agent.DocumentKey]bool{} // agents are not made of agents or of routes
	for k := range touched {
		if k.Kind != agent.KindAgent && k.Kind != agent.KindRoutes {
			deep[k] = true
			k.Version = "" // who asked for the newest version of a node
			deep[k] = true
		}
	}
	if len(deep) == 0 {
		return
	}
	for _, e := range slices.Clone(s.agents) {
		if c := e.known(); c == nil || slices.ContainsFunc(c.uses, func(u agent.DocumentKey) bool { return deep[u] }) {
			s.renew(e.doc.DocumentKey)
		}
	}
}

// redescribe renews the agents that hand work to one whose description changed, or which is now another, or none.
func (s *snapshot) redescribe(before *snapshot, touched map[agent.DocumentKey]bool) {
	changed := map[agent.DocumentKey]bool{}
	for k := range touched {
		if k.Kind == agent.KindAgent && before.described(k) != s.described(k) {
			changed[k] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	for _, e := range slices.Clone(s.agents) {
		if slices.ContainsFunc(e.instance().Delegates, func(name string) bool {
			return slices.ContainsFunc(scopes(e.doc.Tenant), func(tenant string) bool {
				return changed[agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: name}]
			})
		}) {
			s.renew(e.doc.DocumentKey)
		}
	}
}

// described is what others' plans have of an agent. One that is there hides a shared one, whatever it says.
type described struct {
	there bool
	text  string
}

func (s *snapshot) described(k agent.DocumentKey) described {
	e, ok := s.docs[k]
	if !ok {
		return described{}
	}
	return described{there: true, text: e.description()}
}

// description is an agent's, empty when it is disabled.
func (e *entry) description() string {
	a := e.instance()
	if a.Disabled {
		return ""
	}
	return a.Description
}

func compareKeys(a, b agent.DocumentKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), compareVersions(a.Version, b.Version))
}

// compareVersions orders semantic versions as such, whole or shortened (1, 1.2), before them whatever is none, by its text.
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

// find looks a name up as a tenant sees it: its own document first, then the shared one. tried lists the keys that were asked for.
func (s *snapshot) find(kind agent.Kind, tenant, name string, tried *[]agent.DocumentKey) *entry {
	for _, t := range scopes(tenant) {
		k := agent.DocumentKey{Kind: kind, Tenant: t, Name: name}
		if tried != nil {
			*tried = append(*tried, k)
		}
		if e, ok := s.docs[k]; ok {
			return e
		}
	}
	return nil
}

func scopes(tenant string) []string {
	if tenant == agent.SharedTenant {
		return []string{agent.SharedTenant}
	}
	return []string{tenant, agent.SharedTenant}
}

// agent returns the agent that a tenant means by a name, nil when there is none or it is disabled.
func (s *snapshot) agent(tenant, name string) *entry {
	e := s.find(agent.KindAgent, tenant, name, nil)
	if e == nil || e.instance().Disabled {
		return nil
	}
	return e
}

// visible lists the agents that a tenant may name, by name; [agent.SharedTenant] sees those of every tenant, by tenant and name.
func (s *snapshot) visible(tenant string) []*entry {
	if tenant == agent.SharedTenant {
		return slices.DeleteFunc(slices.Clone(s.agents), func(e *entry) bool { return e.instance().Disabled })
	}
	own := s.of(tenant)
	hidden := make(map[string]bool, len(own))
	var out []*entry
	for _, e := range own {
		hidden[e.doc.Name] = true
		if !e.instance().Disabled {
			out = append(out, e)
		}
	}
	for _, e := range s.of(agent.SharedTenant) {
		if !hidden[e.doc.Name] && !e.instance().Disabled {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.doc.Name, b.doc.Name) })
	return out
}

// of lists the agents of one tenant, disabled ones included.
func (s *snapshot) of(tenant string) []*entry {
	byTenant := func(e *entry, tenant string) int { return cmp.Compare(e.doc.Tenant, tenant) }
	from, _ := slices.BinarySearchFunc(s.agents, tenant, byTenant)
	to := from
	for to < len(s.agents) && s.agents[to].doc.Tenant == tenant {
		to++
	}
	return s.agents[from:to]
}
