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

// grpcCatalog is the gRPC service of the catalog. Its interceptors are [grpcServer]'s.
type grpcCatalog struct {
	pb.UnimplementedCatalogServer
	*Gateway
}

func (s *grpcServer) ListAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	return s.grpcAgents(ctx, p)
}

func (s *grpcServer) Route(ctx context.Context, p *pb.RouteRequest) (*pb.RouteResponse, error) {
	d, err := s.explain(ctx, callerOf(ctx), "grpc", agent.RouteContext{
		InvocationContext: contextFromProto(p.GetContext()), Agent: p.GetAgent(), SessionID: agent.SessionID(p.GetSessionId()),
		Channel: p.GetChannel(),
	})
	return &pb.RouteResponse{Decision: decisionToProto(&d)}, err
}

// pageFromProto returns the page that a message names.
func pageFromProto(p interface {
	GetPageSize() int32
	GetPageToken() string
},
) (agent.Page, error) {
	return parsePage(int64(p.GetPageSize()), p.GetPageToken())
}

// grpcAgents lists agents for both services.
func (g *Gateway) grpcAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	page, err := pageFromProto(p)
	if err != nil {
		return nil, err
	}
	list, err := g.listAgents(ctx, callerOf(ctx), "node_id", "labels", agent.AgentQuery{
		Tenant: p.GetTenant(), NodeID: p.GetNodeId(), Tool: p.GetTool(), Labels: p.GetLabels(), Page: page,
	})
	return &pb.ListAgentsResponse{
		Agents: convertAll(list.Agents, agentInfoToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

func (s *grpcCatalog) ListAgents(ctx context.Context, p *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	return s.grpcAgents(ctx, p)
}

func (s *grpcCatalog) ListNodes(ctx context.Context, p *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	page, err := pageFromProto(p)
	if err != nil {
		return nil, err
	}
	list, err := s.listNodes(ctx, "labels", agent.NodeQuery{
		Type: agent.NodeType(p.GetType()), NodeID: p.GetNodeId(), Labels: p.GetLabels(), Page: page,
	})
	return &pb.ListNodesResponse{
		Nodes: convertAll(list.Nodes, nodeInfoToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

func (s *grpcCatalog) ListDocuments(ctx context.Context, p *pb.ListDocumentsRequest) (*pb.ListDocumentsResponse, error) {
	page, err := pageFromProto(p)
	if err != nil {
		return nil, err
	}
	list, err := s.listDocuments(ctx, callerOf(ctx), agent.DocumentQuery{
		Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Version: p.GetVersion(), Source: p.GetSource(), Page: page,
	})
	return &pb.ListDocumentsResponse{
		Documents: convertAll(list.Documents, documentToProto), NextPageToken: validText(list.Next), Revision: list.Revision,
	}, err
}

func (s *grpcCatalog) Apply(ctx context.Context, p *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	r, err := s.apply(ctx, callerOf(ctx), "manifests", applyFromProto(p))
	return &pb.ApplyResponse{Revision: r.Revision, DryRun: r.DryRun, Changes: convertAll(r.Changes, changeToProto)}, err
}

func (s *grpcCatalog) Publish(ctx context.Context, p *pb.PublishRequest) (*pb.PublishResponse, error) {
	info, err := s.publish(ctx, callerOf(ctx), p.GetTenant(), p.GetAgent(), p.GetBy())
	return &pb.PublishResponse{Agent: agentInfoToProto(&info)}, err
}

func (s *grpcCatalog) Delete(ctx context.Context, p *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	r, err := s.apply(ctx, callerOf(ctx), "key", agent.ApplyRequest{
		Delete: []agent.DocumentKey{keyFromProto(p.GetKey())}, BaseRevision: p.GetBaseRevision(), DryRun: p.GetDryRun(), By: p.GetBy(),
		Comment: p.GetComment(),
	})
	return &pb.DeleteResponse{Revision: r.Revision, DryRun: r.DryRun, Changes: convertAll(r.Changes, changeToProto)}, err
}

func (s *grpcCatalog) ListHistory(ctx context.Context, p *pb.ListHistoryRequest) (*pb.ListHistoryResponse, error) {
	page, err := pageFromProto(p)
	if err != nil {
		return nil, err
	}
	list, err := s.listHistory(ctx, callerOf(ctx), agent.HistoryQuery{
		Kind: agent.Kind(p.GetKind()), Tenant: p.GetTenant(), Name: p.GetName(), Page: page,
	})
	return &pb.ListHistoryResponse{Entries: convertAll(list.Entries, entryToProto), NextPageToken: validText(list.Next)}, err
}

func (s *grpcCatalog) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	now := s.status(ctx, callerOf(ctx))
	return statusToProto(&now), nil
}

func (s *grpcCatalog) GetPlan(ctx context.Context, p *pb.GetPlanRequest) (*pb.GetPlanResponse, error) {
	if p.GetHash() != "" && cmp.Or(p.GetTenant(), p.GetAgent()) != "" {
		return nil, agent.Invalid("hash", "give hash or agent, not both")
	}
	if p.GetHash() != "" {
		body, err := s.plan(ctx, callerOf(ctx), p.GetHash())
		return &pb.GetPlanResponse{Hash: p.GetHash(), Plan: body}, err
	}
	body, hash, err := s.agentPlan(ctx, callerOf(ctx), p.GetTenant(), p.GetAgent())
	return &pb.GetPlanResponse{Hash: validText(hash), Plan: body}, err
}

// StreamCatalog sends the header first, so that a client knows that the stream is open.
func (s *grpcCatalog) StreamCatalog(p *pb.StreamCatalogRequest, out grpc.ServerStreamingServer[pb.CatalogEvent]) error {
	if after := p.GetAfterRevision(); after < 0 {
		return agent.Invalid("after_revision", "want 0 or more, got %d", after)
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.streamContext(out.Context())
	defer cancel()
	events, err := s.watch(ctx, callerOf(ctx), agent.WatchQuery{Tenant: p.GetTenant(), After: p.GetAfterRevision()})
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
