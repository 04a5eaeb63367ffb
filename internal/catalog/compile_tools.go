package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// tools fills in what the agent is granted, in the order of its list. A name may come once: a model knows tools by name alone.
func (c *compiler) tools() {
	for i := range c.in.grants {
		c.grant(&c.in.grants[i])
	}
}

// grant adds the tools of one entry: of a binding, or of a node as it is.
func (c *compiler) grant(g *grant) {
	at := g.at("toolkit")
	if len(g.bound.ClientSide) > 0 {
		c.clientSide(g)
		return
	}
	switch {
	case g.node == nil && g.binding == nil && g.needed:
		c.fault(at, "needs the toolkit %q, which this server does not have", g.bound.NodeID)
		return
	case g.node == nil && g.binding == nil:
		c.fault(at, "there is no tool binding and no tool node %q", g.Toolkit)
		return
	case g.node == nil:
		c.fault(at, "tool binding %q names node %s@%s, which does not exist", g.Toolkit, g.bound.NodeID, g.bound.NodeVersion)
		return
	}
	n := g.node.node()
	if n.Type == agent.NodeAgent {
		c.fault(at, "node %s@%s is an agent, no tool", n.NodeID, n.Version)
		return
	}
	specs, err := c.parts.Tools.Specs(codeOf(n))
	if err != nil {
		c.fault(at, "%s", reason(err))
		return
	}
	params, ok := c.parameters(g.node, g.bound.Parameters, at)
	if !ok {
		return
	}
	var auth []agent.PlanAuth
	for i := range g.auth {
		if a, ok := c.auth(&g.auth[i], at); ok {
			auth = append(auth, a)
		}
	}
	if n.Type == agent.NodeTool {
		specs = slices.DeleteFunc(slices.Clone(specs), func(s agent.ToolSpec) bool { return s.Name != toolOf(n) })
	}
	dynamic := n.Type == agent.NodeToolkit && c.parts.Tools.Dynamic(codeOf(n))
	specs, bound := c.only(specs, g.bound.Tools, dynamic, at)
	specs, granted := c.only(specs, g.Tools, dynamic, g.at("tools"))
	source := agent.PlanSource{
		Toolkit: codeOf(n), Binding: g.bound.Name, Node: n.NodeID + "@" + n.Version, SourceNodeName: n.NodeID,
		IsFromToolkit: n.Type == agent.NodeToolkit, Approval: approval(g.Approval, g.bound.Approval), Parameters: params.raw, Auth: auth,
		Deferred: g.Deferred,
	}
	for _, spec := range specs {
		c.add(agent.PlanTool{
			Spec: spec, Toolkit: source.Toolkit, Binding: source.Binding, Node: source.Node, SourceNodeName: source.SourceNodeName,
			IsFromToolkit: source.IsFromToolkit, Approval: source.Approval, Parameters: source.Parameters, Auth: source.Auth,
			Deferred: source.Deferred && !spec.RevealsTools,
		}, g)
	}
	if dynamic {
		c.addSource(&source, bound, granted)
	}
}

// clientSide adds the tools of a binding that run at the caller.
func (c *compiler) clientSide(g *grant) {
	specs := make([]agent.ToolSpec, len(g.bound.ClientSide))
	for i := range g.bound.ClientSide {
		specs[i].Name = g.bound.ClientSide[i].Name
	}
	specs, _ = c.only(specs, g.bound.Tools, false, g.at("toolkit"))
	specs, _ = c.only(specs, g.Tools, false, g.at("tools"))
	for i := range g.bound.ClientSide {
		tool := &g.bound.ClientSide[i]
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == tool.Name }) {
			continue
		}
		granted := tool.Granted(g.bound.Name)
		granted.Approval, granted.Deferred = approval(g.Approval, g.bound.Approval), g.Deferred
		c.add(granted, g)
	}
}

// addSource adds a dynamic toolkit's grant. bound and granted are the names that binding and grant keep, none for all; a name that both
// must keep and one does not is never there.
func (c *compiler) addSource(s *agent.PlanSource, bound, granted []string) {
	switch {
	case bound == nil:
		s.Only = granted
	case granted == nil:
		s.Only = bound
	default:
		s.Only = slices.DeleteFunc(slices.Clone(granted), func(name string) bool { return !slices.Contains(bound, name) })
	}
	if s.Only != nil && len(s.Only) == 0 {
		return
	}
	c.plan.Sources = append(c.plan.Sources, *s)
}

// codeOf names the code behind a tool or toolkit node.
func codeOf(n *agent.NodeDefinition) string { return cmp.Or(n.Toolkit, n.NodeID) }

// toolOf names the tool of a tool node.
func toolOf(n *agent.NodeDefinition) string { return cmp.Or(n.Tool, n.NodeID) }

// approval is the first policy that says something.
func approval(policies ...agent.Approve) agent.Approve {
	for _, p := range policies {
		if p != "" && p != agent.ApproveDefault {
			return p
		}
	}
	return ""
}

// only keeps the tools of a list of names; no names keep all. The names that are none of specs are faults, except of a dynamic toolkit:
// there they are answered as others, which is nil for all.
func (c *compiler) only(specs []agent.ToolSpec, names []string, dynamic bool, path string) (kept []agent.ToolSpec, others []string) {
	if len(names) == 0 {
		return specs, nil
	}
	var out []agent.ToolSpec
	others = []string{}
	for i, name := range names {
		at := slices.IndexFunc(specs, func(s agent.ToolSpec) bool { return s.Name == name })
		if at < 0 && dynamic {
			others = append(others, name)
			continue
		}
		if at < 0 {
			c.fault(fmt.Sprintf("%s[%d]", path, i), "there is no tool %q here: there are %s", name, nameList(specs))
			continue
		}
		out = append(out, specs[at])
	}
	return out, others
}

func nameList(specs []agent.ToolSpec) string {
	names := make([]string, 0, len(specs))
	for i := range specs {
		names = append(names, specs[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (c *compiler) add(t agent.PlanTool, g *grant) {
	other, taken := c.plan.Tool(t.Spec.Name)
	switch {
	case taken && g.needed && other.Toolkit == t.Toolkit: // as the agent says itself
		return
	case taken:
		c.fault(g.path, "tool %q comes from %q (node %s) and from %q (node %s): a model knows tools by name alone",
			t.Spec.Name, other.Binding, other.Node, t.Binding, t.Node)
		return
	}
	c.plan.Tools = append(c.plan.Tools, t)
}
