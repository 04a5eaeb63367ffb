package gateway_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Every request has a span, including those that are refused, and streams are sent at once.
func TestTraces(t *testing.T) {
	r := tracetest.Receive(t)
	tr, err := traces.Open(t.Context(), traces.Config{Endpoint: r.HTTP, SampleRatio: 1})
	require.NoError(t, err)
	d := startGateway(t, func(c *gateway.Config) { c.Trace, c.ServerOptions = tr.HTTP, []grpc.ServerOption{tr.ServerOption()} })
	d.begin("t")
	resp := d.follow(t.Context(), "/v1/turns/t/events")
	next := gatewaytest.Frames(t, resp.Body)
	next()
	d.rt.Emit("t", gatewaytest.Token("a"))
	frame := next()
	require.Contains(t, frame, "a")
	d.rt.Say("t", "b")
	next()
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 404, d.send("GET", "/v1/turns/none", "").status)
	require.Equal(t, 200, d.send("GET", "/health", "").status)
	require.Equal(t, 403, d.send("GET", "/v1/agents", "", "Origin", "https://evil.example").status)

	spans := r.Await(t, func(spans []tracetest.Span) bool {
		_ = tr.Flush(context.Background())
		return len(spans) == 4
	})
	var names []string
	for i := range spans {
		names = append(names, spans[i].Name)
	}
	require.ElementsMatch(t, []string{"POST /v1/turns", "GET /v1/turns/{id}/events", "GET /v1/turns/{id}", "GET /v1/agents"}, names)
	require.NoError(t, tr.Shutdown(t.Context()))
}

// methodRecorder is a stats handler that records the called methods.
type methodRecorder struct {
	stats.Handler

	mu    sync.Mutex
	calls []string
}

func (n *methodRecorder) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, i.FullMethodName)
	return ctx
}

func (n *methodRecorder) HandleRPC(context.Context, stats.RPCStats) {}

func (n *methodRecorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (n *methodRecorder) HandleConn(context.Context, stats.ConnStats) {}

func TestServerOptions(t *testing.T) {
	n := &methodRecorder{}
	d := startGateway(t, func(c *gateway.Config) { c.ServerOptions = []grpc.ServerOption{grpc.StatsHandler(n)} })
	_, err := pb.NewAgentRuntimeClient(d.dial()).GetTurn(t.Context(), &pb.GetTurnRequest{TurnId: "none"})
	require.Error(t, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Equal(t, []string{"/turnstone.v1.AgentRuntime/GetTurn"}, n.calls)
}
