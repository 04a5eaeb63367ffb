package gateway

import (
	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func labelsToProto(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[utf8(key)] = utf8(value)
	}
	return out
}

func textToProto(s *string) string { return utf8(*s) }

func toolInfoToProto(t *agent.ToolInfo) *pb.ToolInfo {
	return &pb.ToolInfo{
		Name: utf8(t.Name), Description: utf8(t.Description), Toolkit: utf8(t.Toolkit), NodeId: utf8(t.NodeID),
		NodeVersion: utf8(t.NodeVersion), SourceNodeName: utf8(t.SourceNodeName), IsFromToolkit: t.IsFromToolkit,
		Parameters: textOf(t.Parameters), Idempotent: t.Idempotent, InherentlySafe: t.InherentlySafe, Approval: utf8(string(t.Approval)),
	}
}

func nodeInfoToProto(n *agent.NodeInfo) *pb.NodeInfo {
	return &pb.NodeInfo{
		NodeId: utf8(n.NodeID), Version: utf8(n.Version), Type: utf8(string(n.Type)), Description: utf8(n.Description),
		Labels: labelsToProto(n.Labels), Properties: textOf(n.Properties), Tools: each(n.Tools, toolInfoToProto), Revision: n.Revision,
		Source: utf8(n.Source),
	}
}

func agentInfoToProto(a *agent.AgentInfo) *pb.AgentInfo {
	return &pb.AgentInfo{
		Name: utf8(a.Name), Tenant: utf8(a.Tenant), InstanceId: utf8(a.InstanceID), Description: utf8(a.Description),
		Labels: labelsToProto(a.Labels), Default: a.Default, NodeId: utf8(a.NodeID), NodeVersion: utf8(a.NodeVersion),
		PlanHash: utf8(a.PlanHash), Models: each(a.Models, textToProto), Tools: each(a.Tools, toolInfoToProto),
		Middleware: each(a.Middleware, textToProto), Limits: limitsToProto(a.Limits), RateLimits: rateLimitsToProto(&a.RateLimits),
		Capabilities: each(a.Capabilities, textToProto), Artifact: artifactToProto(a.Artifact), Revision: a.Revision,
		Source: utf8(a.Source), Fault: utf8(a.Fault),
	}
}

func rateLimitsToProto(r *agent.RateLimits) *pb.RateLimits {
	return &pb.RateLimits{
		RequestsPerMinute: int64(r.RequestsPerMinute), TokensPerMinute: r.TokensPerMinute, ConcurrentTurns: int64(r.ConcurrentTurns),
	}
}

func artifactToProto(a *agent.Artifact) *pb.Artifact {
	if a == nil {
		return nil
	}
	return &pb.Artifact{
		Tenant: utf8(a.Tenant), Agent: utf8(a.Agent), CompiledArtifactUri: utf8(a.URI), CompiledArtifactHash: utf8(a.Hash),
		CompiledAt: timeToProto(a.CompiledAt), Inputs: utf8(a.Inputs), Revision: a.Revision,
	}
}

func keyToProto(k *agent.DocumentKey) *pb.DocumentKey {
	return &pb.DocumentKey{Kind: utf8(string(k.Kind)), Tenant: utf8(k.Tenant), Name: utf8(k.Name), Version: utf8(k.Version)}
}

func keyFromProto(p *pb.DocumentKey) agent.DocumentKey {
	return agent.DocumentKey{Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Version: p.GetVersion()}
}

func documentToProto(d *agent.Document) *pb.Document {
	return &pb.Document{
		Key: keyToProto(&d.DocumentKey), Body: textOf(d.Body), Revision: d.Revision, Source: utf8(d.Source),
		UpdatedAt: timeToProto(d.UpdatedAt), UpdatedBy: utf8(d.UpdatedBy),
	}
}

func changeToProto(c *agent.DocumentChange) *pb.DocumentChange {
	return &pb.DocumentChange{
		Key: keyToProto(&c.DocumentKey), Action: utf8(c.Action), Before: textOf(c.Before), After: textOf(c.After),
	}
}

func entryToProto(e *agent.AuditEntry) *pb.AuditEntry {
	return &pb.AuditEntry{
		Change: changeToProto(&e.DocumentChange), Revision: e.Revision, At: timeToProto(e.At), By: utf8(e.By), Source: utf8(e.Source),
		Comment: utf8(e.Comment),
	}
}

func applyFromProto(p *pb.ApplyRequest) agent.ApplyRequest {
	return agent.ApplyRequest{
		Files: eachOf(p.GetManifests(), func(m *pb.Manifest) agent.ManifestFile {
			return agent.ManifestFile{Name: m.GetName(), Data: m.GetData()}
		}),
		Delete: eachOf(p.GetDelete(), keyFromProto), BaseRevision: p.GetBaseRevision(), FromEmpty: p.GetFromEmpty(), Prune: p.GetPrune(), DryRun: p.GetDryRun(),
		Publish: p.GetPublish(), By: p.GetBy(), Comment: p.GetComment(),
	}
}

func catalogEventToProto(e *agent.CatalogEvent) *pb.CatalogEvent {
	return &pb.CatalogEvent{
		Revision: e.Revision, Snapshot: e.Snapshot, Nodes: each(e.Nodes, nodeInfoToProto), Agents: each(e.Agents, agentInfoToProto),
		Removed: each(e.Removed, func(r *agent.RemovedEntry) *pb.RemovedEntry {
			return &pb.RemovedEntry{Kind: utf8(string(r.Kind)), Tenant: utf8(r.Tenant), Name: utf8(r.Name), Version: utf8(r.Version)}
		}),
	}
}

func statusToProto(s *agent.CatalogStatus) *pb.GetStatusResponse {
	out := &pb.GetStatusResponse{
		Revision: s.Revision, LoadedAt: timeToProto(s.LoadedAt),
		Sources: each(s.Sources, func(o *agent.SourceStatus) *pb.SourceStatus {
			return &pb.SourceStatus{
				Name: utf8(o.Name), Ok: o.OK, Detail: utf8(o.Detail), Faults: each(someFaults(o.Faults, faultBytes), faultToProto),
				At: timeToProto(o.At),
			}
		}),
		Counts: make(map[string]int64, len(s.Counts)),
	}
	for kind, n := range s.Counts {
		out.Counts[utf8(string(kind))] = int64(n)
	}
	return out
}

func decisionToProto(d *agent.RouteDecision) *pb.RouteDecision {
	return &pb.RouteDecision{
		Agent: utf8(d.Agent), Model: utf8(d.Model), Reason: utf8(string(d.Reason)), Table: utf8(d.Table), Rule: utf8(d.Rule),
		Mismatch: d.Mismatch, Expected: utf8(d.Expected), Revision: d.Revision,
		Rules: each(d.Rules, func(v *agent.RuleVerdict) *pb.RuleVerdict {
			return &pb.RuleVerdict{
				Table: utf8(v.Table), Rule: utf8(v.Rule), Priority: int64(v.Priority), Matched: v.Matched, Chosen: v.Chosen,
				Reason: utf8(v.Reason), Agent: utf8(v.Agent), Model: utf8(v.Model),
			}
		}),
	}
}
