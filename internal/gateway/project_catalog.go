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
		out[validText(key)] = validText(value)
	}
	return out
}

func textToProto[T ~string](text *T) string { return validText(*text) }

func toolInfoToProto(t *agent.ToolInfo) *pb.ToolInfo {
	return &pb.ToolInfo{
		Name: validText(t.Name), Description: validText(t.Description), Toolkit: validText(t.Toolkit), NodeId: validText(t.NodeID),
		NodeVersion: validText(t.NodeVersion), SourceNodeName: validText(t.SourceNodeName), IsFromToolkit: t.IsFromToolkit,
		Parameters: validText(t.Parameters), Idempotent: t.Idempotent, InherentlySafe: t.InherentlySafe, Approval: validText(t.Approval),
	}
}

func nodeInfoToProto(n *agent.NodeInfo) *pb.NodeInfo {
	return &pb.NodeInfo{
		NodeId: validText(n.NodeID), Version: validText(n.Version), Type: validText(n.Type), Description: validText(n.Description),
		Labels: labelsToProto(n.Labels), Properties: validText(n.Properties), Tools: convertAll(n.Tools, toolInfoToProto), Revision: n.Revision,
		Source: validText(n.Source),
	}
}

func agentInfoToProto(a *agent.AgentInfo) *pb.AgentInfo {
	return &pb.AgentInfo{
		Name: validText(a.Name), Tenant: validText(a.Tenant), InstanceId: validText(a.InstanceID), Description: validText(a.Description),
		Labels: labelsToProto(a.Labels), Default: a.Default, NodeId: validText(a.NodeID), NodeVersion: validText(a.NodeVersion),
		PlanHash: validText(a.PlanHash), Models: convertAll(a.Models, textToProto), Tools: convertAll(a.Tools, toolInfoToProto),
		Middleware: convertAll(a.Middleware, textToProto), Limits: limitsToProto(a.Limits), RateLimits: rateLimitsToProto(&a.RateLimits),
		Capabilities: convertAll(a.Capabilities, textToProto), Artifact: artifactToProto(a.Artifact), Revision: a.Revision,
		Source: validText(a.Source), Fault: validText(a.Fault),
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
		Tenant: validText(a.Tenant), Agent: validText(a.Agent), CompiledArtifactUri: validText(a.URI), CompiledArtifactHash: validText(a.Hash),
		CompiledAt: timeToProto(a.CompiledAt), Inputs: validText(a.Inputs), Revision: a.Revision,
	}
}

func keyToProto(k *agent.DocumentKey) *pb.DocumentKey {
	return &pb.DocumentKey{Kind: validText(k.Kind), Tenant: validText(k.Tenant), Name: validText(k.Name), Version: validText(k.Version)}
}

func keyFromProto(p *pb.DocumentKey) agent.DocumentKey {
	return agent.DocumentKey{Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Version: p.GetVersion()}
}

func documentToProto(d *agent.Document) *pb.Document {
	return &pb.Document{
		Key: keyToProto(&d.DocumentKey), Body: validText(d.Body), Revision: d.Revision, Source: validText(d.Source),
		UpdatedAt: timeToProto(d.UpdatedAt), UpdatedBy: validText(d.UpdatedBy),
	}
}

func changeToProto(c *agent.DocumentChange) *pb.DocumentChange {
	return &pb.DocumentChange{
		Key: keyToProto(&c.DocumentKey), Action: validText(c.Action), Before: validText(c.Before), After: validText(c.After),
	}
}

func entryToProto(e *agent.AuditEntry) *pb.AuditEntry {
	return &pb.AuditEntry{
		Change: changeToProto(&e.DocumentChange), Revision: e.Revision, At: timeToProto(e.At), By: validText(e.By), Source: validText(e.Source),
		Comment: validText(e.Comment),
	}
}

func applyFromProto(p *pb.ApplyRequest) agent.ApplyRequest {
	return agent.ApplyRequest{
		Files: convertPointers(p.GetManifests(), func(m *pb.Manifest) agent.ManifestFile {
			return agent.ManifestFile{Name: m.GetName(), Data: m.GetData()}
		}),
		Delete: convertPointers(p.GetDelete(), keyFromProto), BaseRevision: p.GetBaseRevision(), FromEmpty: p.GetFromEmpty(),
		Prune: p.GetPrune(), DryRun: p.GetDryRun(), Publish: p.GetPublish(), By: p.GetBy(), Comment: p.GetComment(),
	}
}

func catalogEventToProto(e *agent.CatalogEvent) *pb.CatalogEvent {
	return &pb.CatalogEvent{
		Revision: e.Revision, Snapshot: e.Snapshot, Nodes: convertAll(e.Nodes, nodeInfoToProto), Agents: convertAll(e.Agents, agentInfoToProto),
		Removed: convertAll(e.Removed, func(r *agent.RemovedEntry) *pb.RemovedEntry {
			return &pb.RemovedEntry{Kind: validText(r.Kind), Tenant: validText(r.Tenant), Name: validText(r.Name), Version: validText(r.Version)}
		}),
	}
}

func statusToProto(s *agent.CatalogStatus) *pb.GetStatusResponse {
	out := &pb.GetStatusResponse{
		Revision: s.Revision, LoadedAt: timeToProto(s.LoadedAt),
		Sources: convertAll(s.Sources, func(o *agent.SourceStatus) *pb.SourceStatus {
			return &pb.SourceStatus{
				Name: validText(o.Name), Ok: o.OK, Detail: validText(o.Detail), Faults: convertAll(clipFaults(o.Faults, faultBytes), faultToProto),
				At: timeToProto(o.At),
			}
		}),
		Counts: make(map[string]int64, len(s.Counts)),
	}
	for kind, n := range s.Counts {
		out.Counts[validText(kind)] = int64(n)
	}
	return out
}

func decisionToProto(d *agent.RouteDecision) *pb.RouteDecision {
	return &pb.RouteDecision{
		Agent: validText(d.Agent), Model: validText(d.Model), Reason: validText(d.Reason), Table: validText(d.Table), Rule: validText(d.Rule),
		Mismatch: d.Mismatch, Expected: validText(d.Expected), Revision: d.Revision,
		Rules: convertAll(d.Rules, func(v *agent.RuleVerdict) *pb.RuleVerdict {
			return &pb.RuleVerdict{
				Table: validText(v.Table), Rule: validText(v.Rule), Priority: int64(v.Priority), Matched: v.Matched, Chosen: v.Chosen,
				Reason: validText(v.Reason), Agent: validText(v.Agent), Model: validText(v.Model),
			}
		}),
	}
}
