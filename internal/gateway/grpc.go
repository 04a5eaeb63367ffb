package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// grpcServer serves the API over gRPC. Send blocks while a client does not read; that stalls only the stream of this client.
type grpcServer struct {
	pb.UnimplementedAgentRuntimeServer
	*Gateway
}

func newGRPCServer(g *Gateway) *grpc.Server {
	s := &grpcServer{Gateway: g}
	l := &g.cfg.Limits
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(l.BodyBytes)),
		grpc.MaxHeaderListSize(uint32(l.HeaderBytes)), //nolint:gosec // a configured size, far below the bound
		grpc.MaxConcurrentStreams(1000),
		grpc.ConnectionTimeout(l.ReadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 15 * time.Minute, Time: 30 * time.Second, Timeout: l.WriteTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
	}
	if g.cfg.GRPCTLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(g.cfg.GRPCTLS)))
	}
	server := grpc.NewServer(append(options, g.cfg.ServerOptions...)...)
	pb.RegisterAgentRuntimeServer(server, s)
	pb.RegisterCatalogServer(server, &grpcCatalog{Gateway: g})
	grpc_health_v1.RegisterHealthServer(server, &grpcHealth{Gateway: g})
	reflection.Register(server)
	return server
}

// interceptUnary identifies the caller of a unary call, bounds how long the call takes, recovers from panics, and maps and logs errors.
func (s *grpcServer) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	var caller identity
	defer func(start time.Time) { err = s.finishCall(caller, info.FullMethod, start, err, recover()) }(time.Now())
	ctx, caller, err = s.identifyCall(ctx, info.FullMethod)
	_ = grpc.SetHeader(ctx, metadata.Pairs(requestIDHeader, caller.requestID)) // fails only if the call is over already
	if err != nil {
		return nil, err
	}
	switch info.FullMethod {
	case pb.AgentRuntime_Invoke_FullMethodName, pb.AgentRuntime_AskAgent_FullMethodName: // they wait for the end of a turn
	default:
		var cancel context.CancelFunc
		ctx, cancel = s.callContext(ctx)
		defer cancel()
	}
	return next(ctx, req)
}

// interceptStream is interceptUnary for streams, which may take as long as they need.
func (s *grpcServer) interceptStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	var caller identity
	defer func(start time.Time) { err = s.finishCall(caller, info.FullMethod, start, err, recover()) }(time.Now())
	var ctx context.Context
	ctx, caller, err = s.identifyCall(ss.Context(), info.FullMethod)
	_ = ss.SetHeader(metadata.Pairs(requestIDHeader, caller.requestID)) // fails only if the call is over already
	if err != nil {
		return err
	}
	return next(srv, &identifiedStream{ServerStream: ss, ctx: ctx})
}

// identifiedStream is a stream whose context holds the caller.
type identifiedStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s *identifiedStream) Context() context.Context { return s.ctx }

// finishCall logs a call and returns the error for its client. panicked is the value of a recovered panic, nil if there was none.
func (s *grpcServer) finishCall(caller identity, method string, start time.Time, err error, panicked any) error {
	level := zapcore.InfoLevel
	fields := []zap.Field{
		zap.String("method", method), zap.Duration("took", time.Since(start)), zap.String("remote", caller.remote),
		zap.String("request_id", caller.requestID),
	}
	if panicked != nil {
		err = fmt.Errorf("panic: %v", panicked)
		fields = append(fields, zap.ByteString("stack", debug.Stack()))
	}
	out := grpcError(err)
	fields = append(fields, zap.Stringer("code", status.Code(out)))
	if err != nil {
		fields = append(fields, errorField(err))
	}
	if status.Code(out) == codes.Internal {
		level = zapcore.ErrorLevel
	}
	s.cfg.Logger.Log(level, "grpc call", fields...)
	return out
}

// submitCall submits a request, and returns the caller in the tenant of the request.
func (s *grpcServer) submitCall(ctx context.Context, p *pb.TurnRequest) (identity, agent.Receipt, error) {
	caller := callerOf(ctx)
	req := requestFromProto(p)
	if err := checkJSONFields(&req); err != nil {
		return caller, agent.Receipt{}, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	receipt, err := s.submit(ctx, caller, "grpc", &req)
	caller.tenant = cmp.Or(caller.tenant, req.Context.Tenant)
	return caller, receipt, err
}

// checkJSON refuses a field for JSON as text that is not JSON. Bodies of HTTP requests need no such check.
func checkJSON(path string, text json.RawMessage) error {
	if len(text) > 0 && !json.Valid(text) {
		return agent.Invalid(path, "is not JSON")
	}
	return nil
}

// checkJSONFields checks all fields of a request that hold JSON as text.
func checkJSONFields(r *agent.TurnRequest) error {
	if err := checkJSON("output_schema", r.OutputSchema); err != nil {
		return err
	}
	for i := range r.Messages {
		for j := range r.Messages[i].Blocks {
			b := &r.Messages[i].Blocks[j]
			for _, f := range []struct {
				name string
				text json.RawMessage
			}{{"args", b.Args}, {"output", b.Output}, {"value", b.Value}, {"extras", b.Extras}} {
				if err := checkJSON(fmt.Sprintf("messages[%d].blocks[%d].%s", i, j, f.name), f.text); err != nil {
					return err
				}
			}
			for k := range b.Annotations {
				path := fmt.Sprintf("messages[%d].blocks[%d].annotations[%d].extras", i, j, k)
				if err := checkJSON(path, b.Annotations[k].Extras); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
