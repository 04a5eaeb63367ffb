package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// check says what a change would break: references that lead nowhere, agents that no longer compile, routes, cycles. s is the
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
	slices.SortFunc(changed, compareKeys)
	for _, k := range changed {
		if e, ok := s.docs[k]; ok {
			c.document(e)
		}
	}
	c.compile()
	c.delegation()
	c.tables()
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
	c.faults = append(c.faults, e.def.Fault(path, format, args...))
}

// document checks the references of documents that are not part of a plan by themselves: nobody may use them yet.
func (c *checker) document(e *entry) {
	switch v := e.def.Value.(type) {
	case *agent.ToolBinding:
		c.binding(e, v)
	case *agent.ModelProfile:
		if v.Auth != "" && c.s.find(agent.KindAuth, e.doc.Tenant, v.Auth, nil) == nil {
			c.fault(e, "auth", "there is no auth profile %q", v.Auth)
		}
	case *agent.KnowledgeCollection:
		if v.Embedding != "" && c.s.find(agent.KindModel, e.doc.Tenant, v.Embedding, nil) == nil {
			c.fault(e, "embedding", "there is no model profile %q", v.Embedding)
		}
	case *agent.NodeDefinition:
		c.node(e, v)
	}
}

func (c *checker) binding(e *entry, b *agent.ToolBinding) {
	for i, name := range b.Auth {
		if c.s.find(agent.KindAuth, e.doc.Tenant, name, nil) == nil {
			c.fault(e, fmt.Sprintf("auth[%d]", i), "there is no auth profile %q", name)
		}
	}
	found, ok := c.s.docs[agent.DocumentKey{Kind: agent.KindNode, Name: b.NodeID, Version: b.NodeVersion}]
	if !ok {
		c.fault(e, "node_id", "there is no node %s@%s", b.NodeID, b.NodeVersion)
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
		try.only(specs, b.Tools, "tools")
	}
	c.faults = append(c.faults, try.out.faults...)
}

func (c *checker) node(e *entry, n *agent.NodeDefinition) {
	if n.Type == agent.NodeAgent {
		plan := agent.Plan{Middleware: slices.DeleteFunc(slices.Clone(n.Middleware), func(m agent.PlanMiddleware) bool { return m.Name == all })}
		if err := c.r.cfg.Parts.Middleware.Check(&plan); err != nil {
			c.fault(e, "middleware", "%s", reason(err))
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

// compile compiles the agents that changed, or all when something changed that agents are made of.
func (c *checker) compile() {
	for _, e := range c.s.agents {
		k := e.doc.DocumentKey
		switch {
		case c.changed[k]:
			c.faults = append(c.faults, c.r.compiled(c.s, e).faults...)
		case c.deep && (c.before == nil || c.before.docs[k] != e):
			faults := c.r.compiled(c.s, e).faults
			if len(faults) > 0 && !c.brokenBefore(k) {
				c.faults = append(c.faults, faults...)
			}
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

// delegation refuses delegates that do not exist, and agents that hand work to one another in a circle.
func (c *checker) delegation() {
	if !c.agents {
		return
	}
	for _, e := range c.s.agents {
		for i, name := range e.instance().Delegates {
			to := c.s.find(agent.KindAgent, e.doc.Tenant, name, nil)
			path := fmt.Sprintf("delegates[%d]", i)
			switch {
			case to == nil && (c.changed[e.doc.DocumentKey] || c.wentAway(e.doc.Tenant, name)):
				c.fault(e, path, "there is no agent %q", name)
			case to != nil && c.changed[e.doc.DocumentKey]:
				c.circle(e, path, name)
			}
		}
	}
}

// wentAway reports whether a name meant an agent before the change.
func (c *checker) wentAway(tenant, name string) bool {
	return c.before != nil && c.before.find(agent.KindAgent, tenant, name, nil) != nil
}

// circle looks for a way from a delegate back to the agent. It visits each agent once.
func (c *checker) circle(e *entry, path, name string) {
	type stop struct {
		entry *entry
		way   []string
	}
	tenant := e.doc.Tenant
	seen := map[*entry]bool{}
	queue := []stop{{c.s.find(agent.KindAgent, tenant, name, nil), []string{e.doc.Name, name}}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at.entry == e {
			c.fault(e, path, "agents delegate in a circle: %s", strings.Join(at.way, " → "))
			return
		}
		if at.entry == nil || seen[at.entry] {
			continue
		}
		seen[at.entry] = true
		for _, next := range at.entry.instance().Delegates {
			// A shared agent runs for the tenant that called it, and finds that tenant's agents first.
			queue = append(queue, stop{c.s.find(agent.KindAgent, tenant, next, nil), append(slices.Clone(at.way), next)})
		}
	}
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
			if other := defaults[e.doc.Tenant]; other != nil && other.stored() == e.stored() && (mine || c.changed[other.doc.DocumentKey]) {
				c.fault(e, "default_agent", "%s names a default agent for the same tenant: one is enough", other.doc.DocumentKey)
			}
			defaults[e.doc.Tenant] = e
		}
		for i, rule := range t.Rules {
			c.target(e, mine, fmt.Sprintf("rules[%d]", i), rule.Agent, rule.Model)
		}
	}
}

func (c *checker) target(e *entry, mine bool, path, name, model string) {
	if path != "default_agent" {
		path += ".agent"
	}
	to := c.s.find(agent.KindAgent, e.doc.Tenant, name, nil)
	if to == nil {
		if mine || c.wentAway(e.doc.Tenant, name) {
			c.fault(e, path, "there is no agent %q", name)
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
		c.fault(e, strings.TrimSuffix(path, "agent")+"model", "agent %q has no model %q", name, model)
	}
}
