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

// Invoke implements the service.
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
	ctx, cancel := s.whileOpen(ctx)
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

// unfinishedError answers an Invoke whose turn goes on without its caller. It is no failure of the turn, but a unary call has no other way
// to say that its answer is not there yet. No client library repeats the call on this status.
func unfinishedError(r agent.Receipt, reason, state, message string, pending []agent.Approval) error {
	st := status.New(codes.FailedPrecondition, fmt.Sprintf("turn %s %s", r.TurnID, message))
	with, err := st.WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: map[string]string{"turn_id": string(r.TurnID)}},
		&pb.WaitingTurn{
			TurnId: string(r.TurnID), SessionId: string(r.SessionID), StreamId: r.StreamID, State: state, Pending: each(pending, approvalToProto),
		},
	)
	if err != nil {
		return st.Err()
	}
	return with.Err()
}

// Stream implements the service.
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
	return s.send(out, receipt.TurnID, 0)
}

// Follow implements the service.
func (s *grpcServer) Follow(p *pb.FollowRequest, out grpc.ServerStreamingServer[pb.Event]) error {
	after := p.GetAfterIndex()
	if after < 0 {
		return agent.Invalid("after_index", "want 0 or more, got %d", after)
	}
	v, err := s.lookup(out.Context(), p.GetTurnId(), agent.ActionTurnsRead)
	if err != nil {
		return err
	}
	if over, err := Resumable(&v, after); err != nil || over {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.send(out, v.TurnID, after)
}

// lookup returns the turn that a message names, as its caller may see it.
func (s *grpcServer) lookup(ctx context.Context, id string, a agent.Action) (v TurnView, err error) {
	err = s.onTurn(ctx, id, func(ctx context.Context, caller identity, id agent.TurnID) (err error) {
		v, err = s.turn(ctx, caller, id, a)
		return err
	})
	return v, err
}

// onTurn calls do with the caller and the turn that a message names.
func (s *grpcServer) onTurn(ctx context.Context, id string, do func(ctx context.Context, caller identity, id agent.TurnID) error) error {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return err
	}
	if id == "" {
		return agent.Invalid("turn_id", "is empty")
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return do(ctx, caller, agent.TurnID(id))
}

// send copies a turn's events to a stream. The header goes first, so that a client knows the turn before its first event.
func (s *grpcServer) send(out grpc.ServerStreamingServer[pb.Event], id agent.TurnID, after int64) error {
	if err := out.SendHeader(turnMetadata(id)); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	ctx, cancel := s.whileOpen(out.Context())
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

// Decide implements the service.
func (s *grpcServer) Decide(ctx context.Context, p *pb.DecideRequest) (*pb.DecideResponse, error) {
	d := agent.Decision{
		ApprovalID: p.GetApprovalId(), Decision: agent.DecisionKind(p.GetDecision()), Args: rawOf(p.GetArgs()),
		Message: p.GetMessage(), Remember: p.GetRemember(), By: p.GetBy(),
	}
	if err := checkDecision(&d); err != nil { // before the turn's id, as the other door does
		return nil, err
	}
	err := s.onTurn(ctx, p.GetTurnId(), func(ctx context.Context, caller identity, id agent.TurnID) error {
		_, err := s.decide(ctx, caller, id, d)
		return err
	})
	return &pb.DecideResponse{}, err
}

// Provide implements the service.
func (s *grpcServer) Provide(ctx context.Context, p *pb.ProvideRequest) (*pb.ProvideResponse, error) {
	r := agent.ProvidedResult{ToolCallID: agent.CallID(p.GetToolCallId()), Result: rawOf(p.GetResult()), Error: p.GetError()}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := checkJSON("result", r.Result); err != nil {
		return nil, err
	}
	err := s.onTurn(ctx, p.GetTurnId(), func(ctx context.Context, caller identity, id agent.TurnID) error {
		_, err := s.provide(ctx, caller, id, r)
		return err
	})
	return &pb.ProvideResponse{}, err
}

// Cancel implements the service.
func (s *grpcServer) Cancel(ctx context.Context, p *pb.CancelRequest) (*pb.CancelResponse, error) {
	err := s.onTurn(ctx, p.GetTurnId(), func(ctx context.Context, caller identity, id agent.TurnID) error {
		_, err := s.cancel(ctx, caller, id, agent.CancelRequest{Reason: p.GetReason(), By: p.GetBy()})
		return err
	})
	return &pb.CancelResponse{}, err
}

// GetTurn implements the service.
func (s *grpcServer) GetTurn(ctx context.Context, p *pb.GetTurnRequest) (*pb.GetTurnResponse, error) {
	v, err := s.lookup(ctx, p.GetTurnId(), agent.ActionTurnsRead)
	if err != nil {
		return nil, err
	}
	return viewToProto(&v), nil
}

// GetResult implements the service.
func (s *grpcServer) GetResult(p *pb.GetResultRequest, out grpc.ServerStreamingServer[pb.GetResultResponse]) error {
	caller, err := grpcCaller(out.Context())
	if err != nil {
		return err
	}
	ref, err := resultRef(p.GetRef())
	if err != nil {
		return err
	}
	ctx, cancel := s.whileOpen(out.Context())
	defer cancel()
	v, err := s.openResult(ctx, cancel, caller, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	part := &pb.GetResultResponse{Ref: v.Ref, MediaType: mediaTypeOf(v.MediaType), Size: v.Size}
	for {
		// Fresh each time: a sent message is gRPC's.
		buf := make([]byte, s.cfg.Limits.ResultPart)
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
