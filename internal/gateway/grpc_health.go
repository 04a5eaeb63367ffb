package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// grpcHealth is the standard health service over [Runtime.Health].
type grpcHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	*Gateway
}

// Check implements the service: "" and the two of turnstone.v1 are known.
func (h *grpcHealth) Check(ctx context.Context, p *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	switch name := p.GetService(); name {
	case "", pb.AgentRuntime_ServiceDesc.ServiceName, pb.Catalog_ServiceDesc.ServiceName:
		return h.ask(ctx), nil
	default:
		return nil, status.Errorf(codes.NotFound, "unknown service %.100q", name)
	}
}

func (h *grpcHealth) ask(ctx context.Context) *grpc_health_v1.HealthCheckResponse {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Limits.CallTimeout)
	defer cancel()
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if h.closing.Err() == nil && h.cfg.Runtime.Health(ctx).OK {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: state}
}

// Watch implements the service: the state now and on every change.
func (h *grpcHealth) Watch(p *grpc_health_v1.HealthCheckRequest, out grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	ctx, cancel := h.whileOpen(out.Context())
	defer cancel()
	if _, err := h.Check(out.Context(), p); err != nil {
		// The protocol wants an unknown service watched, not refused.
		if err := out.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN}); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	tick := time.NewTicker(h.cfg.Limits.HealthEvery)
	defer tick.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		now := h.ask(ctx)
		if now.GetStatus() != last {
			last = now.GetStatus()
			if err := out.Send(now); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
