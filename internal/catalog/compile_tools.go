package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// addTools adds the tools that the agent is granted, in the order of its list. Names are unique: a model knows tools by name only.
func (c *compiler) addTools() {
	for i := range c.in.grants {
		c.addGrant(&c.in.grants[i])
	}
}

// nodeProblem says why a grant has no tool node, empty if it has one.
func (g *grant) nodeProblem() string {
	switch {
	case g.node == nil && g.binding == nil && g.needed:
		return fmt.Sprintf("needs the toolkit %q, which this server does not have", g.bound.NodeID)
	case g.node == nil && g.binding == nil:
		return fmt.Sprintf("there is no tool binding and no tool node %q", g.Toolkit)
	case g.node == nil:
		return fmt.Sprintf("tool binding %q names node %s@%s, which does not exist", g.Toolkit, g.bound.NodeID, g.bound.NodeVersion)
	case g.node.node().Type == agent.NodeAgent:
		return fmt.Sprintf("node %s@%s is an agent, no tool", g.node.node().NodeID, g.node.node().Version)
	default:
		return ""
	}
}

// addGrant adds the tools of one entry: of a binding, or of a node without one.
func (c *compiler) addGrant(g *grant) {
	if len(g.bound.ClientSide) > 0 {
		c.addClientSideTools(g)
		return
	}
	at := g.pathOf("toolkit")
	if problem := g.nodeProblem(); problem != "" {
		c.addFault(at, "%s", problem)
		return
	}
	n := g.node.node()
	specs, err := c.parts.Tools.Specs(toolkitOf(n))
	if err != nil {
		c.addFault(at, "%s", reason(err))
		return
	}
	params, ok := c.checkParameters(g.node, g.bound.Parameters, at)
	if !ok {
		return
	}
	var auth []agent.PlanAuth
	for i := range g.auth {
		if a, ok := c.planAuth(&g.auth[i], at); ok {
			auth = append(auth, a)
		}
	}
	if n.Type == agent.NodeTool {
		specs = slices.DeleteFunc(slices.Clone(specs), func(s agent.ToolSpec) bool { return s.Name != toolNameOf(n) })
	}
	dynamic := n.Type == agent.NodeToolkit && c.parts.Tools.Dynamic(toolkitOf(n))
	specs, bound := c.selectTools(specs, g.bound.Tools, dynamic, at)
	specs, granted := c.selectTools(specs, g.Tools, dynamic, g.pathOf("tools"))
	source := agent.PlanSource{
		Toolkit: toolkitOf(n), Binding: g.bound.Name, Node: n.NodeID + "@" + n.Version, SourceNodeName: n.NodeID,
		IsFromToolkit: n.Type == agent.NodeToolkit, Approval: firstApproval(g.Approval, g.bound.Approval), Parameters: params.raw, Auth: auth,
		Deferred: g.Deferred,
	}
	for _, spec := range specs {
		c.addTool(agent.PlanTool{
			Spec: spec, Toolkit: source.Toolkit, Binding: source.Binding, Node: source.Node, SourceNodeName: source.SourceNodeName,
			IsFromToolkit: source.IsFromToolkit, Approval: source.Approval, Parameters: source.Parameters, Auth: source.Auth,
			Deferred: source.Deferred && !spec.RevealsTools,
		}, g)
	}
	if dynamic {
		c.addSource(&source, bound, granted)
	}
}

// addClientSideTools adds the tools of a binding that run at the caller.
func (c *compiler) addClientSideTools(g *grant) {
	specs := make([]agent.ToolSpec, len(g.bound.ClientSide))
	for i := range g.bound.ClientSide {
		specs[i].Name = g.bound.ClientSide[i].Name
	}
	specs, _ = c.selectTools(specs, g.bound.Tools, false, g.pathOf("toolkit"))
	specs, _ = c.selectTools(specs, g.Tools, false, g.pathOf("tools"))
	for i := range g.bound.ClientSide {
		tool := &g.bound.ClientSide[i]
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == tool.Name }) {
			continue
		}
		granted := tool.Granted(g.bound.Name)
		granted.Approval, granted.Deferred = firstApproval(g.Approval, g.bound.Approval), g.Deferred
		c.addTool(granted, g)
	}
}

// addSource adds a grant of a dynamic toolkit. bound and granted are the names that binding and grant select, nil for all; the plan has
// those in both.
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

// toolkitOf returns the name of the toolkit behind a tool or toolkit node.
func toolkitOf(n *agent.NodeDefinition) string { return cmp.Or(n.Toolkit, n.NodeID) }

// toolNameOf returns the name of the tool of a tool node.
func toolNameOf(n *agent.NodeDefinition) string { return cmp.Or(n.Tool, n.NodeID) }

// firstApproval returns the first policy that is set and not the default.
func firstApproval(policies ...agent.Approve) agent.Approve {
	for _, p := range policies {
		if p != "" && p != agent.ApproveDefault {
			return p
		}
	}
	return ""
}

// selectTools returns the tools with these names; no names select all. Names without a tool are faults, or, for a dynamic toolkit, returned
// as others; others is nil if all tools are selected.
func (c *compiler) selectTools(specs []agent.ToolSpec, names []string, dynamic bool, path string) (kept []agent.ToolSpec, others []string) {
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
			c.addFault(fmt.Sprintf("%s[%d]", path, i), "there is no tool %q here: there are %s", name, joinToolNames(specs))
			continue
		}
		out = append(out, specs[at])
	}
	return out, others
}

func joinToolNames(specs []agent.ToolSpec) string {
	names := make([]string, 0, len(specs))
	for i := range specs {
		names = append(names, specs[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (c *compiler) addTool(t agent.PlanTool, g *grant) {
	other, taken := c.plan.Tool(t.Spec.Name)
	switch {
	case taken && g.needed && other.Toolkit == t.Toolkit: // the agent's own grant counts
		return
	case taken:
		c.addFault(g.path, "tool %q comes from %q (node %s) and from %q (node %s): a model knows tools by name alone",
			t.Spec.Name, other.Binding, other.Node, t.Binding, t.Node)
		return
	}
	c.plan.Tools = append(c.plan.Tools, t)
}
