package gateway

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// grpcCatalog is the gRPC door to the catalog. Its interceptors are [grpcServer]'s.
type grpcCatalog struct {
	pb.UnimplementedCatalogServer
	*Gateway
}

// ListAgents implements the service.
func (s *grpcServer) ListAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	return s.grpcAgents(ctx, p)
}

// Route implements the service.
func (s *grpcServer) Route(ctx context.Context, p *pb.RouteRequest) (*pb.RouteResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.explain(ctx, caller, "grpc", agent.RouteContext{
		InvocationContext: contextFromProto(p.GetContext()), Agent: p.GetAgent(), SessionID: agent.SessionID(p.GetSessionId()),
		Channel: p.GetChannel(),
	})
	return &pb.RouteResponse{Decision: decisionToProto(&d)}, err
}

// grpcPage returns the caller of a list and the page that the message names.
func grpcPage(ctx context.Context, p interface {
	GetPageSize() int32
	GetPageToken() string
},
) (identity, agent.Page, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return caller, agent.Page{}, err
	}
	page, err := parsePage(int64(p.GetPageSize()), p.GetPageToken())
	return caller, page, err
}

// grpcAgents lists agents for both services.
func (g *Gateway) grpcAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	caller, page, err := grpcPage(ctx, p)
	if err != nil {
		return nil, err
	}
	list, err := g.listAgents(ctx, caller, "node_id", "labels", agent.AgentQuery{
		Tenant: p.GetTenant(), NodeID: p.GetNodeId(), Tool: p.GetTool(), Labels: p.GetLabels(), Page: page,
	})
	return &pb.ListAgentsResponse{
		Agents: each(list.Agents, agentInfoToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

// ListAgents implements the service.
func (s *grpcCatalog) ListAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	return s.grpcAgents(ctx, p)
}

// ListNodes implements the service.
func (s *grpcCatalog) ListNodes(ctx context.Context, p *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	_, page, err := grpcPage(ctx, p)
	if err != nil {
		return nil, err
	}
	list, err := s.listNodes(ctx, "labels", agent.NodeQuery{
		Type: agent.NodeType(p.GetType()), NodeID: p.GetNodeId(), Labels: p.GetLabels(), Page: page,
	})
	return &pb.ListNodesResponse{
		Nodes: each(list.Nodes, nodeInfoToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

// ListDocuments implements the service.
func (s *grpcCatalog) ListDocuments(ctx context.Context, p *pb.ListDocumentsRequest) (*pb.ListDocumentsResponse, error) {
	caller, page, err := grpcPage(ctx, p)
	if err != nil {
		return nil, err
	}
	list, err := s.listDocuments(ctx, caller, agent.DocumentQuery{
		Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Version: p.GetVersion(), Source: p.GetSource(), Page: page,
	})
	return &pb.ListDocumentsResponse{
		Documents: each(list.Documents, documentToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

// Apply implements the service.
func (s *grpcCatalog) Apply(ctx context.Context, p *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.apply(ctx, caller, "manifests", applyFromProto(p))
	return &pb.ApplyResponse{Revision: r.Revision, DryRun: r.DryRun, Changes: each(r.Changes, changeToProto)}, err
}

// Publish implements the service.
func (s *grpcCatalog) Publish(ctx context.Context, p *pb.PublishRequest) (*pb.PublishResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	info, err := s.publish(ctx, caller, p.GetTenant(), p.GetAgent(), p.GetBy())
	return &pb.PublishResponse{Agent: agentInfoToProto(&info)}, err
}

// Delete implements the service.
func (s *grpcCatalog) Delete(ctx context.Context, p *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.apply(ctx, caller, "key", agent.ApplyRequest{
		Delete: []agent.DocumentKey{keyFromProto(p.GetKey())}, BaseRevision: p.GetBaseRevision(), DryRun: p.GetDryRun(), By: p.GetBy(),
		Comment: p.GetComment(),
	})
	return &pb.DeleteResponse{Revision: r.Revision, DryRun: r.DryRun, Changes: each(r.Changes, changeToProto)}, err
}

// ListHistory implements the service.
func (s *grpcCatalog) ListHistory(ctx context.Context, p *pb.ListHistoryRequest) (*pb.ListHistoryResponse, error) {
	caller, page, err := grpcPage(ctx, p)
	if err != nil {
		return nil, err
	}
	list, err := s.listHistory(ctx, caller, agent.HistoryQuery{
		Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Page: page,
	})
	return &pb.ListHistoryResponse{Entries: each(list.Entries, entryToProto), NextPageToken: validText(list.Next)}, err
}

// GetStatus implements the service.
func (s *grpcCatalog) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	now := s.status(ctx, caller)
	return statusToProto(&now), nil
}

// GetPlan implements the service.
func (s *grpcCatalog) GetPlan(ctx context.Context, p *pb.GetPlanRequest) (*pb.GetPlanResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	if p.GetHash() != "" && cmp.Or(p.GetTenant(), p.GetAgent()) != "" {
		return nil, agent.Invalid("hash", "give hash or agent, not both")
	}
	body, hash, err := s.planOf(ctx, caller, p.GetHash(), p.GetTenant(), p.GetAgent())
	return &pb.GetPlanResponse{Hash: validText(hash), Plan: body}, err
}

// StreamCatalog implements the service. The header goes first, so that a client knows that the stream stands.
func (s *grpcCatalog) StreamCatalog(p *pb.StreamCatalogRequest, out grpc.ServerStreamingServer[pb.CatalogEvent]) error {
	caller, err := grpcCaller(out.Context())
	if err != nil {
		return err
	}
	if after := p.GetAfterRevision(); after < 0 {
		return agent.Invalid("after_revision", "want 0 or more, got %d", after)
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.whileOpen(out.Context())
	defer cancel()
	events, err := s.watch(ctx, caller, agent.WatchQuery{Tenant: p.GetTenant(), After: p.GetAfterRevision()})
	if err != nil {
		return err
	}
	if err := out.SendHeader(metadata.MD{}); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	for e, err := range events {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if err := out.Send(catalogEventToProto(&e)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
