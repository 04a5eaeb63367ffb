package traces_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

func TestHTTP(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Langfuse: traces.Langfuse{URL: r.HTTP, PublicKey: "p", SecretKey: "s"}})
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/turns/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, tr.Carry(r.Context()))
	})
	mux.HandleFunc("/v1/stream", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		w.(http.Flusher).Flush()
	})
	mux.HandleFunc("/v1/hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\nraw")
			_ = c.Close()
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	server := httptest.NewServer(tr.HTTP(mux))
	defer server.Close()

	get := func(path, parent string) (string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		if parent != "" {
			req.Header.Set("Traceparent", parent)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(b), resp.Header
	}
	carried, h := get("/v1/turns/t-1?key=hidden", caller)
	require.Contains(t, carried, "00-"+callersTrace+"-")
	require.NotContains(t, carried, callersSpan, "the turn is below the span of the request")
	require.Equal(t, callersTrace, h.Get("X-Trace-Id"))
	carried, h = get("/v1/turns/t-2", caller[:len(caller)-2]+"00")
	require.Contains(t, carried, "-00", "a caller's decision not to sample is kept")
	require.Empty(t, h.Get("X-Trace-Id"))
	body, _ := get("/v1/stream", "garbage")
	require.Equal(t, "first\n", body)
	for _, path := range []string{"/health", "/metrics", "/", "/assets/app.js", "/openapi.json", "/v1/ws"} {
		get(path, caller)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /v1/hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "101")
	get("/v1/nothing", "")
	server.Close()

	var names []string
	for _, s := range r.Await(t, func(spans []tracetest.Span) bool { // a hijacked handler may end later
		_ = tr.Flush(context.Background())
		return len(spans) >= 4
	}) {
		names = append(names, s.Name)
		require.NotContains(t, formatSpans([]tracetest.Span{s}), "hidden")
	}
	require.ElementsMatch(t, []string{"GET /v1/turns/{id}", "GET /v1/stream", "GET /v1/hijack", "GET /"}, names, "none of them in Langfuse")
	door := find(t, r.Spans(), "GET /v1/turns/{id}", nil)
	require.Equal(t, "SPAN_KIND_SERVER", door.Kind.String())
	require.Equal(t, callersSpan, door.Parent)
	require.Equal(t, int64(200), door.Attributes["http.response.status_code"])
}

func TestGRPC(t *testing.T) {
	r, service := tracetest.Receive(t), tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var inside string
	server := grpc.NewServer(tr.ServerOption(), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && !sc.IsRemote() {
				inside = tr.Carry(ctx)
			}
			return next(ctx, req)
		}))
	collector.RegisterTraceServiceServer(server, service)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	defer func() { server.Stop(); <-done }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", caller)
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Empty(t, inside)
	_, err = collector.NewTraceServiceClient(conn).Export(ctx, &collector.ExportTraceServiceRequest{})
	require.NoError(t, err)
	require.Contains(t, inside, callersTrace)
	server.GracefulStop()
	flush(t, tr)
	require.Len(t, r.Spans(), 1)
	require.Equal(t, "opentelemetry.proto.collector.trace.v1.TraceService/Export", r.Spans()[0].Name)
	require.Equal(t, callersSpan, r.Spans()[0].Parent)
}
