package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// maxCompiled bounds what the plans that one change makes may take together, in bytes.
const maxCompiled = 256 << 20

// check says what a change would break: references that lead nowhere, agents that no longer compile, routes, circles. s is the
// candidate, before the snapshot that is served (nil: none), changed what differs between them. What was broken before and is not
// part of the change is not held against it.
func (r *Registry) check(before, s *snapshot, changed []agent.DocumentKey) agent.Faults {
	c := checker{r: r, before: before, s: s, changed: map[agent.DocumentKey]bool{}}
	for _, k := range changed {
		c.changed[k] = true
		c.agents = c.agents || k.Kind == agent.KindAgent
		c.routes = c.routes || k.Kind == agent.KindRoutes
		c.deep = c.deep || (k.Kind != agent.KindAgent && k.Kind != agent.KindRoutes)
	}
	if c.deep {
		c.holders()
	}
	c.compile()
	c.delegation()
	c.tables()
	slices.SortStableFunc(c.faults, func(a, b agent.Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Document, b.Document), cmp.Compare(a.Path, b.Path))
	})
	return c.faults
}

type checker struct {
	r                    *Registry
	before, s            *snapshot
	changed              map[agent.DocumentKey]bool
	agents, routes, deep bool // what kinds of documents changed; deep: what agents are made of
	faults               agent.Faults
}

func (c *checker) fault(e *entry, path, format string, args ...any) {
	c.faults = append(c.faults, e.parsed.Fault(path, format, args...))
}

// holders checks the documents that name others and are not part of a plan by themselves: nobody may use them yet. Of one that did not
// change only what the change took away is held against it.
func (c *checker) holders() {
	for k, e := range c.s.docs {
		switch v := e.parsed.Value.(type) {
		case *agent.ToolBinding:
			c.binding(e, v)
		case *agent.ModelProfile:
			c.refer(e, "auth", agent.KindAuth, v.Auth)
			if c.changed[k] && e.doc.Source != agent.SourceConfig { // what the configuration names may be anywhere
				c.model(e, v)
			}
		case *agent.KnowledgeCollection:
			c.refer(e, "embedding", agent.KindModel, v.Embedding)
		case *agent.NodeDefinition:
			if c.changed[k] {
				c.node(e, v)
			}
		case *agent.AuthProfile:
			if c.changed[k] {
				c.secrets(e, v)
				c.address(e, "token_url", v.TokenURL)
				c.address(e, "issuer", v.Issuer)
			}
		}
	}
}

// refer checks a name that may be empty.
func (c *checker) refer(e *entry, path string, kind agent.Kind, name string) {
	if name == "" || c.s.find(kind, e.doc.Tenant, name, nil) != nil {
		return
	}
	if c.changed[e.doc.DocumentKey] || (c.before != nil && c.before.find(kind, e.doc.Tenant, name, nil) != nil) {
		c.fault(e, path, "there is no %s %q", wordFor(kind), name)
	}
}

func wordFor(k agent.Kind) string {
	switch k {
	case agent.KindAuth:
		return "auth profile"
	case agent.KindModel:
		return "model profile"
	default:
		return string(k)
	}
}

func (c *checker) model(e *entry, m *agent.ModelProfile) {
	if known := c.r.cfg.Parts.Providers; known != nil && !slices.Contains(known, m.Provider) {
		c.fault(e, "provider", "unknown provider %q: want one of %s", m.Provider, strings.Join(known, ", "))
	}
	c.address(e, "base_url", m.BaseURL)
	if auth := c.s.find(agent.KindAuth, e.doc.Tenant, m.Auth, nil); auth != nil && sharedKeyLeaves(e, auth) {
		c.fault(e, "auth", "%s", sharedKeyFault(m.Auth))
	}
}

// address refuses a URL that no request would be sent to, whatever its host resolves to.
func (c *checker) address(e *entry, path, url string) {
	if url == "" || c.r.cfg.Parts.Addresses == nil {
		return
	}
	if err := c.r.cfg.Parts.Addresses.Check(url); err != nil {
		_, message := fieldOf(err)
		c.fault(e, path, "%s; egress.allow_hosts and egress.allow_private say where documents may lead", message)
	}
}

func (c *checker) secrets(e *entry, a *agent.AuthProfile) {
	if c.r.cfg.Parts.Secrets == nil {
		return
	}
	for path, ref := range map[string]string{"secret": a.Secret, "password": a.Password, "client_secret": a.ClientSecret} {
		if ref == "" {
			continue
		}
		if err := c.r.cfg.Parts.Secrets.Allowed(e.doc.Tenant, ref); err != nil {
			c.fault(e, path, "%s", err)
		}
	}
}

func (c *checker) binding(e *entry, b *agent.ToolBinding) {
	for i, name := range b.Auth {
		c.refer(e, fmt.Sprintf("auth[%d]", i), agent.KindAuth, name)
	}
	if len(b.ClientSide) > 0 {
		return
	}
	k := agent.DocumentKey{Kind: agent.KindNode, Name: b.NodeID, Version: b.NodeVersion}
	found, ok := c.s.docs[k]
	switch {
	case !ok && (c.changed[e.doc.DocumentKey] || c.changed[k]):
		c.fault(e, "node_id", "there is no node %s@%s", b.NodeID, b.NodeVersion)
		return
	case !ok || (!c.changed[e.doc.DocumentKey] && !c.changed[k]):
		return
	}
	n := found.node()
	if n.Type == agent.NodeAgent {
		c.fault(e, "node_id", "node %s@%s is an agent, no tool", n.NodeID, n.Version)
		return
	}
	try := compiler{parts: c.r.cfg.Parts, e: e, in: &inputs{}, out: &compiled{}}
	try.parameters(found, b.Parameters, "parameters")
	if specs, err := c.r.cfg.Parts.Tools.Specs(codeOf(n)); err == nil {
		try.only(specs, b.Tools, c.r.cfg.Parts.Tools.Dynamic(codeOf(n)), "tools")
	}
	c.faults = append(c.faults, try.out.faults...)
}

func (c *checker) node(e *entry, n *agent.NodeDefinition) {
	if n.Type == agent.NodeAgent {
		for i, m := range n.Middleware {
			if m.Name == all {
				continue
			}
			at := fmt.Sprintf("middleware[%d]", i)
			if broken := fixedStack(m.Name); broken != "" {
				c.fault(e, at+".name", "%s", broken)
				continue
			}
			if err := c.r.cfg.Parts.Middleware.Check(m, nil); err != nil {
				field, message := fieldOf(err)
				c.fault(e, join(at, field), "%s", message)
			}
		}
		return
	}
	specs, err := c.r.cfg.Parts.Tools.Specs(codeOf(n))
	switch {
	case err != nil:
		c.fault(e, "toolkit", "%s", reason(err))
	case n.Type == agent.NodeTool:
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == toolOf(n) }) {
			c.fault(e, "tool", "toolkit %q has no tool %q: there are %s", codeOf(n), toolOf(n), nameList(specs))
		}
	}
}

// compile compiles the agents that changed, or all when something changed that agents are made of. One that is disabled may be
// anything: it hides a shared one of its name.
func (c *checker) compile() {
	bytes := 0
	for _, e := range c.s.agents {
		k := e.doc.DocumentKey
		touched := c.deep && (c.before == nil || c.before.docs[k] != e)
		if e.instance().Disabled || (!c.changed[k] && !touched) {
			continue
		}
		compiled := c.r.compiled(c.s, e)
		if len(compiled.faults) > 0 && (c.changed[k] || !c.brokenBefore(k)) {
			c.faults = append(c.faults, compiled.faults...)
		}
		if bytes += len(compiled.body); bytes > maxCompiled {
			c.fault(e, "", "the change makes plans of more than %d bytes in all", maxCompiled)
			return
		}
	}
}

func (c *checker) brokenBefore(k agent.DocumentKey) bool {
	if c.before == nil {
		return false
	}
	e, ok := c.before.docs[k]
	return ok && len(c.r.compiled(c.before, e).faults) > 0
}

// delegation refuses delegates that do not exist, and agents that hand work to one another in a circle, as any tenant sees them.
func (c *checker) delegation() {
	if !c.agents {
		return
	}
	scopes := map[string]bool{agent.SharedTenant: true}
	for _, e := range c.s.agents {
		scopes[e.doc.Tenant] = true
		for i, name := range e.instance().Delegates {
			gone := c.s.agent(e.doc.Tenant, name) == nil
			if gone && (c.changed[e.doc.DocumentKey] || c.wentAway(e.doc.Tenant, name)) {
				c.fault(e, fmt.Sprintf("delegates[%d]", i), "there is no agent %q", name)
			}
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(scopes)) {
		walk := circles{c: c, tenant: tenant, done: map[*entry]bool{}}
		for _, e := range c.s.agents {
			if e.doc.Tenant == tenant || (e.doc.Tenant == agent.SharedTenant && c.s.agent(tenant, e.doc.Name) == e) {
				walk.from(e, nil)
			}
		}
	}
}

// circles walks from delegate to delegate as one tenant finds them, each agent once.
type circles struct {
	c      *checker
	tenant string
	done   map[*entry]bool
}

func (w *circles) from(e *entry, way []*entry) {
	if at := slices.Index(way, e); at >= 0 {
		w.report(append(slices.Clone(way[at:]), e))
		return
	}
	if e == nil || w.done[e] {
		return
	}
	way = append(way, e)
	for _, name := range e.instance().Delegates {
		w.from(w.c.s.agent(w.tenant, name), way)
	}
	w.done[e] = true
}

// report names the circle at one of its agents that changed, if one did.
func (w *circles) report(circle []*entry) {
	at := max(slices.IndexFunc(circle, func(e *entry) bool { return w.c.changed[e.doc.DocumentKey] }), 0)
	names := []string{}
	ring := circle[:len(circle)-1]
	for i := range circle {
		names = append(names, ring[(at%len(ring)+i)%len(ring)].doc.Name)
	}
	next := slices.Index(circle[at].instance().Delegates, names[1])
	f := circle[at].parsed.Fault(fmt.Sprintf("delegates[%d]", next), "agents delegate in a circle: %s", strings.Join(names, " → "))
	if !slices.Contains(w.c.faults, f) {
		w.c.faults = append(w.c.faults, f)
	}
}

// wentAway reports whether a name meant an agent before the change.
func (c *checker) wentAway(tenant, name string) bool {
	return c.before != nil && c.before.agent(tenant, name) != nil
}

// tables checks routes: the rules compile, their agents exist and have the models that they name, and one default is enough.
func (c *checker) tables() {
	if !c.agents && !c.routes {
		return
	}
	defaults := map[string]*entry{}
	for _, e := range c.s.tables {
		t := e.table()
		mine := c.changed[e.doc.DocumentKey]
		if mine {
			for _, f := range c.r.cfg.Routes.Check(t) {
				c.fault(e, f.Path, "%s", f.Message)
			}
		}
		if t.DefaultAgent != "" {
			c.target(e, mine, "default_agent", t.DefaultAgent, "")
			c.second(defaults, e, mine)
		}
		for i, rule := range t.Rules {
			c.target(e, mine, fmt.Sprintf("rules[%d]", i), rule.Agent, rule.Model)
		}
	}
}

// second refuses a second default agent for a tenant, at the document that brings it.
func (c *checker) second(defaults map[string]*entry, e *entry, mine bool) {
	other := defaults[e.doc.Tenant]
	defaults[e.doc.Tenant] = e
	if other == nil || other.stored() != e.stored() || (!mine && !c.changed[other.doc.DocumentKey]) {
		return
	}
	if !mine {
		e, other = other, e
	}
	c.fault(e, "default_agent", "%s names a default agent for the same tenant: one is enough", other.doc.DocumentKey)
}

// target checks the agent of a rule or of a default. What is shipped steps back when its agent is hidden.
func (c *checker) target(e *entry, mine bool, path, name, model string) {
	at := path
	if path != "default_agent" {
		at += ".agent"
	}
	to := c.s.agent(e.doc.Tenant, name)
	if to == nil {
		if mine || (e.stored() && c.wentAway(e.doc.Tenant, name)) {
			c.fault(e, at, "there is no agent %q", name)
		}
		return
	}
	if model == "" || (!mine && !c.changed[to.doc.DocumentKey]) {
		return
	}
	compiled := c.r.compiled(c.s, to)
	if len(compiled.faults) > 0 {
		return // said elsewhere
	}
	if _, err := compiled.plan.Model(model); err != nil {
		c.fault(e, path+".model", "agent %q has no model %q", name, model)
	}
}
