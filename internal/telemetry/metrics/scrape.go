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

// Backlog is what waits in the installation, by the database.
type Backlog struct {
	Approvals      map[string]int64 // that wait for a person, by tenant; of the tenants beyond those asked for under ""
	OldestApproval time.Duration    // 0: none waits
	Queued         int64            // turns that wait for their session
	Running        int64            // turns that work
	Waiting        int64            // turns that hold their session and wait for a person
	OldestQueued   time.Duration    // 0: none waits
	LongestQueue   int64            // turns that wait for one session
}

// TenantSpending is the usage of a tenant today and this month (UTC).
type TenantSpending struct {
	Tenant                string
	DayUSD, DayTokens     float64
	MonthUSD, MonthTokens float64
}

// Queue is one of the two queues of tasks that workers poll.
type Queue struct {
	Kind    string // workflow, activity
	Backlog int64
	Age     time.Duration // of the oldest task
	Pollers int
}

// Connections is the state of the database pool.
type Connections struct {
	Used, Idle, Max int32
	Waits           int64 // since the start: connections that were waited for
}

// Sources are asked when Prometheus scrapes. Each may be nil, and each stops when its context ends.
type Sources struct {
	Backlog     func(ctx context.Context, tenants int) (Backlog, error)
	Spending    func(ctx context.Context) ([]TenantSpending, error)
	Budget      func(tenant string) agent.Bound // of a tenant; its budgets alone are looked at
	Queues      func(ctx context.Context) ([]Queue, error)
	Connections func() Connections
	Logger      *zap.Logger // of errors; nil: silent
}

// Names of sources.
const (
	sourceTurns   = "turns"
	sourceBudgets = "budgets"
	sourceQueues  = "queues"
)

// Watch registers the metrics of sources. It may be called once.
func (m *Metrics) Watch(to prometheus.Registerer, s Sources) error {
	c := newScraper(s, m.tenants.limit)
	for _, one := range []prometheus.Collector{c, c.errors, c.took} {
		if err := to.Register(one); err != nil {
			return fmt.Errorf("register metrics of the installation: %w", err)
		}
	}
	return nil
}

// scraper asks the sources when it is collected, and keeps their answers for a while.
type scraper struct {
	Sources

	desc    descriptions
	tenants int
	errors  *prometheus.CounterVec
	took    *prometheus.GaugeVec
	sources []*source
}

// source is a source with its last answer. It is asked one question at a time.
type source struct {
	name string
	ask  func(ctx context.Context) ([]prometheus.Metric, error)

	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
	ok   bool
}

func newScraper(s Sources, tenants int) *scraper {
	if s.Logger == nil {
		s.Logger = zap.NewNop()
	}
	c := &scraper{
		Sources: s, desc: newDescriptions(), tenants: tenants,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "telemetry_collect_errors_total", Help: "Questions for metrics without an answer, by source: turns and budgets (database), queues (Temporal).",
		}, []string{"source"}),
		took: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "telemetry_collect_seconds", Help: "Time of the last question for metrics, by source.",
		}, []string{"source"}),
	}
	add := func(name string, has bool, ask func(context.Context) ([]prometheus.Metric, error)) {
		if has {
			c.errors.WithLabelValues(name)
			c.sources = append(c.sources, &source{name: name, ask: ask})
		}
	}
	add(sourceTurns, s.Backlog != nil, c.backlog)
	add(sourceBudgets, s.Spending != nil && s.Budget != nil, c.budgets)
	add(sourceQueues, s.Queues != nil, c.queues)
	return c
}

// Describe satisfies [prometheus.Collector].
func (c *scraper) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.desc.all() {
		to <- d
	}
}

// Collect asks all sources at once. It takes little longer than sourceTimeout, because they stop with their contexts.
func (c *scraper) Collect(to chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, p := range c.sources {
		all.Go(func() {
			metrics, ok := c.readSource(p)
			to <- gauge(c.desc.up, gaugeValue(ok), p.name)
			for _, one := range metrics {
				to <- one
			}
		})
	}
	if c.Connections != nil {
		s := c.Connections()
		to <- gauge(c.desc.connections, float64(s.Used), "used")
		to <- gauge(c.desc.connections, float64(s.Idle), "idle")
		to <- gauge(c.desc.connections, float64(s.Max), "max")
		to <- prometheus.MustNewConstMetric(c.desc.waits, prometheus.CounterValue, float64(s.Waits))
	}
	all.Wait()
}

// readSource returns the answer of a source, at most answerLifetime old. It drops older answers, because a stale gauge misleads.
func (c *scraper) readSource(p *source) ([]prometheus.Metric, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < answerLifetime {
		return p.last, p.ok
	}
	since := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
	defer cancel()
	answer, err := p.ask(ctx)
	p.at, p.last, p.ok = time.Now(), answer, err == nil
	c.took.WithLabelValues(p.name).Set(p.at.Sub(since).Seconds())
	if err != nil {
		c.errors.WithLabelValues(p.name).Inc()
		c.Logger.Warn("metrics are incomplete", zap.String("source", p.name), zap.Error(err))
	}
	return p.last, p.ok
}

func gaugeValue(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
