package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	answerLifetime = 5 * time.Second
	sourceTimeout  = 2 * time.Second // for one source
)

// Backlog is the pending work of the installation in the database.
type Backlog struct {
	Approvals      map[string]int64 // that wait for a person, by tenant; "" is the sum of further tenants
	OldestApproval time.Duration    // age; 0: there is none
	Queued         int64            // turns that wait for their session
	Running        int64            // turns
	Waiting        int64            // turns that wait for a person
	OldestQueued   time.Duration    // age; 0: there is none
	LongestQueue   int64            // most turns that wait for one session
}

// TenantSpending is the usage of a tenant today and this month (UTC).
type TenantSpending struct {
	Tenant                string
	DayUSD, DayTokens     float64
	MonthUSD, MonthTokens float64
}

// Queue is the workflow or the activity part of a Temporal task queue.
type Queue struct {
	Kind    string // workflow, activity
	Backlog int64
	Age     time.Duration // of the oldest task
	Pollers int
}

// Connections is the state of the database pool.
type Connections struct {
	Used, Idle, Max int32
	Waits           int64 // how often the process had to wait for a connection, since its start
}

// Sources are queried when Prometheus scrapes. Each may be nil. Each has to return when its context ends.
type Sources struct {
	Backlog     func(ctx context.Context, tenants int) (Backlog, error)
	Spending    func(ctx context.Context) ([]TenantSpending, error)
	Budget      func(tenant string) agent.Bound // of which only the budgets are used
	Queues      func(ctx context.Context) ([]Queue, error)
	Connections func() Connections
	Logger      *zap.Logger // of errors; nil: silent
}

// Names of the sources.
const (
	sourceTurns   = "turns"
	sourceBudgets = "budgets"
	sourceQueues  = "queues"
)

// Watch registers the metrics of sources. It can be called only once.
func (m *Metrics) Watch(to prometheus.Registerer, s Sources) error {
	c := newScraper(s, m.tenants.limit)
	for _, collector := range []prometheus.Collector{c, c.errors, c.duration} {
		if err := to.Register(collector); err != nil {
			return fmt.Errorf("register metrics of the installation: %w", err)
		}
	}
	return nil
}

// scraper is a collector that queries the sources, and keeps their answers for answerLifetime.
type scraper struct {
	Sources

	desc       descriptions
	maxTenants int // with labels
	errors     *prometheus.CounterVec
	duration   *prometheus.GaugeVec
	sources    []*source
}

// source is a source with its last answer. It is queried by one goroutine at a time.
type source struct {
	name string
	read func(ctx context.Context) ([]prometheus.Metric, error)

	mu         sync.Mutex
	answeredAt time.Time
	answer     []prometheus.Metric
	isUp       bool
}

func newScraper(s Sources, maxTenants int) *scraper {
	if s.Logger == nil {
		s.Logger = zap.NewNop()
	}
	c := &scraper{
		Sources: s, desc: newDescriptions(), maxTenants: maxTenants,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "telemetry_collect_errors_total", Help: "Questions for metrics without an answer, by source: turns and budgets (database), queues (Temporal).",
		}, []string{"source"}),
		duration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "telemetry_collect_seconds", Help: "Time of the last question for metrics, by source.",
		}, []string{"source"}),
	}
	add := func(name string, exists bool, read func(context.Context) ([]prometheus.Metric, error)) {
		if exists {
			c.errors.WithLabelValues(name) // shows 0 from the start
			c.sources = append(c.sources, &source{name: name, read: read})
		}
	}
	add(sourceTurns, s.Backlog != nil, c.readBacklog)
	add(sourceBudgets, s.Spending != nil && s.Budget != nil, c.readBudgets)
	add(sourceQueues, s.Queues != nil, c.readQueues)
	return c
}

// Describe implements [prometheus.Collector].
func (c *scraper) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.desc.all() {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. It queries all sources at the same time, and returns soon after sourceTimeout.
func (c *scraper) Collect(to chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, s := range c.sources {
		all.Go(func() {
			metrics, isUp := c.readSource(s)
			up := 0.0
			if isUp {
				up = 1
			}
			to <- gauge(c.desc.sourceUp, up, s.name)
			for _, m := range metrics {
				to <- m
			}
		})
	}
	if c.Connections != nil {
		s := c.Connections()
		to <- gauge(c.desc.connections, float64(s.Used), "used")
		to <- gauge(c.desc.connections, float64(s.Idle), "idle")
		to <- gauge(c.desc.connections, float64(s.Max), "max")
		to <- prometheus.MustNewConstMetric(c.desc.connectionWaits, prometheus.CounterValue, float64(s.Waits))
	}
	all.Wait()
}

// readSource returns the answer of a source and whether the source is up. The answer is at most answerLifetime old.
func (c *scraper) readSource(s *source) ([]prometheus.Metric, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answeredAt.IsZero() && time.Since(s.answeredAt) < answerLifetime {
		return s.answer, s.isUp
	}
	since := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
	defer cancel()
	answer, err := s.read(ctx)
	s.answeredAt, s.answer, s.isUp = time.Now(), answer, err == nil
	c.duration.WithLabelValues(s.name).Set(s.answeredAt.Sub(since).Seconds())
	if err != nil {
		c.errors.WithLabelValues(s.name).Inc()
		c.Logger.Warn("metrics are incomplete", zap.String("source", s.name), zap.Error(err))
	}
	return s.answer, s.isUp
}
