package traces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	scopeName       = "github.com/turnstone-run/turnstone"
	shutdownTimeout = 5 * time.Second
)

// Tracing exports turns as traces. It is safe for concurrent use.
type Tracing struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
	sinks    []*sink
	shutdown func(context.Context) error // nil: nothing is exported
	content  contentFilter
	fixed    []attribute.KeyValue // of every span of a turn
	langfuse bool
}

var _ agent.Observer = (*Tracing)(nil)

// Open returns a Tracing that exports to the receivers of cfg. It does not fail if a receiver is unreachable; see [Tracing.Status].
func Open(ctx context.Context, cfg Config) (*Tracing, error) {
	cfg.setDefaults()
	t := Tracing{
		content:  contentFilter{mode: cfg.Content, redact: cfg.Redact, maxBytes: cfg.Limits.ContentBytes},
		langfuse: cfg.Langfuse.URL != "",
		sampler:  sdktrace.TraceIDRatioBased(cfg.SampleRatio),
	}
	if cfg.Endpoint == "" && !t.langfuse {
		t.provider = noop.NewTracerProvider()
		t.tracer = t.provider.Tracer(scopeName)
		return &t, nil
	}
	if err := t.open(ctx, &cfg); err != nil {
		return nil, err
	}
	return &t, nil
}

func (t *Tracing) open(ctx context.Context, cfg *Config) error {
	// The SDK reports some errors itself, such as a batch of which a receiver took only a part.
	sometimes := rate.Sometimes{First: 1, Interval: logInterval}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		sometimes.Do(func() { cfg.Logger.Warn("traces", zap.String("error", clip.Bytes(err.Error(), maxLoggedError))) })
	}))
	described, err := cfg.resource(ctx)
	if err != nil {
		return fmt.Errorf("describe process: %w", err)
	}
	if err := t.openSinks(ctx, cfg); err != nil {
		return err
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(described),
		sdktrace.WithIDGenerator(idGenerator{}),
		sdktrace.WithSampler(sdktrace.ParentBased(t.sampler)),
		sdktrace.WithoutPanicRecording(), // a panic may quote content
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 2*cfg.Limits.ContentBytes + 1024, AttributeCountLimit: 96, EventCountLimit: 16, LinkCountLimit: 8,
			AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 8,
		}),
	}
	for _, s := range t.sinks {
		options = append(options, sdktrace.WithSpanProcessor(s))
	}
	p := sdktrace.NewTracerProvider(options...)
	t.provider, t.shutdown = p, p.Shutdown
	t.tracer = p.Tracer(scopeName, trace.WithInstrumentationVersion(cfg.Version))
	if cfg.Version != "" {
		t.fixed = append(t.fixed, keyLangfuseRelease.String(cfg.Version))
	}
	if cfg.Environment != "" {
		t.fixed = append(t.fixed, keyLangfuseEnvironment.String(langfuseEnvironment(cfg.Environment)))
	}
	return nil
}

// openSinks opens the exporters of all receivers.
func (t *Tracing) openSinks(ctx context.Context, cfg *Config) error {
	if cfg.Endpoint != "" {
		e, err := cfg.otlpExporter(ctx)
		if err != nil {
			return err
		}
		t.sinks = append(t.sinks, newSink("otlp", e, cfg, nil))
	}
	if t.langfuse {
		e, err := cfg.langfuseExporter(ctx)
		if err != nil {
			return err
		}
		t.sinks = append(t.sinks, newSink("langfuse", e, cfg, isTurnSpan))
	}
	return nil
}

// resource returns the resource of all spans. The attributes of the service override configured ones.
func (c *Config) resource(ctx context.Context) (*resource.Resource, error) {
	detected, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	var all []attribute.KeyValue
	for _, k := range slices.Sorted(maps.Keys(c.Attributes)) {
		all = append(all, attribute.String(k, c.Attributes[k]))
	}
	all = append(all, attribute.String("service.name", c.ServiceName))
	if c.Version != "" {
		all = append(all, attribute.String("service.version", c.Version))
	}
	if c.Environment != "" {
		all = append(all, attribute.String("deployment.environment.name", c.Environment))
	}
	return resource.Merge(detected, resource.NewSchemaless(all...))
}

// Shutdown exports the waiting spans and stops. Without a deadline in ctx it takes at most 5 s.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.shutdown == nil {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
	}
	err := t.shutdown(ctx)
	for _, s := range t.sinks {
		s.stop()
	}
	if err != nil {
		return fmt.Errorf("shut down traces: %w", err)
	}
	return nil
}

// Flush exports the waiting spans.
func (t *Tracing) Flush(ctx context.Context) error {
	if p, ok := t.provider.(*sdktrace.TracerProvider); ok {
		return p.ForceFlush(ctx)
	}
	return nil
}

// Counts are numbers of spans since the start.
type Counts struct {
	Exported int64
	Failed   int64 // not taken by the receiver
	Dropped  int64 // not sent, because too many were waiting
	Waiting  int64 // at present
}

// Counts returns the counts by receiver, otlp and langfuse.
func (t *Tracing) Counts() map[string]Counts {
	all := map[string]Counts{}
	for _, s := range t.sinks {
		all[s.name] = s.counts()
	}
	return all
}

// Status reports whether exports succeed, with details for a health page.
func (t *Tracing) Status() (ok bool, detail string) {
	if len(t.sinks) == 0 {
		return true, "off"
	}
	ok = true
	var lines []string
	for _, s := range t.sinks {
		isOK, line := s.status()
		ok = ok && isOK
		lines = append(lines, line)
	}
	return ok, strings.Join(lines, "; ")
}

// traceContext returns the propagator of W3C trace context. Baggage is not passed on, because callers control it.
func traceContext() propagation.TextMapPropagator { return propagation.TraceContext{} }

const fieldParent = "traceparent"

// formatTraceparent returns a span context as a traceparent, empty for an invalid one.
func formatTraceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	c := propagation.MapCarrier{}
	traceContext().Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	return c[fieldParent]
}

// parseTraceparent returns the span context of a traceparent, an invalid one for any other text.
func parseTraceparent(parent string) trace.SpanContext {
	if parent == "" || len(parent) > 256 {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(traceContext().Extract(context.Background(), propagation.MapCarrier{fieldParent: parent}))
}
