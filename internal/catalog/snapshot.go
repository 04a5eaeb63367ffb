package catalog

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// snapshot is the catalog at one revision. It is immutable; compiled plans are cached in its entries.
type snapshot struct {
	revision int64
	oldest   int64 // changes after this revision are complete
	loadedAt time.Time

	docs      map[agent.DocumentKey]*entry // of both layers; the upper one hides the lower
	gone      map[agent.DocumentKey]int64  // tombstones: the revision that deleted
	artifacts map[agentKey]agent.Artifact
	agents    []*entry // by tenant and name
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
	compiled *compiledPlan       // of an agent; nil until first used
	schema   *properties         // of a node; nil until first used
	claims   *agent.Capabilities // of a model; nil until first used
}

// properties is a node's compiled property schema, or its faults.
type properties struct {
	*manifest.Properties

	faults agent.Faults
}

// propertySchema returns a node's property schema, which is compiled once for all its agents.
func (e *entry) propertySchema() (*manifest.Properties, agent.Faults) {
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

// cached returns the plan of the entry, nil if it is not compiled yet.
func (e *entry) cached() *compiledPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.compiled
}

// stored reports whether the document is in the store rather than the base layer.
func (e *entry) stored() bool { return e.doc.Revision > 0 }

// change is the difference between two snapshots.
type change struct {
	revision  int64
	oldest    int64
	put       []*entry
	gone      map[agent.DocumentKey]int64
	artifacts []agent.Artifact
	faults    map[agent.DocumentKey]agent.Fault
}

// next returns the snapshot after a change. base is the lower layer.
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
			below = &entry{doc: e.doc, parsed: e.parsed} // its compiled plan may be made of other documents
		}
		n.set(k, below)
		n.gone[k] = revision
		delete(n.faults, k)
		touched[k] = true
	}
	if len(c.faults) > 0 && n.faults == nil {
		n.faults = map[agent.DocumentKey]agent.Fault{}
	}
	maps.Copy(n.faults, c.faults)
	for _, a := range c.artifacts {
		n.artifacts[agentKey{a.Tenant, a.Agent}] = a
		n.renew(agent.DocumentKey{Kind: agent.KindAgent, Tenant: a.Tenant, Name: a.Agent})
	}
	n.renewDependents(touched)
	n.renewDelegators(s, touched)
	for k := range touched {
		if k.Kind == agent.KindRoutes {
			n.routers = newRouters(n)
			break
		}
	}
	return n
}

// set replaces a document in the snapshot, or removes it if e is nil.
func (s *snapshot) set(k agent.DocumentKey, e *entry) {
	if e == nil {
		delete(s.docs, k)
	} else {
		s.docs[k] = e
	}
	list := s.listOf(k.Kind)
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

func (s *snapshot) listOf(k agent.Kind) *[]*entry {
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

// renew gives a document a new entry without a compiled plan.
func (s *snapshot) renew(k agent.DocumentKey) {
	if e, ok := s.docs[k]; ok {
		s.set(k, &entry{doc: e.doc, parsed: e.parsed})
	}
}

// renewDependents renews the agents that were compiled from something that changed, and those that are not compiled yet: an entry that
// two snapshots share must compile to the same plan in both.
func (s *snapshot) renewDependents(touched map[agent.DocumentKey]bool) {
	deep := map[agent.DocumentKey]bool{} // agents are not compiled from agents or routes
	for k := range touched {
		if k.Kind != agent.KindAgent && k.Kind != agent.KindRoutes {
			deep[k] = true
			k.Version = "" // for agents that use the newest version of a node
			deep[k] = true
		}
	}
	if len(deep) == 0 {
		return
	}
	for _, e := range slices.Clone(s.agents) {
		if c := e.cached(); c == nil || slices.ContainsFunc(c.uses, func(u agent.DocumentKey) bool { return deep[u] }) {
			s.renew(e.doc.DocumentKey)
		}
	}
}

// renewDelegators renews the agents that delegate to an agent whose description changed, or that came or went.
func (s *snapshot) renewDelegators(before *snapshot, touched map[agent.DocumentKey]bool) {
	changed := map[agent.DocumentKey]bool{}
	for k := range touched {
		if k.Kind == agent.KindAgent && before.delegateText(k) != s.delegateText(k) {
			changed[k] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	for _, e := range slices.Clone(s.agents) {
		if slices.ContainsFunc(e.instance().Delegates, func(name string) bool {
			return slices.ContainsFunc(tenantScopes(e.doc.Tenant), func(tenant string) bool {
				return changed[agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: name}]
			})
		}) {
			s.renew(e.doc.DocumentKey)
		}
	}
}

// described is what plans of other agents have of an agent. An existing agent hides a shared one, even without a description.
type described struct {
	there bool
	text  string
}

func (s *snapshot) delegateText(k agent.DocumentKey) described {
	e, ok := s.docs[k]
	if !ok {
		return described{}
	}
	return described{there: true, text: e.description()}
}

// description returns the description of an agent, empty if it is disabled.
func (e *entry) description() string {
	a := e.instance()
	if a.Disabled {
		return ""
	}
	return a.Description
}
