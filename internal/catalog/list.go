package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// ListNodes returns a page of the node definitions of both layers, sorted by ID and version.
func (r *Registry) ListNodes(_ context.Context, q agent.NodeQuery) (agent.NodePage, error) {
	s := r.current.Load()
	found, next, err := page(s.nodes, compareKeys, q.Page, []any{q.Type, q.NodeID, q.Labels}, func(e *entry) bool {
		n := e.node()
		return (q.Type == "" || n.Type == q.Type) && (q.NodeID == "" || n.NodeID == q.NodeID) && hasLabels(n.Labels, q.Labels)
	})
	if err != nil {
		return agent.NodePage{}, err
	}
	out := agent.NodePage{Nodes: make([]agent.NodeInfo, 0, len(found)), Next: next, Revision: s.revision}
	for _, e := range found {
		out.Nodes = append(out.Nodes, r.nodeInfo(e))
	}
	return out, nil
}

// ListAgents returns a page of the agents that a tenant sees, sorted by name, with the tools and models of their plans.
func (r *Registry) ListAgents(_ context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	s := r.current.Load()
	q.Tenant = cmp.Or(q.Tenant, agent.DefaultTenant)
	found, next, err := page(s.visibleAgents(q.Tenant), agentOrder(q.Tenant), q.Page, []any{q.Tenant, q.NodeID, q.Tool, q.Labels}, func(e *entry) bool {
		a := e.instance()
		if (q.NodeID != "" && a.NodeID != q.NodeID) || !hasLabels(a.Labels, q.Labels) {
			return false
		}
		if q.Tool == "" {
			return true
		}
		_, granted := r.compiled(s, e).plan.Tool(q.Tool)
		return granted
	})
	if err != nil {
		return agent.AgentPage{}, err
	}
	out := agent.AgentPage{Agents: make([]agent.AgentInfo, 0, len(found)), Next: next, Revision: s.revision}
	for _, e := range found {
		out.Agents = append(out.Agents, r.agentInfo(s, e, q.Tenant))
	}
	return out, nil
}

// Documents returns a page of the documents of both layers, as they were written.
func (r *Registry) Documents(_ context.Context, q agent.DocumentQuery) (agent.DocumentPage, error) {
	s := r.current.Load()
	docs := slices.SortedFunc(maps.Values(s.docs), func(a, b *entry) int { return compareKeys(a.doc.DocumentKey, b.doc.DocumentKey) })
	found, next, err := page(docs, compareKeys, q.Page, []any{q.Kind, q.Tenant, q.Name, q.Version, q.Source}, func(e *entry) bool {
		d := &e.doc
		return (q.Kind == "" || d.Kind == q.Kind) && (q.Tenant == "" || d.Tenant == q.Tenant) && (q.Name == "" || d.Name == q.Name) &&
			(q.Version == "" || d.Version == q.Version) && (q.Source == "" || d.Source == q.Source)
	})
	if err != nil {
		return agent.DocumentPage{}, err
	}
	out := agent.DocumentPage{Documents: make([]agent.Document, 0, len(found)), Next: next, Revision: s.revision}
	for _, e := range found {
		out.Documents = append(out.Documents, e.doc)
	}
	return out, nil
}

// agentOrder returns the order of the agents that a tenant sees: by name, which is unique.
func agentOrder(tenant string) func(a, b agent.DocumentKey) int {
	if tenant == agent.SharedTenant {
		return compareKeys
	}
	return func(a, b agent.DocumentKey) int { return cmp.Compare(a.Name, b.Name) }
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// nodeInfo describes a node with the tools that this process has for it.
func (r *Registry) nodeInfo(e *entry) agent.NodeInfo {
	n := e.node()
	info := agent.NodeInfo{
		NodeID: n.NodeID, Version: n.Version, Type: n.Type, Description: n.Description, Labels: notNil(n.Labels), Properties: n.Properties,
		Tools: []agent.ToolInfo{}, Revision: e.doc.Revision, Source: e.doc.Source,
	}
	if n.Type == agent.NodeAgent {
		return info
	}
	specs, err := r.cfg.Parts.Tools.Specs(toolkitOf(n))
	if err != nil {
		return info // this process does not have the toolkit
	}
	for i := range specs {
		if n.Type == agent.NodeTool && specs[i].Name != toolNameOf(n) {
			continue
		}
		info.Tools = append(info.Tools, toolInfo(&agent.PlanTool{
			Spec: specs[i], Binding: n.NodeID, Node: n.NodeID + "@" + n.Version, SourceNodeName: n.NodeID, IsFromToolkit: n.Type == agent.NodeToolkit,
		}))
	}
	return info
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// agentInfo describes an agent as a tenant sees it.
func (r *Registry) agentInfo(s *snapshot, e *entry, tenant string) agent.AgentInfo {
	a := e.instance()
	if tenant == agent.SharedTenant {
		tenant = e.doc.Tenant
	}
	c := r.compiled(s, e)
	p := &c.plan
	info := agent.AgentInfo{
		Name: a.Name, Tenant: e.doc.Tenant, InstanceID: instanceID(e.doc.Tenant, a), Description: a.Description, Labels: notNil(a.Labels),
		Default: s.defaultAgent(tenant) == a.Name, NodeID: a.NodeID, NodeVersion: a.NodeVersion, PlanHash: c.hash, Models: []string{},
		Tools: []agent.ToolInfo{}, Middleware: []string{}, Limits: p.Limits, RateLimits: a.RateLimits, Capabilities: capabilities(p),
		Revision: c.revision, Source: e.doc.Source,
	}
	if len(c.faults) > 0 {
		info.Fault = c.faults.Error()
	}
	for i := range p.Models {
		info.Models = append(info.Models, p.Models[i].Profile)
	}
	for i := range p.Tools {
		info.Tools = append(info.Tools, toolInfo(&p.Tools[i]))
	}
	for i := range p.Middleware {
		info.Middleware = append(info.Middleware, p.Middleware[i].Name)
	}
	if published, ok := s.artifacts[agentKey{e.doc.Tenant, e.doc.Name}]; ok && published.Inputs == c.inputs {
		info.Artifact = &published
		info.Revision = max(info.Revision, published.Revision)
	}
	return info
}

func toolInfo(t *agent.PlanTool) agent.ToolInfo {
	id, version, _ := strings.Cut(t.Node, "@")
	info := agent.ToolInfo{
		Name: t.Spec.Name, Description: t.Spec.Description, Toolkit: t.Binding, NodeID: id, NodeVersion: version,
		SourceNodeName: t.SourceNodeName, IsFromToolkit: t.IsFromToolkit, Parameters: t.Spec.Parameters, Idempotent: t.Spec.Idempotent,
		InherentlySafe: t.Spec.InherentlySafe, Approval: cmp.Or(t.Approval, agent.ApproveDefault),
	}
	if len(info.Parameters) == 0 {
		info.Parameters = json.RawMessage(`{"type":"object"}`)
	}
	return info
}

// capabilities returns the names of what an agent can do, sorted.
func capabilities(p *agent.Plan) []string {
	out := []string{"streaming"}
	for name, isPresent := range map[string]bool{
		"tools":             len(p.Tools) > 0,
		"delegation":        len(p.Delegates) > 0,
		"knowledge":         len(p.Prepare) > 0,
		"structured_output": len(p.OutputSchema) > 0,
		"direct":            p.Mode == agent.ModeDirect,
		"approvals": slices.ContainsFunc(p.Tools, func(t agent.PlanTool) bool {
			return t.Approval == agent.ApproveAlways || (t.Approval == "" && !t.Spec.InherentlySafe)
		}),
	} {
		if isPresent {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
