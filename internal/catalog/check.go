package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// maxCompiled bounds the plans that one change makes, in bytes of all together.
const maxCompiled = 256 << 20

// check returns what a change would break: references to missing documents, agents that no longer compile, routes, cycles. s is the
// candidate, before the snapshot that is served (nil: none), changed the documents that differ between them. A document that was broken
// before and is not part of the change is no fault.
func (r *Registry) check(before, s *snapshot, changed []agent.DocumentKey) agent.Faults {
	c := checker{r: r, before: before, s: s, changed: map[agent.DocumentKey]bool{}}
	for _, k := range changed {
		c.changed[k] = true
		c.agents = c.agents || k.Kind == agent.KindAgent
		c.routes = c.routes || k.Kind == agent.KindRoutes
		c.deep = c.deep || (k.Kind != agent.KindAgent && k.Kind != agent.KindRoutes)
	}
	if c.deep {
		c.checkReferences()
	}
	c.checkAgents()
	c.checkDelegation()
	c.checkRoutes()
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
	agents, routes, deep bool // the kinds of documents that changed; deep: those that agents are compiled from
	faults               agent.Faults
}

func (c *checker) addFault(e *entry, path, format string, args ...any) {
	c.faults = append(c.faults, e.parsed.Fault(path, format, args...))
}

// checkReferences checks the documents that name others without being an agent: no agent may use them yet. A document that did not change
// has a fault only for a reference that the change removed.
func (c *checker) checkReferences() {
	for k, e := range c.s.docs {
		switch v := e.parsed.Value.(type) {
		case *agent.ToolBinding:
			c.checkBinding(e, v)
		case *agent.ModelProfile:
			c.checkReference(e, "auth", agent.KindAuth, v.Auth)
			if c.changed[k] && e.doc.Source != agent.SourceConfig { // models of the configuration may be anywhere
				c.checkModel(e, v)
			}
		case *agent.KnowledgeCollection:
			c.checkReference(e, "embedding", agent.KindModel, v.Embedding)
		case *agent.NodeDefinition:
			if c.changed[k] {
				c.checkNode(e, v)
			}
		case *agent.AuthProfile:
			if c.changed[k] {
				c.checkSecrets(e, v)
				c.checkURL(e, "token_url", v.TokenURL)
				c.checkURL(e, "issuer", v.Issuer)
			}
		}
	}
}

// checkReference checks that a document of that name exists; the name may be empty.
func (c *checker) checkReference(e *entry, path string, kind agent.Kind, name string) {
	if name == "" || c.s.find(kind, e.doc.Tenant, name, nil) != nil {
		return
	}
	if c.changed[e.doc.DocumentKey] || (c.before != nil && c.before.find(kind, e.doc.Tenant, name, nil) != nil) {
		c.addFault(e, path, "there is no %s %q", kindName(kind), name)
	}
}

func kindName(k agent.Kind) string {
	switch k {
	case agent.KindAuth:
		return "auth profile"
	case agent.KindModel:
		return "model profile"
	default:
		return string(k)
	}
}

func (c *checker) checkModel(e *entry, m *agent.ModelProfile) {
	if known := c.r.cfg.Parts.Providers; known != nil && !slices.Contains(known, m.Provider) {
		c.addFault(e, "provider", "unknown provider %q: want one of %s", m.Provider, strings.Join(known, ", "))
	}
	c.checkURL(e, "base_url", m.BaseURL)
	if auth := c.s.find(agent.KindAuth, e.doc.Tenant, m.Auth, nil); auth != nil && sharedKeyLeaves(e, auth) {
		c.addFault(e, "auth", "%s", sharedKeyFault(m.Auth))
	}
}

// checkURL adds a fault for a URL that egress refuses whatever its host resolves to.
func (c *checker) checkURL(e *entry, path, url string) {
	if url == "" || c.r.cfg.Parts.Addresses == nil {
		return
	}
	if err := c.r.cfg.Parts.Addresses.Check(url); err != nil {
		_, message := fieldOf(err)
		c.addFault(e, path, "%s; egress.allow_hosts and egress.allow_private say where documents may lead", message)
	}
}

func (c *checker) checkSecrets(e *entry, a *agent.AuthProfile) {
	if c.r.cfg.Parts.Secrets == nil {
		return
	}
	for path, ref := range map[string]string{"secret": a.Secret, "password": a.Password, "client_secret": a.ClientSecret} {
		if ref == "" {
			continue
		}
		if err := c.r.cfg.Parts.Secrets.Allowed(e.doc.Tenant, ref); err != nil {
			c.addFault(e, path, "%s", err)
		}
	}
}

func (c *checker) checkBinding(e *entry, b *agent.ToolBinding) {
	for i, name := range b.Auth {
		c.checkReference(e, fmt.Sprintf("auth[%d]", i), agent.KindAuth, name)
	}
	if len(b.ClientSide) > 0 {
		return
	}
	k := agent.DocumentKey{Kind: agent.KindNode, Name: b.NodeID, Version: b.NodeVersion}
	found, ok := c.s.docs[k]
	switch {
	case !ok && (c.changed[e.doc.DocumentKey] || c.changed[k]):
		c.addFault(e, "node_id", "there is no node %s@%s", b.NodeID, b.NodeVersion)
		return
	case !ok || (!c.changed[e.doc.DocumentKey] && !c.changed[k]):
		return
	}
	n := found.node()
	if n.Type == agent.NodeAgent {
		c.addFault(e, "node_id", "node %s@%s is an agent, no tool", n.NodeID, n.Version)
		return
	}
	try := compiler{parts: c.r.cfg.Parts, e: e, in: &inputs{}, out: &compiledPlan{}}
	try.checkParameters(found, b.Parameters, "parameters")
	if specs, err := c.r.cfg.Parts.Tools.Specs(toolkitOf(n)); err == nil {
		try.selectTools(specs, b.Tools, c.r.cfg.Parts.Tools.Dynamic(toolkitOf(n)), "tools")
	}
	c.faults = append(c.faults, try.out.faults...)
}

func (c *checker) checkNode(e *entry, n *agent.NodeDefinition) {
	if n.Type == agent.NodeAgent {
		for i, m := range n.Middleware {
			if m.Name == all {
				continue
			}
			at := fmt.Sprintf("middleware[%d]", i)
			if broken := fixedStackProblem(m.Name); broken != "" {
				c.addFault(e, at+".name", "%s", broken)
				continue
			}
			if err := c.r.cfg.Parts.Middleware.Check(m, nil); err != nil {
				field, message := fieldOf(err)
				c.addFault(e, join(at, field), "%s", message)
			}
		}
		return
	}
	specs, err := c.r.cfg.Parts.Tools.Specs(toolkitOf(n))
	switch {
	case err != nil:
		c.addFault(e, "toolkit", "%s", reason(err))
	case n.Type == agent.NodeTool:
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == toolNameOf(n) }) {
			c.addFault(e, "tool", "toolkit %q has no tool %q: there are %s", toolkitOf(n), toolNameOf(n), joinToolNames(specs))
		}
	}
}

// checkAgents compiles the agents that changed, or all of them after a deep change. A disabled agent is not compiled: it only hides a shared
// one of its name.
func (c *checker) checkAgents() {
	bytes := 0
	for _, e := range c.s.agents {
		k := e.doc.DocumentKey
		touched := c.deep && (c.before == nil || c.before.docs[k] != e)
		if e.instance().Disabled || (!c.changed[k] && !touched) {
			continue
		}
		compiled := c.r.compiled(c.s, e)
		if len(compiled.faults) > 0 && (c.changed[k] || !c.wasBroken(k)) {
			c.faults = append(c.faults, compiled.faults...)
		}
		if bytes += len(compiled.body); bytes > maxCompiled {
			c.addFault(e, "", "the change makes plans of more than %d bytes in all", maxCompiled)
			return
		}
	}
}

func (c *checker) wasBroken(k agent.DocumentKey) bool {
	if c.before == nil {
		return false
	}
	e, ok := c.before.docs[k]
	return ok && len(c.r.compiled(c.before, e).faults) > 0
}

// checkRoutes checks that rules compile, that their agents exist and have their models, and that a tenant has one default agent.
func (c *checker) checkRoutes() {
	if !c.agents && !c.routes {
		return
	}
	defaults := map[string]*entry{}
	for _, e := range c.s.tables {
		t := e.table()
		mine := c.changed[e.doc.DocumentKey]
		if mine {
			for _, f := range c.r.cfg.Routes.Check(t) {
				c.addFault(e, f.Path, "%s", f.Message)
			}
		}
		if t.DefaultAgent != "" {
			c.checkRouteTarget(e, mine, "default_agent", t.DefaultAgent, "")
			c.checkSecondDefault(defaults, e, mine)
		}
		for i, rule := range t.Rules {
			c.checkRouteTarget(e, mine, fmt.Sprintf("rules[%d]", i), rule.Agent, rule.Model)
		}
	}
}

// checkSecondDefault adds a fault for the second default agent of a tenant, at the document that changed.
func (c *checker) checkSecondDefault(defaults map[string]*entry, e *entry, mine bool) {
	other := defaults[e.doc.Tenant]
	defaults[e.doc.Tenant] = e
	if other == nil || other.stored() != e.stored() || (!mine && !c.changed[other.doc.DocumentKey]) {
		return
	}
	if !mine {
		e, other = other, e
	}
	c.addFault(e, "default_agent", "%s names a default agent for the same tenant: one is enough", other.doc.DocumentKey)
}

// checkRouteTarget checks the agent of a rule or of a default. A shipped table may name an agent that is hidden.
func (c *checker) checkRouteTarget(e *entry, mine bool, path, name, model string) {
	at := path
	if path != "default_agent" {
		at += ".agent"
	}
	to := c.s.agent(e.doc.Tenant, name)
	if to == nil {
		if mine || (e.stored() && c.existedBefore(e.doc.Tenant, name)) {
			c.addFault(e, at, "there is no agent %q", name)
		}
		return
	}
	if model == "" || (!mine && !c.changed[to.doc.DocumentKey]) {
		return
	}
	compiled := c.r.compiled(c.s, to)
	if len(compiled.faults) > 0 {
		return // checkAgents reports it
	}
	if _, err := compiled.plan.Model(model); err != nil {
		c.addFault(e, path+".model", "agent %q has no model %q", name, model)
	}
}
