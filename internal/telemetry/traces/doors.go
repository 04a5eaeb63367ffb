package traces

import (
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// traceHeader is the response header with the trace, for reports of faults.
const traceHeader = "X-Trace-Id"

// hasSpan reports whether a request gets a span: those of programs do. Probes, the console's files and the API's description do not, nor
// does a WebSocket, whose one request would be above every turn of a connection that lives for days.
func hasSpan(r *http.Request) bool {
	p := r.URL.Path
	return (strings.HasPrefix(p, "/v1/") && p != "/v1/ws") || strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/test/")
}

// HTTP puts a span around each request, named by its method and its route, which the handler sets as the request's Pattern. It uses a
// caller's traceparent.
func (t *Tracing) HTTP(next http.Handler) http.Handler {
	return otelhttp.NewMiddleware("",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(traceContext()),
		otelhttp.WithFilter(hasSpan),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return requestName(r) }),
	)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sc := trace.SpanContextFromContext(r.Context()); sc.IsSampled() {
			w.Header().Set(traceHeader, sc.TraceID().String())
		}
		next.ServeHTTP(w, r)
	}))
}

// requestName returns one of few names, whatever the caller sends.
func requestName(r *http.Request) string {
	method := r.Method
	if !slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}, method) {
		method = "HTTP"
	}
	if r.Pattern == "" {
		return method
	}
	return method + " " + r.Pattern
}

// ServerOption puts a span around each gRPC call except health checks and reflection.
func (t *Tracing) ServerOption() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(traceContext()),
		otelgrpc.WithFilter(func(i *stats.RPCTagInfo) bool {
			return !strings.HasPrefix(i.FullMethodName, "/grpc.health.") && !strings.HasPrefix(i.FullMethodName, "/grpc.reflection.")
		}),
	))
}
