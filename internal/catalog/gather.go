package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// wildcard in a list of tools or middleware means all that this process has.
const wildcard = "*"

// inputs are the documents that an agent is compiled from, as its tenant sees them at one revision.
type inputs struct {
	node      *entry // nil if it does not exist
	models    []reference
	grants    []grant
	knowledge []reference
	delegates []reference

	entries  []*entry            // all documents, the agent itself first
	keys     []agent.DocumentKey // every key that was looked up, found or not
	revision int64               // the newest revision of the documents, including deleted ones
}

// reference is a name and the document that it refers to.
type reference struct {
	name   string
	entry  *entry              // nil if the document does not exist
	auth   []reference         // the auth profiles that the document names
	priced *agent.ModelProfile // another profile that has the price of this model; may be nil
	model  *reference          // the model profile that a collection embeds with; nil if it names none
}

// grant is an entry of the agent's tools, or a grant that the agent needs without listing it.
type grant struct {
	agent.ToolGrant

	path         string
	isImplicit   bool               // no entry lists the grant: the field at path needs it
	bindingEntry *entry             // nil if the grant names a node
	binding      *agent.ToolBinding // of bindingEntry, or a binding of the node without parameters
	node         *entry             // nil if it does not exist or the tools run at the caller
	auth         []reference
}

// pathOf returns the path of a field of the grant. For an implicit grant it is the path of the field that needs the grant.
func (g *grant) pathOf(field string) string {
	if g.isImplicit {
		return g.path
	}
	return manifest.JoinPath(g.path, field)
}

// documentLookup looks up documents as one tenant sees them, and records them as inputs.
type documentLookup struct {
	s      *snapshot
	tenant string
	in     *inputs
}

// gather returns the inputs of an agent without compiling or checking them.
func gather(parts *Parts, s *snapshot, e *entry) *inputs {
	l := documentLookup{s: s, tenant: e.doc.Tenant, in: &inputs{revision: e.doc.Revision, entries: []*entry{e}}}
	a := e.instance()
	l.in.node = l.findNode(a.NodeID, a.NodeVersion)
	names := a.Models
	if len(names) == 0 {
		names = parts.profiles
	}
	for _, name := range names {
		l.in.models = append(l.in.models, l.findModel(name))
	}
	l.addGrants(parts, a.Tools)
	l.addImplicitGrants(parts, a)
	for _, name := range a.Knowledge {
		l.in.knowledge = append(l.in.knowledge, l.findKnowledge(name))
	}
	for _, name := range a.Delegates {
		l.in.delegates = append(l.in.delegates, l.findDelegate(name))
	}
	for _, k := range l.in.keys { // the deletion of an input changes the plan too
		l.in.revision = max(l.in.revision, s.deleted[k])
	}
	return l.in
}

func (l *documentLookup) findModel(name string) reference {
	m := l.find(agent.KindModel, name)
	if m.entry != nil {
		p, _ := m.entry.parsed.Value.(*agent.ModelProfile)
		if p.Auth != "" {
			m.auth = []reference{l.find(agent.KindAuth, p.Auth)}
		}
		m.priced = l.findPrice(p)
	}
	return m
}

// findKnowledge looks up a collection and its embedding model. The model is looked up for the collection's own tenant, because that model
// made the vectors.
func (l *documentLookup) findKnowledge(name string) reference {
	k := l.find(agent.KindKnowledge, name)
	if k.entry != nil {
		if v, ok := k.entry.parsed.Value.(*agent.KnowledgeCollection); ok && v.Embedding != "" {
			m := (&documentLookup{s: l.s, tenant: k.entry.doc.Tenant, in: l.in}).findModel(v.Embedding)
			k.model = &m
		}
	}
	return k
}

// findDelegate looks up another agent. It does not record the agent as an input, because a plan uses only the agent's description.
func (l *documentLookup) findDelegate(name string) reference {
	e := l.s.find(agent.KindAgent, l.tenant, name, &l.in.keys)
	if e != nil {
		l.in.revision = max(l.in.revision, e.doc.Revision)
	}
	return reference{name: name, entry: e}
}

// addGrants looks up the grants in order. * means every toolkit that no other entry grants, except toolkits that are granted on request only.
func (l *documentLookup) addGrants(parts *Parts, list []agent.ToolGrant) {
	named := map[string]bool{}
	grants := make([][]grant, len(list))
	for i, t := range list {
		if t.Toolkit != wildcard {
			found := l.findGrant(t, fmt.Sprintf("tools[%d]", i))
			grants[i] = []grant{found}
			if found.node != nil {
				named[toolkitOf(found.node.node())] = true
			}
		}
	}
	for i, t := range list {
		if t.Toolkit != wildcard {
			continue
		}
		for _, kit := range parts.kits {
			if !named[kit] && !parts.Tools.OnRequest(kit) {
				t.Toolkit = kit
				grants[i] = append(grants[i], l.findGrant(t, fmt.Sprintf("tools[%d]", i)))
			}
		}
	}
	l.in.grants = slices.Concat(grants...)
}

// addImplicitGrants adds the tools that an agent needs beyond its list: delegates need the tool that hands over work, deferred tools need the
// tool that finds them, and some middleware has tools of its own.
func (l *documentLookup) addImplicitGrants(parts *Parts, a *agent.AgentInstance) {
	if len(a.Delegates) > 0 {
		l.addImplicitGrant(agent.ToolGrant{Toolkit: delegateKit}, "delegates")
	}
	if i := slices.IndexFunc(a.Tools, func(t agent.ToolGrant) bool { return t.Deferred }); i >= 0 {
		l.addImplicitGrant(agent.ToolGrant{Toolkit: searchKit}, fmt.Sprintf("tools[%d].deferred", i))
	}
	if l.in.node != nil {
		for _, m := range l.in.node.node().Middleware {
			l.addMiddlewareGrants(parts, m, "node_id")
		}
	}
	for i, m := range a.Middleware {
		l.addMiddlewareGrants(parts, m, fmt.Sprintf("middleware[%d]", i))
	}
}

func (l *documentLookup) addMiddlewareGrants(parts *Parts, m agent.PlanMiddleware, path string) {
	if m.Name == wildcard {
		for _, name := range parts.Middleware.Added() {
			l.addMiddlewareGrants(parts, agent.PlanMiddleware{Name: name}, path)
		}
		return
	}
	for _, t := range parts.Middleware.Grants(m) {
		l.addImplicitGrant(t, path)
	}
}

func (l *documentLookup) addImplicitGrant(t agent.ToolGrant, path string) {
	if !strings.Contains(t.Toolkit, "@") {
		t.Toolkit += "@" + derivedVersion // names the node, even if a tenant has a binding of that name
	}
	found := l.findGrant(t, path)
	found.isImplicit = true
	found.binding.Name = found.binding.NodeID
	l.in.grants = append(l.in.grants, found)
}

func (l *documentLookup) findGrant(t agent.ToolGrant, path string) grant {
	out := grant{ToolGrant: t, path: path, binding: &agent.ToolBinding{Name: t.Toolkit}}
	out.binding.NodeID, out.binding.NodeVersion, _ = strings.Cut(t.Toolkit, "@")
	if b := l.find(agent.KindBinding, t.Toolkit); b.entry != nil {
		out.bindingEntry = b.entry
		out.binding, _ = b.entry.parsed.Value.(*agent.ToolBinding)
	}
	if len(out.binding.ClientSide) > 0 {
		return out
	}
	out.node = l.findNode(out.binding.NodeID, out.binding.NodeVersion)
	for _, name := range out.binding.Auth {
		out.auth = append(out.auth, l.find(agent.KindAuth, name))
	}
	return out
}

func (l *documentLookup) find(kind agent.Kind, name string) reference {
	e := l.s.find(kind, l.tenant, name, &l.in.keys)
	l.record(e)
	return reference{name: name, entry: e}
}

// findNode returns a node, its newest version if version is empty, nil if there is none.
func (l *documentLookup) findNode(id, version string) *entry {
	k := agent.DocumentKey{Kind: agent.KindNode, Name: id, Version: version}
	l.in.keys = append(l.in.keys, k)
	e := l.s.docs[k]
	if version == "" {
		e = l.s.newestNode(id)
	}
	l.record(e)
	return e
}

func (l *documentLookup) record(e *entry) {
	if e != nil {
		l.in.entries = append(l.in.entries, e)
		l.in.revision = max(l.in.revision, e.doc.Revision)
	}
}

// compilerVersion must change whenever the same documents compile to another plan, so that published plans are compiled again.
const compilerVersion = "2"

// digest returns a digest of all inputs of a plan. Comparing it shows whether a published plan is current.
func (in *inputs) digest(parts *Parts) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n", agent.PlanSchema, compilerVersion, parts.digest())
	for _, e := range in.entries {
		sum := sha256.Sum256(e.doc.Body)
		fmt.Fprintf(h, "%s\n%x\n", e.doc.DocumentKey, sum)
	}
	for i := range in.models {
		if e := in.models[i].entry; e != nil && parts.invokesTools(e) {
			fmt.Fprintf(h, "alone %q\n", e.doc.Name)
		}
	}
	for i := range in.grants {
		if g := &in.grants[i]; g.isImplicit {
			fmt.Fprintf(h, "need %q %q %q\n", g.Toolkit, g.Tools, g.Approval)
		}
	}
	for i := range in.delegates {
		fmt.Fprintf(h, "delegate %q %q\n", in.delegates[i].name, in.delegates[i].shortDescription())
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// newestNode returns the newest version of a node.
func (s *snapshot) newestNode(id string) *entry {
	var newest *entry
	for _, e := range s.nodes {
		if e.doc.Name == id {
			newest = e // the list is sorted by version
		}
	}
	return newest
}
