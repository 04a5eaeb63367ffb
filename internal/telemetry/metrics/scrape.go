package metrics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	fresh    = 5 * time.Second // how long an answer serves
	patience = 2 * time.Second // for one source
)

// Backlog is what waits in the installation, as the database knows it.
type Backlog struct {
	Approvals      map[string]int64 // that wait for a person, by tenant; of the tenants beyond those asked for under ""
	OldestApproval time.Duration    // 0: none waits
	Queued         int64            // turns that wait for their session
	Running        int64            // turns that work
	Waiting        int64            // turns that hold their session and wait for a person
	OldestQueued   time.Duration    // 0: none waits
	LongestQueue   int64            // turns that wait for one session
}

// TenantSpending is what a tenant has used today and this month (UTC).
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

// Connections is how the pool of the database does.
type Connections struct {
	Used, Idle, Max int32
	Waits           int64 // since the start: connections that were waited for
}

// Sources are what is asked when Prometheus reads. Each may be nil, and each stops when its context ends.
type Sources struct {
	Backlog     func(ctx context.Context, tenants int) (Backlog, error)
	Spending    func(ctx context.Context) ([]TenantSpending, error)
	Budget      func(tenant string) agent.Bound // of a tenant; its budgets alone are looked at
	Queues      func(ctx context.Context) ([]Queue, error)
	Connections func() Connections
	Logger      *zap.Logger // nil: nobody is told why a source gave no answer
}

// The names of sources.
const (
	sourceTurns   = "turns"
	sourceBudgets = "budgets"
	sourceQueues  = "queues"
)

// Watch registers what is asked of sources. [Metrics.Watch] may be called once.
func (m *Metrics) Watch(to prometheus.Registerer, s Sources) error {
	c := newScraper(s, m.tenants.limit)
	for _, one := range []prometheus.Collector{c, c.errors, c.took} {
		if err := to.Register(one); err != nil {
			return fmt.Errorf("register metrics of the installation: %w", err)
		}
	}
	return nil
}

// scraper asks the sources when it is collected, and remembers their answers for a while.
type scraper struct {
	Sources

	desc    descriptions
	tenants int
	now     func() time.Time
	errors  *prometheus.CounterVec
	took    *prometheus.GaugeVec
	parts   []*part
}

// part is a source with what it last said. Of a source there is one question at a time, also of one that does not stop in time.
type part struct {
	name string
	ask  func(ctx context.Context) ([]prometheus.Metric, error)

	mu    sync.Mutex
	at    time.Time
	last  []prometheus.Metric
	ok    bool
	asked chan answer // not nil: it still owes an answer
}

type answer struct {
	metrics []prometheus.Metric
	err     error
}

var errSlow = errors.New("no answer in time")

func newScraper(s Sources, tenants int) *scraper {
	if s.Logger == nil {
		s.Logger = zap.NewNop()
	}
	c := &scraper{
		Sources: s, desc: newDescriptions(), tenants: tenants, now: time.Now,
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
			c.parts = append(c.parts, &part{name: name, ask: ask})
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

// Collect asks all sources at once. It takes no longer than the patience for one.
func (c *scraper) Collect(to chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, p := range c.parts {
		all.Go(func() {
			metrics, ok := c.read(p)
			to <- gauge(c.desc.up, truth(ok), p.name)
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

// read returns what the source says, or said a moment ago. What is older than that is nothing: a gauge that stands still lies.
func (c *scraper) read(p *part) ([]prometheus.Metric, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && c.now().Sub(p.at) < fresh {
		return p.last, p.ok
	}
	since := time.Now()
	a := c.await(p)
	p.at, p.last, p.ok = c.now(), a.metrics, a.err == nil
	c.took.WithLabelValues(p.name).Set(time.Since(since).Seconds())
	if a.err != nil {
		c.errors.WithLabelValues(p.name).Inc()
		c.Logger.Warn("metrics are incomplete", zap.String("source", p.name), zap.Error(a.err))
	}
	return p.last, p.ok
}

func (c *scraper) await(p *part) answer {
	select {
	case <-p.asked: // what it owed from before says how things were then
		p.asked = nil
	default:
	}
	if p.asked == nil {
		asked := make(chan answer, 1)
		p.asked = asked
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			metrics, err := p.ask(ctx)
			asked <- answer{metrics, err}
		}()
	}
	late := time.NewTimer(patience + patience/4)
	defer late.Stop()
	select {
	case a := <-p.asked:
		p.asked = nil
		return a
	case <-late.C:
		return answer{err: errSlow}
	}
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
