package traces

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

const (
	// temporalHeader is the header in which all SDKs of Temporal keep a trace. It is a JSON object of W3C headers.
	temporalHeader = "_tracer-data"
	// maxHeader bounds the bytes of a header. A traceparent has 55 bytes, and a tracestate has at most 512.
	maxHeader  = 4096
	fieldState = "tracestate"
)

// headerKey is the context key of the trace header of a workflow, which is passed on unchanged.
type headerKey struct{}

// propagator passes traces on in the headers of Temporal. It makes no spans. Its methods return no errors, because an error would fail a workflow task
// again and again.
//
// A workflow passes its trace to child workflows, to its continuation and to local activities. The local activity BeginTurn stores it in the record of
// the turn, where the other activities read it. In their headers it would be in the history once for each activity.
type propagator struct{}

var _ workflow.ContextPropagator = propagator{}

// Propagator returns the propagator for client.Options.ContextPropagators. Workers and clients that start workflows both need it.
func Propagator() workflow.ContextPropagator { return propagator{} }

// Inject implements [workflow.ContextPropagator], for a client that starts or calls a workflow.
func (propagator) Inject(ctx context.Context, w workflow.HeaderWriter) error {
	if p := headerPayload(trace.SpanContextFromContext(ctx)); p != nil {
		w.Set(temporalHeader, p)
	}
	return nil
}

// Extract implements [workflow.ContextPropagator], for an activity.
func (propagator) Extract(ctx context.Context, r workflow.HeaderReader) (context.Context, error) {
	if p, ok := r.Get(temporalHeader); ok {
		if sc := parseHeaderPayload(p); sc.IsValid() {
			return trace.ContextWithRemoteSpanContext(ctx, sc), nil
		}
	}
	return ctx, nil
}

// InjectFromWorkflow implements [workflow.ContextPropagator].
func (propagator) InjectFromWorkflow(ctx workflow.Context, w workflow.HeaderWriter) error {
	p, _ := ctx.Value(headerKey{}).(*commonpb.Payload)
	if p != nil && !isForActivity(ctx) {
		w.Set(temporalHeader, p)
	}
	return nil
}

// isForActivity reports whether a context is for normal activities. The SDK does not say for what it writes a header, but such a context has options for
// normal activities and none for local ones.
func isForActivity(ctx workflow.Context) bool {
	normal, local := workflow.GetActivityOptions(ctx), workflow.GetLocalActivityOptions(ctx)
	return (normal.StartToCloseTimeout > 0 || normal.ScheduleToCloseTimeout > 0) &&
		local.StartToCloseTimeout == 0 && local.ScheduleToCloseTimeout == 0
}

// ExtractToWorkflow implements [workflow.ContextPropagator], for a workflow or one of its handlers.
func (propagator) ExtractToWorkflow(ctx workflow.Context, r workflow.HeaderReader) (workflow.Context, error) {
	p, ok := r.Get(temporalHeader)
	if !ok || !parseHeaderPayload(p).IsValid() {
		return ctx, nil
	}
	return workflow.WithValue(ctx, headerKey{}, p), nil
}

// headerPayload returns the header for a span context, nil for an invalid one.
func headerPayload(sc trace.SpanContext) *commonpb.Payload {
	if !sc.IsValid() {
		return nil
	}
	c := propagation.MapCarrier{}
	traceContext().Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	p, err := converter.GetDefaultDataConverter().ToPayload(map[string]string(c))
	if err != nil {
		return nil
	}
	return p
}

// parseHeaderPayload returns the span context of a header, an invalid one if the header has another form.
func parseHeaderPayload(p *commonpb.Payload) trace.SpanContext {
	if len(p.GetData()) == 0 || len(p.GetData()) > maxHeader {
		return trace.SpanContext{}
	}
	var fields map[string]string
	if err := converter.GetDefaultDataConverter().FromPayload(p, &fields); err != nil {
		return trace.SpanContext{}
	}
	c := propagation.MapCarrier{fieldParent: fields[fieldParent], fieldState: fields[fieldState]}
	return trace.SpanContextFromContext(traceContext().Extract(context.Background(), c))
}

// Unscheduled returns an interceptor for client.Options.Interceptors. It keeps the runs of a schedule out of the trace in which it was created.
func Unscheduled() interceptor.ClientInterceptor { return &untracedSchedules{} }

type untracedSchedules struct {
	interceptor.ClientInterceptorBase
}

// InterceptClient implements [interceptor.ClientInterceptor].
func (*untracedSchedules) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &untracedCalls{ClientOutboundInterceptorBase: interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type untracedCalls struct {
	interceptor.ClientOutboundInterceptorBase
}

// CreateSchedule implements [interceptor.ClientOutboundInterceptor].
func (c *untracedCalls) CreateSchedule(ctx context.Context, in *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	return c.Next.CreateSchedule(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), in)
}
