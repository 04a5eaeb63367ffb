package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// scriptedSources are sources with fixed answers.
type scriptedSources struct {
	asked atomic.Int64
	fails atomic.Bool
	hangs atomic.Bool // Backlog returns when its context ends
}

func (s *scriptedSources) sources() Sources {
	return Sources{
		Backlog: func(ctx context.Context, _ int) (Backlog, error) {
			s.asked.Add(1)
			if s.hangs.Load() {
				<-ctx.Done()
				return Backlog{}, ctx.Err()
			}
			if s.fails.Load() {
				return Backlog{}, errors.New("the database is away")
			}
			return Backlog{
				Approvals: map[string]int64{"acme": 2, "": 3, "\xff": 1}, OldestApproval: time.Minute, Queued: 4, Running: 5, Waiting: 6,
				OldestQueued: time.Second, LongestQueue: 3,
			}, nil
		},
		Spending: func(context.Context) ([]TenantSpending, error) {
			return []TenantSpending{
				{"acme", 5, 10, 50, 100}, {"free", 5, 10, 50, 100}, {"tight", 9, 0, 0, 0},
			}, nil
		},
		Budget: func(tenant string) agent.Bound {
			switch tenant {
			case "acme":
				return agent.Bound{DailyCostUSD: 10, MonthlyTokens: 1000, RequestsPerMinute: 1}
			case "tight":
				return agent.Bound{DailyCostUSD: 10, DailyTokens: 10, MonthlyCostUSD: 10}
			default:
				return agent.Bound{}
			}
		},
		Queues: func(context.Context) ([]Queue, error) {
			return []Queue{{"workflow", 7, 2 * time.Second, 1}, {"activity", 0, -time.Second, 0}}, nil
		},
		Connections: func() Connections { return Connections{Used: 1, Idle: 2, Max: 10, Waits: 9} },
	}
}

func registerScraper(t *testing.T, s Sources, tenants int) (*scraper, *prometheus.Registry) {
	t.Helper()
	to := prometheus.NewPedanticRegistry()
	c := newScraper(s, tenants)
	to.MustRegister(c, c.errors, c.duration)
	return c, to
}

// samples returns the samples of these metrics, by their names and labels.
func samples(t *testing.T, from prometheus.Gatherer, names ...string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, want := range names {
			if f.GetName() != want {
				continue
			}
			for _, m := range f.GetMetric() {
				key := want
				for _, l := range m.GetLabel() {
					key += " " + l.GetValue()
				}
				out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestScrape(t *testing.T) {
	w := &scriptedSources{}
	_, to := registerScraper(t, w.sources(), 200)
	require.Equal(t, map[string]float64{
		"approvals_pending acme": 2, "approvals_pending other": 4, "approvals_oldest_age_seconds": 60,
		"turns_active queued": 4, "turns_active running": 5, "turns_active waiting": 6, "turns_queued_oldest_age_seconds": 1, "turns_queue_longest": 3,
		"budget_used_ratio cost day acme": 0.5, "budget_used_ratio tokens month acme": 0.1,
		"budget_used_ratio cost day tight": 0.9, "budget_used_ratio tokens day tight": 0, "budget_used_ratio cost month tight": 0,
		"task_queue_backlog workflow": 7, "task_queue_backlog activity": 0,
		"task_queue_oldest_age_seconds workflow": 2, "task_queue_oldest_age_seconds activity": 0,
		"task_queue_pollers workflow": 1, "task_queue_pollers activity": 0,
		"database_connections used": 1, "database_connections idle": 2, "database_connections max": 10, "database_connection_waits_total": 9,
		"telemetry_source_up turns": 1, "telemetry_source_up budgets": 1, "telemetry_source_up queues": 1,
		"telemetry_collect_errors_total turns": 0, "telemetry_collect_errors_total budgets": 0, "telemetry_collect_errors_total queues": 0,
	}, samples(t, to, "approvals_pending", "approvals_oldest_age_seconds", "turns_active", "turns_queued_oldest_age_seconds", "turns_queue_longest",
		"budget_used_ratio", "task_queue_backlog", "task_queue_oldest_age_seconds", "task_queue_pollers", "database_connections",
		"database_connection_waits_total", "telemetry_source_up", "telemetry_collect_errors_total"))
}

func TestScrapeIsBounded(t *testing.T) {
	_, to := registerScraper(t, (&scriptedSources{}).sources(), 2)
	require.Equal(t, map[string]float64{"budget_used_ratio cost day acme": 0.5, "budget_used_ratio cost day tight": 0.9}, samples(t, to, "budget_used_ratio"),
		"the budgets that are used the most")
	_, to = registerScraper(t, (&scriptedSources{}).sources(), 0)
	require.Equal(t, map[string]float64{"approvals_pending other": 6}, samples(t, to, "approvals_pending"))
}

func TestAnswersAreKeptForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &scriptedSources{}
		_, to := registerScraper(t, w.sources(), 200)
		for range 3 {
			require.Len(t, samples(t, to, "turns_active"), 3)
		}
		require.EqualValues(t, 1, w.asked.Load())
		time.Sleep(answerLifetime)
		w.fails.Store(true)
		require.Empty(t, samples(t, to, "turns_active"), "without an answer there are no metrics")
		require.Len(t, samples(t, to, "task_queue_backlog"), 2, "of this source only")
		require.Equal(t, map[string]float64{
			"telemetry_source_up turns": 0, "telemetry_source_up budgets": 1, "telemetry_source_up queues": 1,
		}, samples(t, to, "telemetry_source_up"))
		require.EqualValues(t, 2, w.asked.Load(), "a failure is kept too")
		require.InEpsilon(t, 1, samples(t, to, "telemetry_collect_errors_total")["telemetry_collect_errors_total turns"], 0)
		time.Sleep(answerLifetime)
		w.fails.Store(false)
		require.Len(t, samples(t, to, "turns_active"), 3)
	})
}

// A source that hangs delays a scrape by sourceTimeout.
func TestScrapeOfAHangingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &scriptedSources{}
		w.hangs.Store(true)
		_, to := registerScraper(t, w.sources(), 200)
		for i := range 3 {
			since := time.Now()
			require.Empty(t, samples(t, to, "turns_active"))
			require.Equal(t, sourceTimeout, time.Since(since))
			require.InEpsilon(t, i+1, samples(t, to, "telemetry_collect_errors_total")["telemetry_collect_errors_total turns"], 0)
			time.Sleep(answerLifetime)
		}
		w.hangs.Store(false)
		require.Len(t, samples(t, to, "turns_active"), 3)
		require.EqualValues(t, 4, w.asked.Load())
	})
}

func TestScrapeOfNoSources(t *testing.T) {
	_, to := registerScraper(t, Sources{}, 200)
	families, err := to.Gather()
	require.NoError(t, err)
	require.Empty(t, families)
}
