package catalog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnstone-run/turnstone/agent"
)

// metrics are the metrics of a registry. Label values are fixed: users cannot add any.
type metrics struct {
	nodes     *prometheus.GaugeVec
	agents    prometheus.Gauge
	revision  prometheus.Gauge
	reload    prometheus.Histogram
	failures  prometheus.Counter
	mismatch  prometheus.Counter
	decisions *prometheus.CounterVec
	lookups   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{ //nolint:promlinter // documented under this name
			Name: "registry_nodes_total", Help: "Node definitions that this process serves, by type.",
		}, []string{"type"}),
		agents:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "registry_agents", Help: "Agent instances that this process serves."}),
		revision: prometheus.NewGauge(prometheus.GaugeOpts{Name: "registry_revision", Help: "Revision of the catalog that this process serves."}),
		reload: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "registry_reload_duration_seconds", Help: "Time to make a new snapshot of the catalog, without the query.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "registry_reload_failures_total", Help: "Looks at the store that failed."}),
		mismatch: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "routing_mismatch_total", Help: "Requests that name an agent which the rules would not have chosen.",
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routing_decisions_total", Help: "Routing decisions by reason: named, rule, default, draft, none.",
		}, []string{"reason"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "registry_plan_lookups_total", Help: "Plans looked for by their hash, by where they were found: memory, shared, backend, none.",
		}, []string{"tier"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.nodes, m.agents, m.revision, m.reload, m.failures, m.mismatch, m.decisions, m.lookups)
	}
	return m
}

func (m *metrics) setGauges(s *snapshot) {
	byType := map[agent.NodeType]int{agent.NodeAgent: 0, agent.NodeTool: 0, agent.NodeToolkit: 0}
	for _, e := range s.nodes {
		byType[e.node().Type]++
	}
	for t, n := range byType {
		m.nodes.WithLabelValues(string(t)).Set(float64(n))
	}
	m.agents.Set(float64(len(s.agents)))
	m.revision.Set(float64(s.revision))
}

func (m *metrics) countLookup(found planTier) { m.lookups.WithLabelValues(string(found)).Inc() }

func (m *metrics) countDecision(d *agent.RouteDecision) {
	reason := string(d.Reason)
	if d.Agent == "" {
		reason = "none"
	}
	m.decisions.WithLabelValues(reason).Inc()
	if d.Mismatch {
		m.mismatch.Inc()
	}
}
