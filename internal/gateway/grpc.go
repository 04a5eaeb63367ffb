package gateway

import (
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

// grpcServer is the gRPC door. Flow control is gRPC's own: Send blocks while a client does not read, which stalls that client's
// follow loop and nothing else.
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
		grpc.UnaryInterceptor(s.aroundUnary),
		grpc.StreamInterceptor(s.aroundStream),
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

// aroundUnary is the outside of every unary call: panic net, error table, access log.
func (s *grpcServer) aroundUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	var caller identity
	defer func(start time.Time) { err = s.end(caller, info.FullMethod, start, err, recover()) }(time.Now())
	ctx, caller, err = s.identifyCall(ctx, info.FullMethod)
	// An error means that the call is over already, and has no header any more.
	_ = grpc.SetHeader(ctx, metadata.Pairs(requestIDHeader, caller.requestID))
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// aroundStream is the same for streams.
func (s *grpcServer) aroundStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	var caller identity
	defer func(start time.Time) { err = s.end(caller, info.FullMethod, start, err, recover()) }(time.Now())
	var ctx context.Context
	ctx, caller, err = s.identifyCall(ss.Context(), info.FullMethod)
	_ = ss.SetHeader(metadata.Pairs(requestIDHeader, caller.requestID)) // as above
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

// Context implements [grpc.ServerStream].
func (s *identifiedStream) Context() context.Context { return s.ctx }

func (s *grpcServer) end(caller identity, method string, start time.Time, err error, panicked any) error {
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

// submitCall submits a request in the tenant that it names.
func (s *grpcServer) submitCall(ctx context.Context, p *pb.TurnRequest) (identity, agent.Receipt, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return caller, agent.Receipt{}, err
	}
	req := requestFromProto(p)
	if err := checkJSONFields(&req); err != nil {
		return caller, agent.Receipt{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	receipt, err := s.submit(ctx, caller, "grpc", &req)
	if caller.tenant == "" {
		caller.tenant = req.Context.Tenant
	}
	return caller, receipt, err
}

// checkJSON refuses a "JSON text" field that is not JSON. The decoder of HTTP bodies does so itself.
func checkJSON(path string, text json.RawMessage) error {
	if len(text) > 0 && !json.Valid(text) {
		return agent.Invalid(path, "is not JSON")
	}
	return nil
}

// checkJSONFields checks all "JSON text" fields of a request.
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
