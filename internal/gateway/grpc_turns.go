package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func turnMetadata(id agent.TurnID) metadata.MD { return metadata.Pairs(turnIDHeader, string(id)) }

func (s *grpcServer) Invoke(ctx context.Context, p *pb.TurnRequest) (*pb.AgentStepOutput, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	caller, receipt, err := s.submitCall(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := grpc.SetHeader(ctx, turnMetadata(receipt.TurnID)); err != nil {
		return nil, fmt.Errorf("set header: %w", err)
	}
	ctx, cancel := s.streamContext(ctx)
	defer cancel()
	end, err := s.await(ctx, caller, receipt)
	switch {
	case errors.Is(err, errStarting):
		return nil, unfinishedError(receipt, "TURN_STARTING", agent.StateQueued, "is accepted and runs within seconds: Follow its events", nil)
	case err != nil:
		return nil, err
	case end.Output == nil:
		return nil, waitingError(receipt, end.Pending)
	}
	return outputToProto(end.Output), nil
}

func waitingError(r agent.Receipt, pending []agent.Approval) error {
	return unfinishedError(r, "AWAITING_APPROVAL", agent.StateWaiting, "waits for a person: answer with Decide, then Follow its events", pending)
}

// unfinishedError returns the answer to an Invoke whose turn has no output yet. The turn has not failed, but a unary call cannot say so in
// another way. No client library repeats the call on this status.
func unfinishedError(r agent.Receipt, reason, state, message string, pending []agent.Approval) error {
	st := status.New(codes.FailedPrecondition, fmt.Sprintf("turn %s %s", r.TurnID, message))
	with, err := st.WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: map[string]string{"turn_id": string(r.TurnID)}},
		&pb.WaitingTurn{
			TurnId: string(r.TurnID), SessionId: string(r.SessionID), StreamId: r.StreamID, State: state, Pending: convertAll(pending, approvalToProto),
		},
	)
	if err != nil {
		return st.Err()
	}
	return with.Err()
}

func (s *grpcServer) Stream(p *pb.TurnRequest, out grpc.ServerStreamingServer[pb.Event]) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	_, receipt, err := s.submitCall(out.Context(), p)
	if err != nil {
		return err
	}
	return s.sendEvents(out, receipt.TurnID, 0)
}

func (s *grpcServer) Follow(p *pb.FollowRequest, out grpc.ServerStreamingServer[pb.Event]) error {
	after := p.GetAfterIndex()
	if after < 0 {
		return agent.Invalid("after_index", "want 0 or more, got %d", after)
	}
	v, err := s.lookup(out.Context(), p.GetTurnId())
	if err != nil {
		return err
	}
	if isOver, err := Resumable(&v, after); err != nil || isOver {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.sendEvents(out, v.TurnID, after)
}

// lookup returns the turn that a message names, if its caller may read it.
func (s *grpcServer) lookup(ctx context.Context, id string) (TurnView, error) {
	turnID, err := turnIDFromProto(id)
	if err != nil {
		return TurnView{}, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	return s.turn(ctx, callerOf(ctx), turnID, agent.ActionTurnsRead)
}

func turnIDFromProto(id string) (agent.TurnID, error) {
	if id == "" {
		return "", agent.Invalid("turn_id", "is empty")
	}
	return agent.TurnID(id), nil
}

// sendEvents copies a turn's events to a stream. The header goes first, so that a client knows the turn before its first event.
func (s *grpcServer) sendEvents(out grpc.ServerStreamingServer[pb.Event], id agent.TurnID, after int64) error {
	if err := out.SendHeader(turnMetadata(id)); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	ctx, cancel := s.streamContext(out.Context())
	defer cancel()
	for e, err := range s.cfg.Turns.Follow(ctx, id, after) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if err := out.Send(eventToProto(&e)); err != nil {
			return err
		}
		if e.Terminal() {
			return nil
		}
	}
	return context.Cause(ctx)
}

func (s *grpcServer) Decide(ctx context.Context, p *pb.DecideRequest) (*pb.DecideResponse, error) {
	d := agent.Decision{
		ApprovalID: p.GetApprovalId(), Decision: agent.DecisionKind(p.GetDecision()), Args: jsonFromProto(p.GetArgs()),
		Message: p.GetMessage(), Remember: p.GetRemember(), By: p.GetBy(),
	}
	if err := checkDecision(&d); err != nil { // before the turn's id, as over HTTP
		return nil, err
	}
	id, err := turnIDFromProto(p.GetTurnId())
	if err != nil {
		return nil, err
	}
	_, err = s.decide(ctx, callerOf(ctx), id, d)
	return &pb.DecideResponse{}, err
}

func (s *grpcServer) Provide(ctx context.Context, p *pb.ProvideRequest) (*pb.ProvideResponse, error) {
	r := agent.ProvidedResult{ToolCallID: agent.CallID(p.GetToolCallId()), Result: jsonFromProto(p.GetResult()), Error: p.GetError()}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := checkJSON("result", r.Result); err != nil {
		return nil, err
	}
	id, err := turnIDFromProto(p.GetTurnId())
	if err != nil {
		return nil, err
	}
	_, err = s.provide(ctx, callerOf(ctx), id, r)
	return &pb.ProvideResponse{}, err
}

func (s *grpcServer) Cancel(ctx context.Context, p *pb.CancelRequest) (*pb.CancelResponse, error) {
	id, err := turnIDFromProto(p.GetTurnId())
	if err != nil {
		return nil, err
	}
	_, err = s.cancel(ctx, callerOf(ctx), id, agent.CancelRequest{Reason: p.GetReason(), By: p.GetBy()})
	return &pb.CancelResponse{}, err
}

func (s *grpcServer) GetTurn(ctx context.Context, p *pb.GetTurnRequest) (*pb.GetTurnResponse, error) {
	v, err := s.lookup(ctx, p.GetTurnId())
	if err != nil {
		return nil, err
	}
	return viewToProto(&v), nil
}

func (s *grpcServer) GetResult(p *pb.GetResultRequest, out grpc.ServerStreamingServer[pb.GetResultResponse]) error {
	ref, err := resultRef(p.GetRef())
	if err != nil {
		return err
	}
	ctx, cancel := s.streamContext(out.Context())
	defer cancel()
	v, err := s.openResult(ctx, cancel, callerOf(ctx), ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	part := &pb.GetResultResponse{Ref: v.Ref, MediaType: mediaTypeOf(v.MediaType), Size: v.Size}
	for {
		buf := make([]byte, s.cfg.Limits.ResultPart) // gRPC keeps a message that was sent
		n, err := io.ReadFull(v.Body, buf)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return fmt.Errorf("read result %s: %w", v.Ref, err)
		}
		if part.Data = buf[:n]; n > 0 || part.GetRef() != "" {
			if err := out.Send(part); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		part = &pb.GetResultResponse{}
	}
}
