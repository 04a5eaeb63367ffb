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

// headerKey is the context key of a workflow's trace header, which is passed on unchanged.
type headerKey struct{}

// propagator passes traces through Temporal's headers. It makes no spans. Its methods return no errors, which would fail workflow tasks
// for ever.
//
// A workflow passes its trace to child workflows, to its continuation and to local activities. The local activity BeginTurn puts it into
// the turn's record, where other activities read it: in their headers it would be in the history once per activity.
type propagator struct{}

var _ workflow.ContextPropagator = propagator{}

// Propagator is for client.Options.ContextPropagators, of workers' clients and of those that start workflows.
func Propagator() workflow.ContextPropagator { return propagator{} }

// Inject implements [workflow.ContextPropagator]: a client starts a workflow, or calls one.
func (propagator) Inject(ctx context.Context, w workflow.HeaderWriter) error {
	if p := headerPayload(trace.SpanContextFromContext(ctx)); p != nil {
		w.Set(temporalHeader, p)
	}
	return nil
}

// Extract implements [workflow.ContextPropagator]: an activity begins.
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

// isForActivity reports whether a context is for normal activities. The SDK does not say what it writes a header for, but such a context
// has options for normal activities and none for local ones.
func isForActivity(ctx workflow.Context) bool {
	normal, local := workflow.GetActivityOptions(ctx), workflow.GetLocalActivityOptions(ctx)
	return (normal.StartToCloseTimeout > 0 || normal.ScheduleToCloseTimeout > 0) &&
		local.StartToCloseTimeout == 0 && local.ScheduleToCloseTimeout == 0
}

// ExtractToWorkflow implements [workflow.ContextPropagator]: a workflow begins, or one of its handlers.
func (propagator) ExtractToWorkflow(ctx workflow.Context, r workflow.HeaderReader) (workflow.Context, error) {
	p, ok := r.Get(temporalHeader)
	if !ok || !parseHeaderPayload(p).IsValid() {
		return ctx, nil
	}
	return workflow.WithValue(ctx, headerKey{}, p), nil
}

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

// parseHeaderPayload returns the span context of a header, an invalid one for an unknown header.
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

// Unscheduled is for client.Options.Interceptors beside [Propagator]. It keeps the runs of a schedule out of the trace that created it.
func Unscheduled() interceptor.ClientInterceptor { return &untracedSchedules{} }

type untracedSchedules struct {
	interceptor.ClientInterceptorBase
}

// InterceptClient implements [interceptor.ClientInterceptor].
func (*untracedSchedules) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &unscheduledCalls{ClientOutboundInterceptorBase: interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type unscheduledCalls struct {
	interceptor.ClientOutboundInterceptorBase
}

// CreateSchedule implements [interceptor.ClientOutboundInterceptor].
func (c *unscheduledCalls) CreateSchedule(ctx context.Context, in *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	return c.Next.CreateSchedule(Apart(ctx), in)
}

// Apart returns a context without a trace, for work that outlives its cause: a schedule's update, a queued task.
func Apart(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
}
