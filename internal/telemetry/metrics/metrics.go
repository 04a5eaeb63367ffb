package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultValues = 200
	maxValues     = 10_000
	combinations  = 10 // times MaxValues: how many combinations of names a metric may have
)

// Config configures [New].
type Config struct {
	Registerer prometheus.Registerer
	MaxValues  int // of a label whose values others choose; 0: 200
}

// Metrics counts what turns do. It satisfies [agent.Observer] and pgstream.Watch. It is safe for concurrent use.
type Metrics struct {
	tenants, agents, models, providers, tools, activityNames *names

	turns       *family[turnKey, turnSeries]
	requests    *family[requestKey, requestSeries]
	modelErrors *family[errorKey, prometheus.Counter]
	usage       *family[usageKey, usageSeries]
	toolCalls   *family[toolKey, toolSeries]
	activities  *family[workKey, prometheus.Observer]

	first     *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	decisions *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
	waited    prometheus.Observer

	lag       prometheus.Observer
	followers prometheus.Gauge
	peers     prometheus.Gauge
	direct    prometheus.Gauge
	events    prometheus.Counter
}

var _ agent.Observer = (*Metrics)(nil)

// New returns registered metrics.
func New(c Config) (*Metrics, error) {
	switch {
	case c.Registerer == nil:
		return nil, errors.New("metrics: Registerer is missing")
	case c.MaxValues < 0 || c.MaxValues > maxValues:
		return nil, agent.Invalid("metrics.max_label_values", "is %d, want 1 to %d, or 0 for %d", c.MaxValues, maxValues, defaultValues)
	case c.MaxValues == 0:
		c.MaxValues = defaultValues
	}
	b := &builder{values: c.MaxValues}
	m := b.metrics()
	for _, one := range b.all {
		if err := c.Registerer.Register(one); err != nil {
			return nil, fmt.Errorf("register metrics of turns: %w", err)
		}
	}
	return m, nil
}

// builder makes metrics and collects them for registration.
type builder struct {
	values int
	all    []prometheus.Collector
}

func (b *builder) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.all = append(b.all, v)
	return v
}

func (b *builder) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.all = append(b.all, v)
	return v
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	b.all = append(b.all, v)
	return v
}

// The functions below return the buckets of histograms, in seconds. They are classic histograms, which every Prometheus reads. Each bucket is a time
// series for each combination of labels, so they are few.

// turnBuckets are for the time of turns without waits: 50 ms for a direct turn, ten minutes for research.
func turnBuckets() []float64 {
	return []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600}
}

// wallBuckets are for the time of turns with waits for people, which can take days.
func wallBuckets() []float64 {
	return []float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400, 604800}
}

// firstBuckets are for the time to the first token.
func firstBuckets() []float64 {
	return []float64{0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30}
}

// modelBuckets are for whole replies of models.
func modelBuckets() []float64 { return []float64{0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300} }

// toolBuckets are for tool calls: a lookup in memory, or a job in a cluster.
func toolBuckets() []float64 {
	return []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// workBuckets are for activities: a statement, or a whole reply of a model.
func workBuckets() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 120}
}

// lagBuckets are for the delay of events. Above two seconds a notification was lost, and the poll found the event.
func lagBuckets() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5}
}

func (b *builder) metrics() *Metrics {
	overflow := b.counters("telemetry_label_overflow_total", "Times that a name was counted as other, because the label had its bound of names.", "label")
	label := func(name string) *names { return newNames(b.values, overflow.WithLabelValues(name)) }
	m := &Metrics{
		tenants: label("tenant"), agents: label("agent"), models: label("model"), providers: label("provider"),
		tools: label("tool"), activityNames: label("activity"),
		first: b.histograms("agent_first_token_seconds",
			"From when a turn was first seen to the first fragment that it showed, by agent.", firstBuckets(), "agent"),
		retries:   b.counters("model_retries_total", "Requests that repeat one of the same step, or fall back from it, by model.", "model"),
		decisions: b.counters("approvals_decided_total", "Approvals that were decided: approve, edit, reject, respond, or expired.", "decision"),
	}
	m.fallbacks = b.counters("direct_fallbacks_total", "Turns that were to be direct and run as workflows, by reason.", "reason")
	combined := overflow.WithLabelValues("combination")
	m.turns = b.turnFamily(combined)
	m.requests = b.requestFamily(combined)
	m.modelErrors = b.errorFamily(combined)
	m.usage = b.usageFamily(combined)
	m.toolCalls = b.toolFamily(combined)
	m.activities = b.workFamily(combined)
	m.waited = b.histograms("approval_wait_seconds", "How long approvals waited until they were decided or expired.", wallBuckets()).WithLabelValues()
	m.lag = b.histograms("event_log_lag_seconds", "How long a follower in this process waited for events that the log had.", lagBuckets()).WithLabelValues()
	m.events = b.counters("event_log_events_total", "Events that this process appended to the event log.").WithLabelValues()
	m.followers = b.gauge("event_log_followers", "Followers of streams in this process.")
	m.peers = b.gauge("event_log_peers", "Processes whose streams this one follows through the relay.")
	m.direct = b.gauge("direct_turns", "Direct turns that this process runs.")
	return m
}

// Appended counts written events (pgstream.Watch).
func (m *Metrics) Appended(events int) { m.events.Add(float64(events)) }

// Delivered measures how long a follower waited for events that the log had (pgstream.Watch).
func (m *Metrics) Delivered(lag time.Duration) { m.lag.Observe(lag.Seconds()) }

// Followers counts followers that come (+1) and go (-1) (pgstream.Watch).
func (m *Metrics) Followers(change int) { m.followers.Add(float64(change)) }

// Peers counts processes that connect (+1) and disconnect (-1) (pgstream.Watch).
func (m *Metrics) Peers(change int) { m.peers.Add(float64(change)) }

// DirectTurns counts direct turns that begin (+1) and end (-1) in this process.
func (m *Metrics) DirectTurns(change int) { m.direct.Add(float64(change)) }

// DirectFallback counts a turn that was to be direct and runs as a workflow.
func (m *Metrics) DirectFallback(why agent.Fallback) { m.fallbacks.WithLabelValues(string(why)).Inc() }
