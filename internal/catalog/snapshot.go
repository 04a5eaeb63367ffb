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
	oldest   int64 // the snapshot has every change after this revision
	loadedAt time.Time

	docs      map[agent.DocumentKey]*entry // of both layers; stored documents hide base documents
	deleted   map[agent.DocumentKey]int64  // the revision that deleted a document
	artifacts map[agentKey]agent.Artifact
	agents    []*entry // sorted by tenant and name
	nodes     []*entry // sorted by ID and version
	tables    []*entry // sorted by tenant and name
	routers   *routers
	faults    map[agent.DocumentKey]agent.Fault // stored documents that this process cannot read
}

// agentKey names an agent instance.
type agentKey struct{ tenant, name string }

// entry is a document in a snapshot. Successive snapshots share the entries of unchanged documents.
type entry struct {
	doc    agent.Document
	parsed *manifest.Document

	mu           sync.Mutex
	compiled     *compiledPlan       // of an agent; nil until first used
	schema       *properties         // of a node; nil until first used
	capabilities *agent.Capabilities // of a model; nil until first used
}

// properties is the compiled property schema of a node, or its faults.
type properties struct {
	*manifest.Properties

	faults agent.Faults
}

// clone returns an entry of the same document, without compiled values.
func (e *entry) clone() *entry { return &entry{doc: e.doc, parsed: e.parsed} }

// propertySchema returns the property schema of a node. It compiles the schema once for all agents of the node.
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

// existingPlan returns the plan of an agent, nil if it is not compiled yet.
func (e *entry) existingPlan() *compiledPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.compiled
}

// isStored reports whether the document is in the store rather than in the base layer.
func (e *entry) isStored() bool { return e.doc.Revision > 0 }

// change is the difference between two snapshots.
type change struct {
	revision  int64
	oldest    int64
	put       []*entry
	deleted   map[agent.DocumentKey]int64
	artifacts []agent.Artifact
	faults    map[agent.DocumentKey]agent.Fault
}

// next returns the snapshot after a change. A base document reappears when the stored document that hides it is deleted.
func (s *snapshot) next(base map[agent.DocumentKey]*entry, c *change) *snapshot {
	n := &snapshot{
		revision: c.revision, oldest: c.oldest, loadedAt: time.Now(), docs: maps.Clone(s.docs), deleted: maps.Clone(s.deleted),
		artifacts: maps.Clone(s.artifacts), agents: slices.Clone(s.agents), nodes: slices.Clone(s.nodes), tables: slices.Clone(s.tables),
		routers: s.routers, faults: maps.Clone(s.faults),
	}
	touched := map[agent.DocumentKey]bool{}
	for _, e := range c.put {
		n.set(e.doc.DocumentKey, e)
		delete(n.deleted, e.doc.DocumentKey)
		delete(n.faults, e.doc.DocumentKey)
		touched[e.doc.DocumentKey] = true
	}
	for k, revision := range c.deleted {
		var baseEntry *entry
		if e, ok := base[k]; ok {
			baseEntry = e.clone() // the plan of e may be compiled from other documents
		}
		n.set(k, baseEntry)
		n.deleted[k] = revision
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
	i, found := slices.BinarySearchFunc(*list, k, func(e *entry, k agent.DocumentKey) int { return compareKeys(e.doc.DocumentKey, k) })
	switch {
	case found && e == nil:
		*list = slices.Delete(*list, i, i+1)
	case found:
		(*list)[i] = e
	case e != nil:
		*list = slices.Insert(*list, i, e)
	}
}

// listOf returns the sorted list of a kind, nil if the snapshot has none.
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
		s.set(k, e.clone())
	}
}

// renewDependents renews the agents that were compiled from changed documents, and those that are not compiled yet: an entry that two
// snapshots share must compile to the same plan in both.
func (s *snapshot) renewDependents(touched map[agent.DocumentKey]bool) {
	inputs := map[agent.DocumentKey]bool{}
	for k := range touched {
		if isPlanInput(k.Kind) {
			inputs[k] = true
			k.Version = "" // for agents that use the newest version of a node
			inputs[k] = true
		}
	}
	if len(inputs) == 0 {
		return
	}
	for _, e := range slices.Clone(s.agents) {
		if c := e.existingPlan(); c == nil || slices.ContainsFunc(c.inputKeys, func(k agent.DocumentKey) bool { return inputs[k] }) {
			s.renew(e.doc.DocumentKey)
		}
	}
}

// isPlanInput reports whether agents are compiled from documents of a kind.
func isPlanInput(k agent.Kind) bool { return k != agent.KindAgent && k != agent.KindRoutes }

// renewDelegators renews the agents that delegate to an agent that was added or deleted or whose description changed.
func (s *snapshot) renewDelegators(before *snapshot, touched map[agent.DocumentKey]bool) {
	changed := map[agent.DocumentKey]bool{}
	for k := range touched {
		if k.Kind != agent.KindAgent {
			continue
		}
		oldText, existed := before.agentDescription(k)
		newText, exists := s.agentDescription(k)
		if existed != exists || oldText != newText {
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

// agentDescription returns the description of an agent, and false if there is no such agent.
func (s *snapshot) agentDescription(k agent.DocumentKey) (text string, exists bool) {
	e, exists := s.docs[k]
	if !exists {
		return "", false
	}
	return e.description(), true
}

// description returns the description of an agent, empty if it is disabled.
func (e *entry) description() string {
	a := e.instance()
	if a.Disabled {
		return ""
	}
	return a.Description
}
