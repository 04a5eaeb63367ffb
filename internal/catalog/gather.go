package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// all stands for everything of its kind that this process has, in a list of tools or of middleware.
const all = "*"

// inputs are the documents that an agent is made of, as its tenant sees them at one revision.
type inputs struct {
	node      *entry // nil: there is none
	models    []reference
	grants    []grant
	knowledge []reference

	found    []*entry            // all of them, the agent itself first
	uses     []agent.DocumentKey // every key that was looked up, found or not
	revision int64               // the newest of what was found, or is gone
}

// reference is a name with the document that it means, nil when there is none.
type reference struct {
	name  string
	entry *entry
	auth  []reference // the auth profiles that the document names
}

// grant is one entry of the agent's tools.
type grant struct {
	agent.ToolGrant

	path    string
	binding *entry             // nil: the grant names a node
	bound   *agent.ToolBinding // the binding, or one without parameters for the node
	node    *entry
	auth    []reference
}

// gatherer looks up in one agent's scope.
type gatherer struct {
	s      *snapshot
	tenant string
	in     *inputs
}

// gather looks up everything that an agent names. It compiles nothing and checks nothing.
func gather(parts *Parts, s *snapshot, e *entry) *inputs {
	g := gatherer{s: s, tenant: e.doc.Tenant, in: &inputs{revision: e.doc.Revision, found: []*entry{e}}}
	a := e.instance()
	g.in.node = g.node(a.NodeID, a.NodeVersion)
	names := a.Models
	if len(names) == 0 {
		names = parts.profiles
	}
	for _, name := range names {
		m := g.find(agent.KindModel, name)
		if m.entry != nil {
			if p, ok := m.entry.def.Value.(*agent.ModelProfile); ok && p.Auth != "" {
				m.auth = []reference{g.find(agent.KindAuth, p.Auth)}
			}
		}
		g.in.models = append(g.in.models, m)
	}
	g.tools(parts, a.Tools)
	for _, name := range a.Knowledge {
		g.in.knowledge = append(g.in.knowledge, g.find(agent.KindKnowledge, name))
	}
	for _, k := range g.in.uses { // a document that is gone made a difference when it went
		g.in.revision = max(g.in.revision, s.gone[k])
	}
	return g.in
}

// tools looks the grants up in their order; * stands for every toolkit that no other entry grants.
func (g *gatherer) tools(parts *Parts, list []agent.ToolGrant) {
	named := map[string]bool{}
	grants := make([][]grant, len(list))
	for i, t := range list {
		if t.Toolkit != all {
			found := g.grant(t, fmt.Sprintf("tools[%d]", i))
			grants[i] = []grant{found}
			if found.node != nil {
				named[codeOf(found.node.node())] = true
			}
		}
	}
	for i, t := range list {
		if t.Toolkit != all {
			continue
		}
		for _, kit := range parts.kits {
			if !named[kit] {
				t.Toolkit = kit
				grants[i] = append(grants[i], g.grant(t, fmt.Sprintf("tools[%d]", i)))
			}
		}
	}
	g.in.grants = slices.Concat(grants...)
}

func (g *gatherer) grant(t agent.ToolGrant, path string) grant {
	out := grant{ToolGrant: t, path: path, bound: &agent.ToolBinding{Name: t.Toolkit}}
	out.bound.NodeID, out.bound.NodeVersion, _ = strings.Cut(t.Toolkit, "@")
	if b := g.find(agent.KindBinding, t.Toolkit); b.entry != nil {
		out.binding = b.entry
		out.bound, _ = b.entry.def.Value.(*agent.ToolBinding)
	}
	out.node = g.node(out.bound.NodeID, out.bound.NodeVersion)
	for _, name := range out.bound.Auth {
		out.auth = append(out.auth, g.find(agent.KindAuth, name))
	}
	return out
}

func (g *gatherer) find(kind agent.Kind, name string) reference {
	e := g.s.find(kind, g.tenant, name, &g.in.uses)
	g.take(e)
	return reference{name: name, entry: e}
}

// node looks a node up, its newest version when none is said.
func (g *gatherer) node(id, version string) *entry {
	k := agent.DocumentKey{Kind: agent.KindNode, Name: id, Version: version}
	g.in.uses = append(g.in.uses, k)
	e := g.s.docs[k]
	if version == "" {
		e = g.s.newestNode(id)
	}
	g.take(e)
	return e
}

func (g *gatherer) take(e *entry) {
	if e != nil {
		g.in.found = append(g.in.found, e)
		g.in.revision = max(g.in.revision, e.doc.Revision)
	}
}

// digest names everything that the plan is made of, so that a published plan can be told from a stale one without compiling.
func (in *inputs) digest(parts *Parts) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", agent.PlanSchema, parts.digest())
	for _, e := range in.found {
		sum := sha256.Sum256(e.doc.Body)
		fmt.Fprintf(h, "%s\n%x\n", e.doc.DocumentKey, sum)
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
