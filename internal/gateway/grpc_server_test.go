package gateway_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestGRPCHealthAndReflection(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.HealthEvery = 5 * time.Millisecond })
	conn := d.dial()
	h := grpc_health_v1.NewHealthClient(conn)
	for _, service := range []string{"turnstone.v1.AgentRuntime", "turnstone.v1.Catalog"} {
		got, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, got.GetStatus())
	}
	_, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nope"})
	require.Equal(t, codes.NotFound, status.Code(err))
	watch, err := h.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	got, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, got.GetStatus())
	d.rt.Break("postgres")
	got, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, got.GetStatus())

	r, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}))
	resp, err := r.Recv()
	require.NoError(t, err)
	require.Contains(t, resp.String(), "turnstone.v1.AgentRuntime")
	require.Contains(t, resp.String(), "turnstone.v1.Catalog")
	require.NoError(t, r.CloseSend())
	_, err = r.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestGRPCPanicIsAnInternalError(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Refuse = func(agent.Envelope) error { panic("secret") }
	_, err := pb.NewAgentRuntimeClient(d.dial()).Invoke(t.Context(), &pb.TurnRequest{Message: "x"})
	require.Equal(t, codes.Internal, status.Code(err))
	require.NotContains(t, err.Error(), "secret")
}

// blockingFinder lists turns until the context of the call ends.
type blockingFinder struct{ gateway.Finder }

func (blockingFinder) FindTurns(ctx context.Context, _ agent.TurnQuery) (agent.TurnPage, error) {
	<-ctx.Done()
	return agent.TurnPage{}, ctx.Err()
}

// CallTimeout ends calls over HTTP and gRPC, but not those that wait for a turn.
func TestCallTimeout(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Finder = blockingFinder{}
		c.Limits.CallTimeout = 50 * time.Millisecond
	})
	c := pb.NewAgentRuntimeClient(d.dial())
	waiting := make(chan error, 2)
	go func() { waiting <- errorOf(c.Invoke(t.Context(), &pb.TurnRequest{Message: "x", TurnId: "invoked"})) }()
	go func() { waiting <- errorOf(c.AskAgent(t.Context(), &pb.AgentRequest{Query: "x", TurnId: "asked"})) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 2 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 503, d.send("GET", "/v1/turns", "").status)
	require.Equal(t, codes.DeadlineExceeded, status.Code(errorOf(c.ListTurns(t.Context(), &pb.ListTurnsRequest{}))))
	d.rt.Say("invoked", "done")
	d.rt.Say("asked", "done")
	require.NoError(t, <-waiting)
	require.NoError(t, <-waiting)
}
