package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultLabelValues = 200
	maxLabelValues     = 10_000
	combinationsFactor = 10 // times MaxValues is how many combinations of names a metric may have
)

// Config configures [New].
type Config struct {
	Registerer prometheus.Registerer
	MaxValues  int // how many names a label may have; 0: 200
}

// Metrics counts and measures the work of turns. It implements [agent.Observer] and pgstream.Watch. It is safe for concurrent use.
type Metrics struct {
	tenants, agents, models, providers, tools, activityNames *names

	turns       *family[turnKey, turnSeries]
	requests    *family[requestKey, requestSeries]
	modelErrors *family[errorKey, prometheus.Counter]
	usage       *family[usageKey, usageSeries]
	toolCalls   *family[toolKey, toolSeries]
	activities  *family[activityKey, prometheus.Observer]

	firstToken   *prometheus.HistogramVec
	retries      *prometheus.CounterVec
	decisions    *prometheus.CounterVec
	fallbacks    *prometheus.CounterVec
	approvalWait prometheus.Observer

	eventLag    prometheus.Observer
	followers   prometheus.Gauge
	peers       prometheus.Gauge
	directTurns prometheus.Gauge
	events      prometheus.Counter
}

var _ agent.Observer = (*Metrics)(nil)

// New returns metrics and registers them.
func New(c Config) (*Metrics, error) {
	switch {
	case c.Registerer == nil:
		return nil, errors.New("metrics: Registerer is missing")
	case c.MaxValues < 0 || c.MaxValues > maxLabelValues:
		return nil, agent.Invalid("metrics.max_label_values", "is %d, want 1 to %d, or 0 for %d", c.MaxValues, maxLabelValues, defaultLabelValues)
	case c.MaxValues == 0:
		c.MaxValues = defaultLabelValues
	}
	b := &builder{maxValues: c.MaxValues}
	m := b.newMetrics()
	for _, collector := range b.collectors {
		if err := c.Registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of turns: %w", err)
		}
	}
	return m, nil
}

// builder makes metrics and collects them for registration.
type builder struct {
	maxValues  int
	collectors []prometheus.Collector
}

func (b *builder) newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.collectors = append(b.collectors, v)
	return v
}

func (b *builder) newHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.collectors = append(b.collectors, v)
	return v
}

func (b *builder) newGauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	b.collectors = append(b.collectors, v)
	return v
}

// The functions below return the buckets of histograms, in seconds. There are few, because each bucket is a time series for each combination of labels.

// turnBuckets are for turns without their waiting time, from 50 ms for a direct turn to ten minutes for research.
func turnBuckets() []float64 {
	return []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600}
}

// waitBuckets are for durations with waiting time for people, which may be days.
func waitBuckets() []float64 {
	return []float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400, 604800}
}

// firstTokenBuckets are for the time to the first token.
func firstTokenBuckets() []float64 {
	return []float64{0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30}
}

// modelBuckets are for whole replies of models.
func modelBuckets() []float64 { return []float64{0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300} }

// toolBuckets are for tool calls, from a lookup in memory to a job in a cluster.
func toolBuckets() []float64 {
	return []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// activityBuckets are for activities, from an SQL statement to a whole reply of a model.
func activityBuckets() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 120}
}

// lagBuckets are for the delay of events. If it is more than two seconds, a notification was lost.
func lagBuckets() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5}
}

// newMetrics returns all metrics, unregistered.
func (b *builder) newMetrics() *Metrics {
	overflow := b.newCounters("telemetry_label_overflow_total", "Times that a name was counted as other, because the label had its bound of names.", "label")
	label := func(name string) *names { return newNames(b.maxValues, overflow.WithLabelValues(name)) }
	m := &Metrics{
		tenants: label("tenant"), agents: label("agent"), models: label("model"), providers: label("provider"),
		tools: label("tool"), activityNames: label("activity"),
		firstToken: b.newHistograms("agent_first_token_seconds",
			"From when a turn was first seen to the first fragment that it showed, by agent.", firstTokenBuckets(), "agent"),
		retries:   b.newCounters("model_retries_total", "Requests that repeat one of the same step, or fall back from it, by model.", "model"),
		decisions: b.newCounters("approvals_decided_total", "Approvals that were decided: approve, edit, reject, respond, or expired.", "decision"),
	}
	m.fallbacks = b.newCounters("direct_fallbacks_total", "Turns that were to be direct and run as workflows, by reason.", "reason")
	combined := overflow.WithLabelValues("combination")
	m.turns = b.newTurnFamily(combined)
	m.requests = b.newRequestFamily(combined)
	m.modelErrors = b.newErrorFamily(combined)
	m.usage = b.newUsageFamily(combined)
	m.toolCalls = b.newToolFamily(combined)
	m.activities = b.newActivityFamily(combined)
	m.approvalWait = b.newHistograms("approval_wait_seconds", "How long approvals waited until they were decided or expired.", waitBuckets()).WithLabelValues()
	m.eventLag = b.newHistograms("event_log_lag_seconds",
		"How long a follower in this process waited for events that the log had.", lagBuckets()).WithLabelValues()
	m.events = b.newCounters("event_log_events_total", "Events that this process appended to the event log.").WithLabelValues()
	m.followers = b.newGauge("event_log_followers", "Followers of streams in this process.")
	m.peers = b.newGauge("event_log_peers", "Processes whose streams this one follows through the relay.")
	m.directTurns = b.newGauge("direct_turns", "Direct turns that this process runs.")
	return m
}

// Appended implements pgstream.Watch. It counts written events.
func (m *Metrics) Appended(events int) { m.events.Add(float64(events)) }

// Delivered implements pgstream.Watch. It measures how long a follower waited for stored events.
func (m *Metrics) Delivered(lag time.Duration) { m.eventLag.Observe(lag.Seconds()) }

// Followers implements pgstream.Watch. It adds or removes followers.
func (m *Metrics) Followers(change int) { m.followers.Add(float64(change)) }

// Peers implements pgstream.Watch. It adds or removes connected processes.
func (m *Metrics) Peers(change int) { m.peers.Add(float64(change)) }

// DirectTurns adds or removes running direct turns.
func (m *Metrics) DirectTurns(change int) { m.directTurns.Add(float64(change)) }

// DirectFallback counts a turn that runs as a workflow although it was requested as a direct turn.
func (m *Metrics) DirectFallback(reason agent.Fallback) {
	m.fallbacks.WithLabelValues(string(reason)).Inc()
}
