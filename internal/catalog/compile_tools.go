package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// addTools adds the tools that the agent is granted, in the order of its list. Tool names are unique within a plan.
func (c *compiler) addTools() {
	for i := range c.in.grants {
		c.addGrant(&c.in.grants[i])
	}
}

// nodeProblem returns why a grant has no tool node, empty if it has one.
func (g *grant) nodeProblem() string {
	switch {
	case g.node == nil && g.bindingEntry == nil && g.isImplicit:
		return fmt.Sprintf("needs the toolkit %q, which this server does not have", g.binding.NodeID)
	case g.node == nil && g.bindingEntry == nil:
		return fmt.Sprintf("there is no tool binding and no tool node %q", g.Toolkit)
	case g.node == nil:
		return fmt.Sprintf("tool binding %q names node %s@%s, which does not exist", g.Toolkit, g.binding.NodeID, g.binding.NodeVersion)
	case g.node.node().Type == agent.NodeAgent:
		return fmt.Sprintf("node %s@%s is an agent, no tool", g.node.node().NodeID, g.node.node().Version)
	default:
		return ""
	}
}

// addGrant adds the tools of a grant.
func (c *compiler) addGrant(g *grant) {
	if len(g.binding.ClientSide) > 0 {
		c.addClientSideTools(g)
		return
	}
	path := g.pathOf("toolkit")
	if problem := g.nodeProblem(); problem != "" {
		c.addFault(path, "%s", problem)
		return
	}
	n := g.node.node()
	specs, err := c.parts.Tools.Specs(toolkitOf(n))
	if err != nil {
		c.addFault(path, "%s", err)
		return
	}
	source, ok := c.planSource(g, path)
	if !ok {
		return
	}
	if n.Type == agent.NodeTool {
		specs = slices.DeleteFunc(slices.Clone(specs), func(s agent.ToolSpec) bool { return s.Name != toolNameOf(n) })
	}
	isDynamic := n.Type == agent.NodeToolkit && c.parts.Tools.Dynamic(toolkitOf(n))
	specs, bound := c.selectTools(specs, g.binding.Tools, isDynamic, path)
	specs, granted := c.selectTools(specs, g.Tools, isDynamic, g.pathOf("tools"))
	for _, spec := range specs {
		c.addTool(agent.PlanTool{
			Spec: spec, Toolkit: source.Toolkit, Binding: source.Binding, Node: source.Node, SourceNodeName: source.SourceNodeName,
			IsFromToolkit: source.IsFromToolkit, Approval: source.Approval, Parameters: source.Parameters, Auth: source.Auth,
			Deferred: source.Deferred && !spec.RevealsTools,
		}, g)
	}
	if isDynamic {
		c.addSource(&source, bound, granted)
	}
}

// planSource returns the toolkit of a grant with its parameters and auth profiles; false after a fault of the parameters.
func (c *compiler) planSource(g *grant, path string) (agent.PlanSource, bool) {
	n := g.node.node()
	params, ok := c.checkParameters(g.node, g.binding.Parameters, path)
	if !ok {
		return agent.PlanSource{}, false
	}
	source := agent.PlanSource{
		Toolkit: toolkitOf(n), Binding: g.binding.Name, Node: n.NodeID + "@" + n.Version, SourceNodeName: n.NodeID,
		IsFromToolkit: n.Type == agent.NodeToolkit, Approval: firstApproval(g.Approval, g.binding.Approval), Parameters: params.raw,
		Deferred: g.Deferred,
	}
	for i := range g.auth {
		if a, ok := c.planAuth(&g.auth[i], path); ok {
			source.Auth = append(source.Auth, a)
		}
	}
	return source, true
}

// addClientSideTools adds the tools of a binding that run at the caller.
func (c *compiler) addClientSideTools(g *grant) {
	tools := g.binding.ClientSide
	specs := make([]agent.ToolSpec, len(tools))
	for i := range tools {
		specs[i].Name = tools[i].Name
	}
	specs, _ = c.selectTools(specs, g.binding.Tools, false, g.pathOf("toolkit"))
	specs, _ = c.selectTools(specs, g.Tools, false, g.pathOf("tools"))
	for i := range tools {
		if !slices.ContainsFunc(specs, func(s agent.ToolSpec) bool { return s.Name == tools[i].Name }) {
			continue
		}
		t := tools[i].Granted(g.binding.Name)
		t.Approval, t.Deferred = firstApproval(g.Approval, g.binding.Approval), g.Deferred
		c.addTool(t, g)
	}
}

// addSource adds a dynamic toolkit. bound and granted are the tool names that the binding and the grant select, nil for all; the plan has the
// names that are in both.
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

// toolkitOf returns the name of the toolkit that implements a tool or toolkit node.
func toolkitOf(n *agent.NodeDefinition) string { return cmp.Or(n.Toolkit, n.NodeID) }

// toolNameOf returns the name of the tool of a tool node.
func toolNameOf(n *agent.NodeDefinition) string { return cmp.Or(n.Tool, n.NodeID) }

// firstApproval returns the first policy that differs from the default, empty if there is none.
func firstApproval(policies ...agent.Approve) agent.Approve {
	for _, p := range policies {
		if p != "" && p != agent.ApproveDefault {
			return p
		}
	}
	return ""
}

// selectTools returns the tools with these names, all tools if there are no names. A name without a tool is a fault, except in a dynamic
// toolkit, where selectTools returns it in dynamicNames. dynamicNames is nil if all tools are selected.
func (c *compiler) selectTools(specs []agent.ToolSpec, names []string, isDynamic bool, path string) (selected []agent.ToolSpec, dynamicNames []string) {
	if len(names) == 0 {
		return specs, nil
	}
	dynamicNames = []string{}
	for i, name := range names {
		index := slices.IndexFunc(specs, func(s agent.ToolSpec) bool { return s.Name == name })
		switch {
		case index >= 0:
			selected = append(selected, specs[index])
		case isDynamic:
			dynamicNames = append(dynamicNames, name)
		default:
			c.addFault(fmt.Sprintf("%s[%d]", path, i), "there is no tool %q here: there are %s", name, joinToolNames(specs))
		}
	}
	return selected, dynamicNames
}

func joinToolNames(specs []agent.ToolSpec) string {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// addTool adds a tool unless its name is taken, which is a fault except for an implicit grant of the same toolkit.
func (c *compiler) addTool(t agent.PlanTool, g *grant) {
	other, isTaken := c.plan.Tool(t.Spec.Name)
	switch {
	case isTaken && g.isImplicit && other.Toolkit == t.Toolkit:
		return
	case isTaken:
		c.addFault(g.path, "tool %q comes from %q (node %s) and from %q (node %s): a model knows tools by name alone",
			t.Spec.Name, other.Binding, other.Node, t.Binding, t.Node)
		return
	}
	c.plan.Tools = append(c.plan.Tools, t)
}
