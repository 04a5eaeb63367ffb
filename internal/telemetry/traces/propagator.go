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
	// temporalHeader is where the tracing interceptors of all of Temporal's SDKs keep a trace: a JSON object of W3C headers.
	temporalHeader = "_tracer-data"
	// maxHeader bounds what is read of one: a traceparent has 55 bytes, a tracestate at most 512.
	maxHeader  = 4096
	fieldState = "tracestate"
)

// carriedKey finds a trace in a workflow's context: the header as it came, which is passed on unchanged.
type carriedKey struct{}

// propagator takes traces through Temporal's headers. It makes no spans, and none of its methods answers an error: one would fail workflow
// tasks for ever.
//
// A workflow passes on the trace that it was started in, to child workflows, to its continuation, and to local activities, of which
// BeginTurn puts it into the turn's record. Other activities find it there: in their headers it would be history, once per activity.
type propagator struct{}

var _ workflow.ContextPropagator = propagator{}

// Propagator is for client.Options.ContextPropagators, of workers' clients and of those that start workflows.
func Propagator() workflow.ContextPropagator { return propagator{} }

// Inject implements [workflow.ContextPropagator]: a client starts a workflow, or calls one.
func (propagator) Inject(ctx context.Context, w workflow.HeaderWriter) error {
	if p := payloadOf(trace.SpanContextFromContext(ctx)); p != nil {
		w.Set(temporalHeader, p)
	}
	return nil
}

// Extract implements [workflow.ContextPropagator]: an activity begins.
func (propagator) Extract(ctx context.Context, r workflow.HeaderReader) (context.Context, error) {
	if p, ok := r.Get(temporalHeader); ok {
		if sc := spanOf(p); sc.IsValid() {
			return trace.ContextWithRemoteSpanContext(ctx, sc), nil
		}
	}
	return ctx, nil
}

// InjectFromWorkflow implements [workflow.ContextPropagator].
func (propagator) InjectFromWorkflow(ctx workflow.Context, w workflow.HeaderWriter) error {
	p, _ := ctx.Value(carriedKey{}).(*commonpb.Payload)
	if p != nil && !forActivity(ctx) {
		w.Set(temporalHeader, p)
	}
	return nil
}

// forActivity tells whether a context is one for normal activities. The SDK does not say what it writes a header for, but a context that
// has options for those, and none for local ones, was made for them.
func forActivity(ctx workflow.Context) bool {
	normal, local := workflow.GetActivityOptions(ctx), workflow.GetLocalActivityOptions(ctx)
	return (normal.StartToCloseTimeout > 0 || normal.ScheduleToCloseTimeout > 0) &&
		local.StartToCloseTimeout == 0 && local.ScheduleToCloseTimeout == 0
}

// ExtractToWorkflow implements [workflow.ContextPropagator]: a workflow begins, or one of its handlers.
func (propagator) ExtractToWorkflow(ctx workflow.Context, r workflow.HeaderReader) (workflow.Context, error) {
	p, ok := r.Get(temporalHeader)
	if !ok || !spanOf(p).IsValid() {
		return ctx, nil
	}
	return workflow.WithValue(ctx, carriedKey{}, p), nil
}

func payloadOf(sc trace.SpanContext) *commonpb.Payload {
	if !sc.IsValid() {
		return nil
	}
	c := propagation.MapCarrier{}
	passOn().Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	p, err := converter.GetDefaultDataConverter().ToPayload(map[string]string(c))
	if err != nil {
		return nil
	}
	return p
}

// spanOf reads a header; what is none, or not one that we know, is an invalid span context.
func spanOf(p *commonpb.Payload) trace.SpanContext {
	if len(p.GetData()) == 0 || len(p.GetData()) > maxHeader {
		return trace.SpanContext{}
	}
	var fields map[string]string
	if err := converter.GetDefaultDataConverter().FromPayload(p, &fields); err != nil {
		return trace.SpanContext{}
	}
	c := propagation.MapCarrier{fieldParent: fields[fieldParent], fieldState: fields[fieldState]}
	return trace.SpanContextFromContext(passOn().Extract(context.Background(), c))
}

// Unscheduled is for client.Options.Interceptors beside [Propagator]: the runs of a schedule are in no trace of whoever made it.
func Unscheduled() interceptor.ClientInterceptor { return &unscheduled{} }

type unscheduled struct {
	interceptor.ClientInterceptorBase
}

// InterceptClient implements [interceptor.ClientInterceptor].
func (*unscheduled) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &unscheduledCalls{ClientOutboundInterceptorBase: interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type unscheduledCalls struct {
	interceptor.ClientOutboundInterceptorBase
}

// CreateSchedule implements [interceptor.ClientOutboundInterceptor].
func (c *unscheduledCalls) CreateSchedule(ctx context.Context, in *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	return c.Next.CreateSchedule(Apart(ctx), in)
}

// Apart is a context that is in no trace, for what outlives its cause: a schedule's update, work that is queued for others.
func Apart(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
}
