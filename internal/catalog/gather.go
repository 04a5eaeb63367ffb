package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// all, in a list of tools or of middleware, means everything of its kind that this process has.
const all = "*"

// inputs are the documents that an agent is compiled from, as its tenant sees them at one revision.
type inputs struct {
	node      *entry // nil: there is none
	models    []reference
	grants    []grant
	knowledge []reference
	delegates []reference

	found    []*entry            // all documents, the agent itself first
	uses     []agent.DocumentKey // every key that was looked up, found or not
	revision int64               // the newest revision of what was found or is gone
}

// reference is a name and its document, nil if there is none.
type reference struct {
	name   string
	entry  *entry
	auth   []reference         // the auth profiles that the document names
	priced *agent.ModelProfile // another profile of the same model, from which one without a price has it; nil: none
	model  *reference          // the model profile that a collection embeds with; nil: it names none
}

// grant is one entry of the agent's tools.
type grant struct {
	agent.ToolGrant

	path    string
	needed  bool               // the document at path needs it; it is in no list
	binding *entry             // nil: the grant names a node
	bound   *agent.ToolBinding // the binding, or one without parameters for the node
	node    *entry             // nil: there is none, or the tools run at the caller
	auth    []reference
}

// pathOf returns the path of a field of the grant, or of what needs a grant that is in no list.
func (g *grant) pathOf(field string) string {
	if g.needed {
		return g.path
	}
	return join(g.path, field)
}

// documentLookup looks documents up as one tenant sees them, and records what it finds.
type documentLookup struct {
	s      *snapshot
	tenant string
	in     *inputs
}

// gather returns the inputs of an agent. It compiles nothing and checks nothing.
func gather(parts *Parts, s *snapshot, e *entry) *inputs {
	g := documentLookup{s: s, tenant: e.doc.Tenant, in: &inputs{revision: e.doc.Revision, found: []*entry{e}}}
	a := e.instance()
	g.in.node = g.findNode(a.NodeID, a.NodeVersion)
	names := a.Models
	if len(names) == 0 {
		names = parts.profiles
	}
	for _, name := range names {
		g.in.models = append(g.in.models, g.findModel(name))
	}
	g.addGrants(parts, a.Tools)
	g.addNeededGrants(parts, a)
	for _, name := range a.Knowledge {
		g.in.knowledge = append(g.in.knowledge, g.findKnowledge(name))
	}
	for _, name := range a.Delegates {
		g.in.delegates = append(g.in.delegates, g.findDelegate(name))
	}
	for _, k := range g.in.uses { // a deleted document changed the plan when it went
		g.in.revision = max(g.in.revision, s.gone[k])
	}
	return g.in
}

func (g *documentLookup) findModel(name string) reference {
	m := g.find(agent.KindModel, name)
	if m.entry != nil {
		p, _ := m.entry.parsed.Value.(*agent.ModelProfile)
		if p.Auth != "" {
			m.auth = []reference{g.find(agent.KindAuth, p.Auth)}
		}
		m.priced = g.findPrice(p)
	}
	return m
}

// findKnowledge looks up a collection, and its embedding model as the collection's own tenant sees it: that model made the vectors,
// whoever searches them.
func (g *documentLookup) findKnowledge(name string) reference {
	k := g.find(agent.KindKnowledge, name)
	if k.entry != nil {
		if v, ok := k.entry.parsed.Value.(*agent.KnowledgeCollection); ok && v.Embedding != "" {
			m := (&documentLookup{s: g.s, tenant: k.entry.doc.Tenant, in: g.in}).findModel(v.Embedding)
			k.model = &m
		}
	}
	return k
}

// findDelegate looks up another agent. It is no input: a plan has only its description.
func (g *documentLookup) findDelegate(name string) reference {
	e := g.s.find(agent.KindAgent, g.tenant, name, &g.in.uses)
	if e != nil {
		g.in.revision = max(g.in.revision, e.doc.Revision)
	}
	return reference{name: name, entry: e}
}

// addGrants looks up the grants in order. * means every toolkit that no other entry grants, except those granted on request only.
func (g *documentLookup) addGrants(parts *Parts, list []agent.ToolGrant) {
	named := map[string]bool{}
	grants := make([][]grant, len(list))
	for i, t := range list {
		if t.Toolkit != all {
			found := g.findGrant(t, fmt.Sprintf("tools[%d]", i))
			grants[i] = []grant{found}
			if found.node != nil {
				named[toolkitOf(found.node.node())] = true
			}
		}
	}
	for i, t := range list {
		if t.Toolkit != all {
			continue
		}
		for _, kit := range parts.kits {
			if !named[kit] && !parts.Tools.OnRequest(kit) {
				t.Toolkit = kit
				grants[i] = append(grants[i], g.findGrant(t, fmt.Sprintf("tools[%d]", i)))
			}
		}
	}
	g.in.grants = slices.Concat(grants...)
}

// addNeededGrants adds the tools that something else needs, as if they were listed last: delegates need the tool that hands work over,
// deferred tools the one that finds them, some middleware tools of its own.
func (g *documentLookup) addNeededGrants(parts *Parts, a *agent.AgentInstance) {
	need := func(t agent.ToolGrant, path string) {
		if !strings.Contains(t.Toolkit, "@") {
			t.Toolkit += "@" + derivedVersion // a node and no binding, whose names a tenant chooses
		}
		found := g.findGrant(t, path)
		found.needed = true
		found.bound.Name = found.bound.NodeID
		g.in.grants = append(g.in.grants, found)
	}
	if len(a.Delegates) > 0 {
		need(agent.ToolGrant{Toolkit: delegateKit}, "delegates")
	}
	for i, t := range a.Tools {
		if t.Deferred {
			need(agent.ToolGrant{Toolkit: searchKit}, fmt.Sprintf("tools[%d].deferred", i))
			break
		}
	}
	bring := func(m agent.PlanMiddleware, path string) {
		list := []agent.PlanMiddleware{m}
		if m.Name == all {
			list = nil
			for _, name := range parts.Middleware.Added() {
				list = append(list, agent.PlanMiddleware{Name: name})
			}
		}
		for _, m := range list {
			for _, t := range parts.Middleware.Grants(m) {
				need(t, path)
			}
		}
	}
	if g.in.node != nil {
		for _, m := range g.in.node.node().Middleware {
			bring(m, "node_id")
		}
	}
	for i, m := range a.Middleware {
		bring(m, fmt.Sprintf("middleware[%d]", i))
	}
}

func (g *documentLookup) findGrant(t agent.ToolGrant, path string) grant {
	out := grant{ToolGrant: t, path: path, bound: &agent.ToolBinding{Name: t.Toolkit}}
	out.bound.NodeID, out.bound.NodeVersion, _ = strings.Cut(t.Toolkit, "@")
	if b := g.find(agent.KindBinding, t.Toolkit); b.entry != nil {
		out.binding = b.entry
		out.bound, _ = b.entry.parsed.Value.(*agent.ToolBinding)
	}
	if len(out.bound.ClientSide) > 0 {
		return out
	}
	out.node = g.findNode(out.bound.NodeID, out.bound.NodeVersion)
	for _, name := range out.bound.Auth {
		out.auth = append(out.auth, g.find(agent.KindAuth, name))
	}
	return out
}

func (g *documentLookup) find(kind agent.Kind, name string) reference {
	e := g.s.find(kind, g.tenant, name, &g.in.uses)
	g.record(e)
	return reference{name: name, entry: e}
}

// findNode returns a node, its newest version if version is empty; nil if there is none.
func (g *documentLookup) findNode(id, version string) *entry {
	k := agent.DocumentKey{Kind: agent.KindNode, Name: id, Version: version}
	g.in.uses = append(g.in.uses, k)
	e := g.s.docs[k]
	if version == "" {
		e = g.s.newestNode(id)
	}
	g.record(e)
	return e
}

func (g *documentLookup) record(e *entry) {
	if e != nil {
		g.in.found = append(g.in.found, e)
		g.in.revision = max(g.in.revision, e.doc.Revision)
	}
}

// compilerVersion changes when the same documents compile to another plan, so that published plans are compiled again.
const compilerVersion = "2"

// digest returns a digest of all inputs of a plan. It tells whether a published plan is current without compiling it.
func (in *inputs) digest(parts *Parts) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n", agent.PlanSchema, compilerVersion, parts.digest())
	for _, e := range in.found {
		sum := sha256.Sum256(e.doc.Body)
		fmt.Fprintf(h, "%s\n%x\n", e.doc.DocumentKey, sum)
	}
	for i := range in.models {
		if e := in.models[i].entry; e != nil && parts.invokesTools(e) {
			fmt.Fprintf(h, "alone %q\n", e.doc.Name)
		}
	}
	for i := range in.grants {
		if g := &in.grants[i]; g.needed {
			fmt.Fprintf(h, "need %q %q %q\n", g.Toolkit, g.Tools, g.Approval)
		}
	}
	for i := range in.delegates {
		fmt.Fprintf(h, "delegate %q %q\n", in.delegates[i].name, in.delegates[i].describe())
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
