package turnstone

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/telemetry/metrics"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
)

var _ pgstream.Watch = (*metrics.Metrics)(nil)

// instrumentation holds the metrics and traces of a service.
type instrumentation struct {
	registry *prometheus.Registry
	counts   *metrics.Metrics
	traces   *traces.Tracing // nil without an endpoint to send them to
	observer agent.Observer
}

// openTelemetry creates the metrics and traces that the rest of the service reports to.
func (s *Service) openTelemetry(ctx, _ context.Context) (err error) {
	set := s.cfg.Settings
	t := &s.telemetry
	t.registry = prometheus.NewRegistry()
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	if t.counts, err = metrics.New(metrics.Config{Registerer: t.registry, MaxValues: set.Metrics.MaxLabelValues}); err != nil {
		return err
	}
	all := observers{t.counts}
	if set.Telemetry.On() {
		if t.traces, err = s.openTraces(ctx); err != nil {
			return err
		}
		all = observers{t.traces, t.counts} // in this order, so that metrics are recorded within a span
	}
	all = append(all, s.cfg.Observers...)
	t.observer = all
	return nil
}

func (s *Service) openTraces(ctx context.Context) (*traces.Tracing, error) {
	set := &s.cfg.Settings.Telemetry
	attributes, err := traces.ParsePairs("telemetry.resource_attributes", set.ResourceAttributes)
	if err != nil {
		return nil, err
	}
	redactor, err := app.Redactor(s.cfg.Settings.Log.PII, app.Secrets(s.cfg.Settings, s.cfg.Env)...)
	if err != nil {
		return nil, err
	}
	return traces.Open(ctx, traces.Config{
		Endpoint: set.OTLPEndpoint, Protocol: set.OTLPProtocol, Headers: set.OTLPHeaders.Reveal(),
		Langfuse:    traces.Langfuse{URL: set.LangfuseURL, PublicKey: set.LangfusePublicKey, SecretKey: set.LangfuseSecretKey.Reveal()},
		SampleRatio: set.SampleRatio, Content: traces.Content(set.Content), Redact: redactor.Text,
		ServiceName: set.ServiceName, Version: app.Version(), Environment: set.Environment, Attributes: attributes, Logger: s.logger.Named("traces"),
	})
}

// instrumentClient adds metrics and traces to the options of a Temporal client.
func (t *instrumentation) instrumentClient(options client.Options, s *Service) (_ client.Options, err error) {
	if options.MetricsHandler, err = metrics.Temporal(t.registry, s.logger); err != nil {
		return options, err
	}
	if t.traces != nil {
		options.ContextPropagators = append(options.ContextPropagators, traces.Propagator())
		options.Interceptors = append(options.Interceptors, traces.Unscheduled())
	}
	return options, nil
}

// instrumentGateway adds traces of requests to the gateway.
func (t *instrumentation) instrumentGateway(cfg *gateway.Config) {
	if t.traces != nil {
		cfg.Trace, cfg.ServerOptions = t.traces.HTTP, []grpc.ServerOption{t.traces.ServerOption()}
	}
}

// traceStatus returns a function that reports whether traces are delivered, or nil if none are sent.
func (t *instrumentation) traceStatus() func() (ok bool, detail string) {
	if t.traces == nil {
		return nil
	}
	return t.traces.Status
}

// watchInstallation registers metrics of the whole installation, such as its backlog, which are computed when they are scraped.
func (s *Service) watchInstallation() error {
	return s.telemetry.counts.Watch(s.telemetry.registry, metrics.Sources{
		Backlog: func(ctx context.Context, tenants int) (metrics.Backlog, error) {
			backlog, err := s.store.Backlog(ctx, tenants)
			return metrics.Backlog(backlog), err
		},
		Spending: func(ctx context.Context) ([]metrics.TenantSpending, error) {
			all, err := s.store.TenantsSpending(ctx)
			out := make([]metrics.TenantSpending, len(all))
			for i, t := range all {
				out[i] = metrics.TenantSpending(t)
			}
			return out, err
		},
		Budget: func(tenant string) agent.Bound {
			if bounds, ok := s.gate.Tenants[tenant]; ok {
				return bounds.Tenant
			}
			return s.gate.Defaults.Tenant
		},
		Queues: metrics.Queues(s.temporal, s.namespace, s.cfg.Settings.Temporal.TaskQueue),
		Connections: func() metrics.Connections {
			p := s.pool.Stat()
			return metrics.Connections{Used: p.AcquiredConns(), Idle: p.IdleConns(), Max: p.MaxConns(), Waits: p.EmptyAcquireCount()}
		},
		Logger: s.logger,
	})
}

// close sends the traces that are not sent yet, and ends tracing.
func (t *instrumentation) close(ctx context.Context) error {
	if t.traces == nil {
		return nil
	}
	tracing := t.traces
	t.traces = nil
	return tracing.Shutdown(ctx)
}
