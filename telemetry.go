package turnstone

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/telemetry"
	"github.com/turnstone-run/turnstone/internal/telemetry/metrics"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
)

var _ pgstream.Watch = (*metrics.Metrics)(nil)

// watching is how a service is observed.
type watching struct {
	registry *prometheus.Registry
	counts   *metrics.Metrics
	traces   *traces.Tracing // nil: they would go nowhere
	observer agent.Observer
}

// openTelemetry comes first: everything else is observed.
func (s *Service) openTelemetry(ctx context.Context) (err error) {
	set := s.cfg.Settings
	w := &s.watching
	w.registry = prometheus.NewRegistry()
	w.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	if w.counts, err = metrics.New(metrics.Config{Registerer: w.registry, MaxValues: set.Metrics.MaxLabelValues}); err != nil {
		return err
	}
	observers := []agent.Observer{w.counts}
	if set.Telemetry.On() {
		if w.traces, err = s.openTraces(ctx); err != nil {
			return err
		}
		observers = []agent.Observer{w.traces, w.counts} // in this order: what is counted is within a span
	}
	w.observer = telemetry.All(append(observers, s.cfg.Observers...)...)
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

// temporal has a client's calls counted and traced.
func (w *watching) temporal(options client.Options, s *Service) (_ client.Options, err error) {
	if options.MetricsHandler, err = metrics.Temporal(w.registry, s.logger); err != nil {
		return options, err
	}
	if w.traces != nil {
		options.ContextPropagators = append(options.ContextPropagators, traces.Propagator())
		options.Interceptors = append(options.Interceptors, traces.Unscheduled())
	}
	return options, nil
}

// doors has requests traced.
func (w *watching) doors(cfg *gateway.Config) {
	if w.traces != nil {
		cfg.Trace, cfg.ServerOptions = w.traces.HTTP, []grpc.ServerOption{w.traces.ServerOption()}
	}
}

// exporting says whether traces arrive; nil: none are sent.
func (w *watching) exporting() func() (ok bool, detail string) {
	if w.traces == nil {
		return nil
	}
	return w.traces.Status
}

// watchInstallation has what waits in the installation counted whenever metrics are read.
func (s *Service) watchInstallation(store *postgres.Store, gate *admission.Gate) error {
	return s.watching.counts.Watch(s.watching.registry, metrics.Sources{
		Standing: func(ctx context.Context, tenants int) (metrics.Standing, error) {
			standing, err := store.Standing(ctx, tenants)
			return metrics.Standing(standing), err
		},
		Spending: func(ctx context.Context) ([]metrics.TenantSpending, error) {
			all, err := store.TenantsSpending(ctx)
			out := make([]metrics.TenantSpending, len(all))
			for i, t := range all {
				out[i] = metrics.TenantSpending(t)
			}
			return out, err
		},
		Budget: func(tenant string) agent.Bound {
			if own, ok := gate.Tenants[tenant]; ok {
				return own.Tenant
			}
			return gate.Defaults.Tenant
		},
		Queues: metrics.Queues(s.temporal, s.namespace, s.cfg.Settings.Temporal.TaskQueue),
		Connections: func() metrics.Connections {
			p := s.pool.Stat()
			return metrics.Connections{Used: p.AcquiredConns(), Idle: p.IdleConns(), Max: p.MaxConns(), Waits: p.EmptyAcquireCount()}
		},
		Logger: s.logger,
	})
}

// close sends what is still to be sent.
func (w *watching) close(ctx context.Context) error {
	if w.traces == nil {
		return nil
	}
	last := w.traces
	w.traces = nil
	return last.Shutdown(ctx)
}
