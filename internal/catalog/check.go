package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// maxCompiled bounds the total size of the plans that one change compiles, in bytes.
const maxCompiled = 256 << 20

// check returns the faults that a change introduces: references to missing documents, agents that no longer compile, invalid routes,
// delegation cycles. before is the served snapshot, which may be nil, candidate the snapshot after the change, and changed lists the
// documents that differ. Faults that documents outside the change already had are not reported.
func (r *Registry) check(before, candidate *snapshot, changed []agent.DocumentKey) agent.Faults {
	c := checker{r: r, before: before, s: candidate, changed: map[agent.DocumentKey]bool{}}
	for _, k := range changed {
		c.changed[k] = true
		c.agentsChanged = c.agentsChanged || k.Kind == agent.KindAgent
		c.routesChanged = c.routesChanged || k.Kind == agent.KindRoutes
		c.inputsChanged = c.inputsChanged || isPlanInput(k.Kind)
	}
	if c.inputsChanged {
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

// checker collects the faults of a change. See [Registry.check].
type checker struct {
	r         *Registry
	before, s *snapshot // s is the candidate
	changed   map[agent.DocumentKey]bool
	faults    agent.Faults

	agentsChanged, routesChanged bool
	inputsChanged                bool // documents that agents are compiled from
}

func (c *checker) addFault(e *entry, path, format string, args ...any) {
	c.faults = append(c.faults, e.parsed.Fault(path, format, args...))
}

// checkReferences checks the documents other than agents that name documents, because no agent may use them yet. A document outside the
// change has a fault only for a reference that the change removes.
func (c *checker) checkReferences() {
	for k, e := range c.s.docs {
		switch v := e.parsed.Value.(type) {
		case *agent.ToolBinding:
			c.checkBinding(e, v)
		case *agent.ModelProfile:
			c.checkReference(e, "auth", agent.KindAuth, v.Auth)
			if c.changed[k] && e.doc.Source != agent.SourceConfig { // models of the configuration may have any address
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

// checkReference checks that a document of that name exists, unless the name is empty.
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
	if providers := c.r.cfg.Parts.Providers; providers != nil && !slices.Contains(providers, m.Provider) {
		c.addFault(e, "provider", "unknown provider %q: want one of %s", m.Provider, strings.Join(providers, ", "))
	}
	c.checkURL(e, "base_url", m.BaseURL)
	if auth := c.s.find(agent.KindAuth, e.doc.Tenant, m.Auth, nil); auth != nil && sharedKeyLeaves(e, auth) {
		c.addFault(e, "auth", "%s", sharedKeyFault(m.Auth))
	}
}

// checkURL adds a fault for a URL that the rules of egress refuse.
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
	if !c.changed[e.doc.DocumentKey] && !c.changed[k] {
		return
	}
	node, exists := c.s.docs[k]
	if !exists {
		c.addFault(e, "node_id", "there is no node %s@%s", b.NodeID, b.NodeVersion)
		return
	}
	n := node.node()
	if n.Type == agent.NodeAgent {
		c.addFault(e, "node_id", "node %s@%s is an agent, no tool", n.NodeID, n.Version)
		return
	}
	trial := newCompiler(c.r.cfg.Parts, e, &inputs{})
	trial.checkParameters(node, b.Parameters, "parameters")
	if specs, err := c.r.cfg.Parts.Tools.Specs(toolkitOf(n)); err == nil {
		trial.selectTools(specs, b.Tools, c.r.cfg.Parts.Tools.Dynamic(toolkitOf(n)), "tools")
	}
	c.faults = append(c.faults, trial.out.faults...)
}

func (c *checker) checkNode(e *entry, n *agent.NodeDefinition) {
	if n.Type == agent.NodeAgent {
		trial := newCompiler(c.r.cfg.Parts, e, &inputs{})
		for i, m := range n.Middleware {
			if m.Name != wildcard {
				trial.checkLayer(m, nil, fmt.Sprintf("middleware[%d]", i))
			}
		}
		c.faults = append(c.faults, trial.out.faults...)
		return
	}
	specs, err := c.r.cfg.Parts.Tools.Specs(toolkitOf(n))
	switch {
	case err != nil:
		c.addFault(e, "toolkit", "%s", err)
	case n.Type == agent.NodeTool:
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == toolNameOf(n) }) {
			c.addFault(e, "tool", "toolkit %q has no tool %q: there are %s", toolkitOf(n), toolNameOf(n), joinToolNames(specs))
		}
	}
}

// checkAgents compiles the agents that changed or whose inputs changed. Disabled agents are not compiled: they only hide a shared agent of
// their name.
func (c *checker) checkAgents() {
	size := 0
	for _, e := range c.s.agents {
		k := e.doc.DocumentKey
		hasNewInputs := c.inputsChanged && (c.before == nil || c.before.docs[k] != e)
		if e.instance().Disabled || (!c.changed[k] && !hasNewInputs) {
			continue
		}
		compiled := c.r.compiled(c.s, e)
		if len(compiled.faults) > 0 && (c.changed[k] || !c.wasBroken(k)) {
			c.faults = append(c.faults, compiled.faults...)
		}
		size += len(compiled.body)
		if size > maxCompiled {
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

// checkRoutes checks the rules of routes: each compiles, its agent exists, and the agent has its model. A tenant has at most one default agent.
func (c *checker) checkRoutes() {
	if !c.agentsChanged && !c.routesChanged {
		return
	}
	defaults := map[string]*entry{}
	for _, e := range c.s.tables {
		t := e.table()
		if c.changed[e.doc.DocumentKey] {
			for _, f := range c.r.cfg.Routes.Check(t) {
				c.addFault(e, f.Path, "%s", f.Message)
			}
		}
		if t.DefaultAgent != "" {
			c.checkRouteTarget(e, "default_agent", t.DefaultAgent)
			c.checkSecondDefault(defaults, e)
		}
		for i, rule := range t.Rules {
			path := fmt.Sprintf("rules[%d]", i)
			c.checkRouteTarget(e, path+".agent", rule.Agent)
			c.checkRouteModel(e, path+".model", rule.Agent, rule.Model)
		}
	}
}

// checkSecondDefault adds a fault for the second default agent of a tenant, at the document that changed.
func (c *checker) checkSecondDefault(defaults map[string]*entry, e *entry) {
	other := defaults[e.doc.Tenant]
	defaults[e.doc.Tenant] = e
	if other == nil || other.isStored() != e.isStored() {
		return
	}
	if !c.changed[e.doc.DocumentKey] {
		e, other = other, e
	}
	if c.changed[e.doc.DocumentKey] {
		c.addFault(e, "default_agent", "%s names a default agent for the same tenant: one is enough", other.doc.DocumentKey)
	}
}

// checkRouteTarget checks that the agent of a rule or a default exists. A shipped table may name an agent that a tenant has hidden.
func (c *checker) checkRouteTarget(e *entry, path, name string) {
	if c.s.agent(e.doc.Tenant, name) != nil {
		return
	}
	if c.changed[e.doc.DocumentKey] || (e.isStored() && c.existedBefore(e.doc.Tenant, name)) {
		c.addFault(e, path, "there is no agent %q", name)
	}
}

// checkRouteModel checks that the agent of a rule has the model of the rule, if it names one.
func (c *checker) checkRouteModel(e *entry, path, name, model string) {
	target := c.s.agent(e.doc.Tenant, name)
	if target == nil || model == "" || (!c.changed[e.doc.DocumentKey] && !c.changed[target.doc.DocumentKey]) {
		return
	}
	compiled := c.r.compiled(c.s, target)
	if len(compiled.faults) > 0 {
		return // checkAgents reports them
	}
	if _, err := compiled.plan.Model(model); err != nil {
		c.addFault(e, path, "agent %q has no model %q", name, model)
	}
}
