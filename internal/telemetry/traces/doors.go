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

// traceHeader is the response header with the trace id, for error reports.
const traceHeader = "X-Trace-Id"

// hasSpan reports whether a request gets a span. Requests of programs do. Health checks, files of the console and the API description do not. A WebSocket
// does not either, because its span would be above all turns of a connection for days.
func hasSpan(r *http.Request) bool {
	path := r.URL.Path
	return (strings.HasPrefix(path, "/v1/") && path != "/v1/ws") || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/test/")
}

// HTTP returns a handler that makes a span for each request. The name is the method and the route, which next sets as the Pattern of the request. The
// span is below the caller's traceparent.
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

// requestName returns the name of a span. A caller cannot make new names.
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

// ServerOption returns an option that makes a span for each gRPC call except health checks and reflection.
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
