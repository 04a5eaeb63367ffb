package gateway

import (
	"context"

	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// ListApprovals implements the service.
func (s *grpcServer) ListApprovals(ctx context.Context, p *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	page, err := pageOf(int64(p.GetPageSize()), p.GetPageToken())
	if err != nil {
		return nil, err
	}
	found, err := s.listApprovals(ctx, caller, agent.ApprovalQuery{
		State: p.GetState(), SessionID: agent.SessionID(p.GetSessionId()), TurnID: agent.TurnID(p.GetTurnId()),
	}, page)
	if err != nil {
		return nil, err
	}
	return &pb.ListApprovalsResponse{Approvals: each(found.Approvals, approvalToProto), NextPageToken: utf8(found.Next)}, nil
}

// ExportSession implements the service.
func (s *grpcServer) ExportSession(p *pb.ExportSessionRequest, out grpc.ServerStreamingServer[pb.ExportSessionResponse]) error {
	caller, err := grpcCaller(out.Context())
	if err != nil {
		return err
	}
	export, err := s.exportSession(out.Context(), caller, agent.SessionID(p.GetSessionId()))
	if err != nil {
		return err
	}
	data, err := encode(export)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(len(data), s.cfg.Limits.ResultPart)
		if err := out.Send(&pb.ExportSessionResponse{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// DeleteSession implements the service.
func (s *grpcServer) DeleteSession(ctx context.Context, p *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	gone, err := s.forgetSession(ctx, caller, agent.SessionID(p.GetSessionId()))
	if err != nil {
		return nil, err
	}
	return &pb.DeleteSessionResponse{
		SessionId: utf8(string(gone.SessionID)), Turns: int64(gone.Turns), Messages: int64(gone.Messages), Blobs: int64(gone.Blobs),
	}, nil
}
