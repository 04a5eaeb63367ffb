package gateway

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// HealthChecker is the port that checks the dependencies.
type HealthChecker interface {
	Health(ctx context.Context) Health
}

// The states of a [Dependency].
const (
	HealthOK       = "ok"
	HealthDegraded = "degraded" // turns can run without it
	HealthDown     = "down"     // no turn can run until it is back
)

// Health is the state of the system and of its dependencies.
type Health struct {
	OK           bool // turns can run
	Workers      int  // the maximum number of jobs that this process works on at once; 0 if it takes none
	Dependencies []Dependency
}

// Dependency is a part of the system that turns need or use.
type Dependency struct {
	Name   string    // temporal, worker, postgres, event_log, …
	OK     bool      // State is [HealthOK]
	State  string    // may be empty: it then follows from OK and [Health.OK]
	Detail string    // for operators; no secrets
	Hint   string    // what to do, for everybody; empty if State is ok
	Since  time.Time // when State last changed; zero if unknown
	Took   time.Duration
}

// state returns State, or the state that follows from OK if State is empty.
func (d *Dependency) state(systemOK bool) string {
	switch {
	case d.State != "":
		return d.State
	case d.OK:
		return HealthOK
	case systemOK:
		return HealthDegraded
	default:
		return HealthDown
	}
}

// Further values of the status of GET /health.
const (
	healthFailing  = "failing" // no turn can run
	healthDraining = "draining"
)

// healthBody is the body of GET /health.
type healthBody struct {
	Status       string           `json:"status"` // ok, degraded, failing or draining
	Version      string           `json:"version,omitempty"`
	Workers      int              `json:"workers"` // as in [Health]
	Dependencies []DependencyBody `json:"dependencies"`
}

// DependencyBody is the JSON of a [Dependency].
type DependencyBody struct {
	Name   string     `json:"name"`
	OK     bool       `json:"ok"`
	State  string     `json:"state"` // ok, degraded or down
	Detail string     `json:"detail,omitempty"`
	Hint   string     `json:"hint,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	TookMS float64    `json:"took_ms"`
}

// getHealth is GET /health. Its status is 503 if no turn can run. Everybody sees which dependency has failed and what to do; only operators see
// addresses and error texts. It ignores parameters, which probes may send.
func (s *httpServer) getHealth(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.callContext(r.Context())
	defer cancel()
	h := s.cfg.Health.Health(ctx)
	caller := callerOf(ctx)
	isOperator := !caller.isOfOneTenant() && caller.allowAny(agent.ActionHealthRead)
	body := healthBody{Status: HealthOK, Workers: h.Workers, Dependencies: make([]DependencyBody, len(h.Dependencies))}
	if isOperator {
		body.Version = s.cfg.Version
	}
	for i := range h.Dependencies {
		body.Dependencies[i] = h.Dependencies[i].body(h.OK, isOperator)
		if body.Dependencies[i].State != HealthOK {
			body.Status = HealthDegraded
		}
	}
	status := http.StatusOK
	switch {
	case s.closing.Err() != nil:
		status, body.Status = http.StatusServiceUnavailable, healthDraining
	case !h.OK:
		status, body.Status = http.StatusServiceUnavailable, healthFailing
	}
	s.write(w, status, body)
	return nil
}

// body returns the JSON of a dependency. Details are for operators.
func (d *Dependency) body(systemOK, withDetails bool) DependencyBody {
	out := DependencyBody{Name: d.Name, OK: d.OK, State: d.state(systemOK), Hint: d.Hint}
	if !withDetails {
		return out
	}
	out.Detail, out.TookMS = d.Detail, float64(d.Took.Microseconds())/1000
	if !d.Since.IsZero() {
		out.Since = new(d.Since.UTC().Truncate(time.Second))
	}
	return out
}

// grpcHealth is the standard health service over [HealthChecker].
type grpcHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	*Gateway
}

// Check knows the service "" and the two services of turnstone.v1.
func (h *grpcHealth) Check(ctx context.Context, p *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	switch name := p.GetService(); name {
	case "", pb.AgentRuntime_ServiceDesc.ServiceName, pb.Catalog_ServiceDesc.ServiceName:
		return h.check(ctx), nil
	default:
		return nil, status.Errorf(codes.NotFound, "unknown service %.100q", name)
	}
}

func (h *grpcHealth) check(ctx context.Context) *grpc_health_v1.HealthCheckResponse {
	ctx, cancel := h.callContext(ctx)
	defer cancel()
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if h.closing.Err() == nil && h.cfg.Health.Health(ctx).OK {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: state}
}

// Watch sends the state at once and after every change.
func (h *grpcHealth) Watch(p *grpc_health_v1.HealthCheckRequest, out grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	ctx, cancel := h.streamContext(out.Context())
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
		now := h.check(ctx)
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
