package deploy_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/telemetry/metrics"
)

// metric is a metric that a process registers.
type metric struct {
	name, kind, help string
	labels           []string
	sdk              bool // of the Temporal SDK
	runtime          bool // of the Go runtime, the process or the build
}

// recorder is a registry that records the metrics it registers.
type recorder struct {
	*prometheus.Registry

	found []metric
}

func (r *recorder) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	described := make(chan *prometheus.Desc, 1000)
	c.Describe(described)
	close(described)
	for d := range described {
		r.found = append(r.found, parseDesc(d.String(), kindOf(c)))
	}
	return nil
}

func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// kindOf returns the type of a metric, or "" for a collector of several metrics.
func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	default:
		return ""
	}
}

// parseDesc returns the metric in the text of a description, which has no accessors.
func parseDesc(d, kind string) metric {
	parts := regexp.MustCompile(`fqName: "(\w+)", help: "(.*?)", (?:unit: ".*", )?constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`).FindStringSubmatch(d)
	m := metric{name: parts[1], help: parts[2], kind: kind}
	if parts[3] != "" {
		m.labels = strings.Split(parts[3], ",")
	}
	return m
}

// noTools is a [catalog.Tools] without toolkits.
type noTools struct{ catalog.Tools }

func (noTools) Kits() []string { return nil }

// registered returns all metrics of a process with all features, sorted by name.
func registered(t *testing.T) []metric {
	t.Helper()
	to := &recorder{Registry: prometheus.NewPedanticRegistry()}
	m, err := metrics.New(metrics.Config{Registerer: to})
	require.NoError(t, err)
	require.NoError(t, m.Watch(to, metrics.Sources{
		Backlog: func(context.Context, int) (metrics.Backlog, error) { return metrics.Backlog{}, nil },
		Spending: func(context.Context) ([]metrics.TenantSpending, error) {
			return []metrics.TenantSpending{{Tenant: "acme"}}, nil
		},
		Budget: func(string) agent.Bound { return agent.Bound{DailyTokens: 1} },
		Queues: func(context.Context) ([]metrics.Queue, error) { return []metrics.Queue{{Kind: "workflow"}}, nil },
		Connections: func() metrics.Connections {
			return metrics.Connections{}
		},
	}))
	_, err = catalog.New(catalog.Config{
		Store: struct{ catalog.Store }{}, Plans: struct{ catalog.Plans }{}, Routes: struct{ catalog.Routes }{},
		Parts: &catalog.Parts{Tools: noTools{}}, Metrics: to,
	})
	require.NoError(t, err)
	_, err = jobs.New(jobs.Config{URL: "redis://127.0.0.1:1/0", Metrics: to})
	require.NoError(t, err)
	_, err = telegram.New(telegram.Config{Token: "1:" + strings.Repeat("x", 30), Store: struct{ telegram.Store }{}, Metrics: to})
	require.NoError(t, err)
	results.NewCollector(results.CollectorConfig{Metrics: to})

	families, err := to.Gather()
	require.NoError(t, err)
	for i := range to.found {
		if one := &to.found[i]; one.kind == "" {
			at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == one.name })
			require.GreaterOrEqual(t, at, 0, "%s has no sample", one.name)
			one.kind = strings.ToLower(families[at].GetType().String())
		}
	}
	all := slices.Concat(to.found, sdkMetrics(t), runtimeMetrics(t))
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return all
}

// sdkMetrics returns the metrics of the Temporal SDK, as the service exports them.
func sdkMetrics(t *testing.T) []metric {
	t.Helper()
	to := prometheus.NewRegistry()
	handler, err := metrics.Temporal(to, zap.NewNop())
	require.NoError(t, err)
	for _, name := range sdkNames(t) {
		switch {
		case strings.HasSuffix(name, "_latency"):
			handler.Timer(name).Record(time.Second)
		case slices.ContainsFunc([]string{"_available", "_used", "_pollers", "_size", "_thread_count"}, func(s string) bool { return strings.HasSuffix(name, s) }):
			handler.Gauge(name).Update(1)
		default:
			handler.Counter(name).Inc(1)
		}
	}
	found := gathered(t, to)
	for i := range found {
		found[i].sdk = true
	}
	return found
}

func runtimeMetrics(t *testing.T) []metric {
	t.Helper()
	to := prometheus.NewRegistry()
	to.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	found := gathered(t, to)
	for i := range found {
		found[i].runtime = true
	}
	return append(found, metric{name: "up", kind: "gauge", runtime: true}) // which Prometheus adds
}

func gathered(t *testing.T, from prometheus.Gatherer) []metric {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	var out []metric
	for _, f := range families {
		out = append(out, metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()})
	}
	return out
}

// find returns the metric with a name in an expression. A histogram has three names.
func find(all []metric, name string) (metric, bool) {
	for _, m := range all {
		if m.name == name && m.kind != "histogram" {
			return m, true
		}
		if m.kind == "histogram" && slices.Contains([]string{m.name + "_bucket", m.name + "_sum", m.name + "_count"}, name) {
			return m, true
		}
	}
	return metric{}, false
}
