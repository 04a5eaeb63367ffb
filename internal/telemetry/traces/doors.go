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

// traceHeader names the trace of a response, for whoever reports a fault.
const traceHeader = "X-Trace-Id"

// traced are the paths with spans: what programs call. Not among them are probes, the console's files, the API's description, and a
// WebSocket, whose one request would be above every turn of a connection that lives for days.
func traced(r *http.Request) bool {
	p := r.URL.Path
	return (strings.HasPrefix(p, "/v1/") && p != "/v1/ws") || strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/test/")
}

// HTTP puts a span around each request, named by its method and its route: the handler notes the route in the request's Pattern. A
// caller's traceparent is taken as it is.
func (t *Tracing) HTTP(next http.Handler) http.Handler {
	return otelhttp.NewMiddleware("",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(passOn()),
		otelhttp.WithFilter(traced),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return requestName(r) }),
	)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sc := trace.SpanContextFromContext(r.Context()); sc.IsSampled() {
			w.Header().Set(traceHeader, sc.TraceID().String())
		}
		next.ServeHTTP(w, r)
	}))
}

// requestName is of few words, whatever the caller sends.
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

// ServerOption does the same for gRPC, but for health checks and reflection.
func (t *Tracing) ServerOption() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(passOn()),
		otelgrpc.WithFilter(func(i *stats.RPCTagInfo) bool {
			return !strings.HasPrefix(i.FullMethodName, "/grpc.health.") && !strings.HasPrefix(i.FullMethodName, "/grpc.reflection.")
		}),
	))
}
