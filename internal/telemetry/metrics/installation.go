package metrics

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// descriptions are of the metrics of the whole installation. Every process reports the same, so a query takes the max of them, never the sum.
// Connections and waits are of the process.
type descriptions struct {
	up                      *prometheus.Desc
	approvals, oldest       *prometheus.Desc
	active, queued, longest *prometheus.Desc
	budget                  *prometheus.Desc
	backlog, age, pollers   *prometheus.Desc
	connections, waits      *prometheus.Desc
}

func newDescriptions() descriptions {
	return descriptions{
		up: describe("telemetry_source_up", "Whether a source of metrics answered when it was last asked: 1 or 0.", "source"),

		approvals: describe("approvals_pending", "Approvals that wait for a person in the whole installation, by tenant.", "tenant"),
		oldest:    describe("approvals_oldest_age_seconds", "How long the oldest approval of the whole installation has waited; 0: none waits."),
		active: describe("turns_active",
			"Turns of the whole installation that have not ended, by state: queued for their session, running, waiting for a person.", "state"),
		queued: describe("turns_queued_oldest_age_seconds",
			"How long the oldest turn of the whole installation has waited for its session; 0: none waits."),
		longest: describe("turns_queue_longest", "Turns that wait for one session, of the session with the most."),
		budget: describe("budget_used_ratio",
			"What a tenant has used of a budget (cost, tokens) of a period (day, month, UTC), 1: all of it. The tenants that have used the most.",
			"tenant", "budget", "period"),
		backlog: describe("task_queue_backlog", "Tasks that wait in the worker's task queue at Temporal, by kind: workflow, activity.", "kind"),
		age:     describe("task_queue_oldest_age_seconds", "How long the oldest task has waited in the task queue, by kind; 0: none waits.", "kind"),
		pollers: describe("task_queue_pollers", "Workers that polled the task queue within two minutes, by kind.", "kind"),

		connections: describe("database_connections", "Connections of this process to the database: used, idle, and how many there may be (max).", "state"),
		waits:       describe("database_connection_waits_total", "Times that this process had to wait for a connection to the database."),
	}
}

func (d *descriptions) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.up, d.approvals, d.oldest, d.active, d.queued, d.longest, d.budget, d.backlog, d.age, d.pollers, d.connections, d.waits,
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (c *scraper) backlog(ctx context.Context) ([]prometheus.Metric, error) {
	s, err := c.Backlog(ctx, c.tenants)
	if err != nil {
		return nil, err
	}
	out := []prometheus.Metric{
		gauge(c.desc.oldest, s.OldestApproval.Seconds()), gauge(c.desc.queued, s.OldestQueued.Seconds()), gauge(c.desc.longest, float64(s.LongestQueue)),
		gauge(c.desc.active, float64(s.Queued), "queued"), gauge(c.desc.active, float64(s.Running), "running"), gauge(c.desc.active, float64(s.Waiting), "waiting"),
	}
	var (
		rest  int64
		named int
	)
	for tenant, pending := range s.Approvals {
		if named >= c.tenants || !isValidLabel(tenant) || tenant == other {
			rest += pending
			continue
		}
		named++
		out = append(out, gauge(c.desc.approvals, float64(pending), tenant))
	}
	return append(out, gauge(c.desc.approvals, float64(rest), other)), nil // also 0, which a panel shows
}

type budgetUse struct {
	tenant, budget, period string
	ratio                  float64
}

func (c *scraper) budgets(ctx context.Context) ([]prometheus.Metric, error) {
	tenants, err := c.Spending(ctx)
	if err != nil {
		return nil, err
	}
	var all []budgetUse
	for _, t := range tenants {
		b := c.Budget(t.Tenant)
		for _, one := range []struct {
			budget, period string
			used, limit    float64
		}{
			{"cost", "day", t.DayUSD, b.DailyCostUSD},
			{"cost", "month", t.MonthUSD, b.MonthlyCostUSD},
			{"tokens", "day", t.DayTokens, float64(b.DailyTokens)},
			{"tokens", "month", t.MonthTokens, float64(b.MonthlyTokens)},
		} {
			if one.limit > 0 && isValidLabel(t.Tenant) {
				all = append(all, budgetUse{t.Tenant, one.budget, one.period, one.used / one.limit})
			}
		}
	}
	slices.SortFunc(all, func(a, b budgetUse) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(a.tenant, b.tenant))
	})
	var out []prometheus.Metric
	for _, u := range all[:min(len(all), c.tenants)] {
		out = append(out, gauge(c.desc.budget, u.ratio, u.tenant, u.budget, u.period))
	}
	return out, nil
}

func (c *scraper) queues(ctx context.Context) ([]prometheus.Metric, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out []prometheus.Metric
	for _, q := range queues {
		out = append(out, gauge(c.desc.backlog, float64(q.Backlog), q.Kind), gauge(c.desc.age, max(q.Age, 0*time.Second).Seconds(), q.Kind),
			gauge(c.desc.pollers, float64(q.Pollers), q.Kind))
	}
	return out, nil
}
