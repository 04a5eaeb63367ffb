package metrics

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// descriptions are the metrics of the scraper. All but connections and waits are about the whole installation. Every process reports the same values,
// so a query takes their maximum and not their sum.
type descriptions struct {
	sourceUp                                *prometheus.Desc
	approvals, oldestApproval               *prometheus.Desc
	activeTurns, oldestQueued, longestQueue *prometheus.Desc
	budgetUsed                              *prometheus.Desc
	taskBacklog, oldestTask, taskPollers    *prometheus.Desc
	connections, connectionWaits            *prometheus.Desc
}

func newDescriptions() descriptions {
	return descriptions{
		sourceUp: describe("telemetry_source_up", "Whether a source of metrics answered when it was last asked: 1 or 0.", "source"),

		approvals:      describe("approvals_pending", "Approvals that wait for a person in the whole installation, by tenant.", "tenant"),
		oldestApproval: describe("approvals_oldest_age_seconds", "How long the oldest approval of the whole installation has waited; 0: none waits."),
		activeTurns: describe("turns_active",
			"Turns of the whole installation that have not ended, by state: queued for their session, running, waiting for a person.", "state"),
		oldestQueued: describe("turns_queued_oldest_age_seconds",
			"How long the oldest turn of the whole installation has waited for its session; 0: none waits."),
		longestQueue: describe("turns_queue_longest", "Turns that wait for one session, of the session with the most."),
		budgetUsed: describe("budget_used_ratio",
			"What a tenant has used of a budget (cost, tokens) of a period (day, month, UTC), 1: all of it. The tenants that have used the most.",
			"tenant", "budget", "period"),
		taskBacklog: describe("task_queue_backlog", "Tasks that wait in the worker's task queue at Temporal, by kind: workflow, activity.", "kind"),
		oldestTask:  describe("task_queue_oldest_age_seconds", "How long the oldest task has waited in the task queue, by kind; 0: none waits.", "kind"),
		taskPollers: describe("task_queue_pollers", "Workers that polled the task queue within two minutes, by kind.", "kind"),

		connections:     describe("database_connections", "Connections of this process to the database: used, idle, and how many there may be (max).", "state"),
		connectionWaits: describe("database_connection_waits_total", "Times that this process had to wait for a connection to the database."),
	}
}

func (d *descriptions) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.sourceUp, d.approvals, d.oldestApproval, d.activeTurns, d.oldestQueued, d.longestQueue, d.budgetUsed,
		d.taskBacklog, d.oldestTask, d.taskPollers, d.connections, d.connectionWaits,
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// readBacklog returns the metrics of [Sources].Backlog.
func (c *scraper) readBacklog(ctx context.Context) ([]prometheus.Metric, error) {
	s, err := c.Backlog(ctx, c.maxTenants)
	if err != nil {
		return nil, err
	}
	out := []prometheus.Metric{
		gauge(c.desc.oldestApproval, s.OldestApproval.Seconds()),
		gauge(c.desc.oldestQueued, s.OldestQueued.Seconds()),
		gauge(c.desc.longestQueue, float64(s.LongestQueue)),
		gauge(c.desc.activeTurns, float64(s.Queued), "queued"),
		gauge(c.desc.activeTurns, float64(s.Running), "running"),
		gauge(c.desc.activeTurns, float64(s.Waiting), "waiting"),
	}
	var others int64
	named := 0
	for tenant, pending := range s.Approvals {
		if named >= c.maxTenants || !isValidLabel(tenant) || tenant == other {
			others += pending
			continue
		}
		named++
		out = append(out, gauge(c.desc.approvals, float64(pending), tenant))
	}
	return append(out, gauge(c.desc.approvals, float64(others), other)), nil // also if it is 0
}

type budgetUse struct {
	tenant, budget, period string
	ratio                  float64
}

// readBudgets returns the budgets that are used the most.
func (c *scraper) readBudgets(ctx context.Context) ([]prometheus.Metric, error) {
	tenants, err := c.Spending(ctx)
	if err != nil {
		return nil, err
	}
	var all []budgetUse
	for _, t := range tenants {
		b := c.Budget(t.Tenant)
		for _, use := range []struct {
			budget, period string
			used, limit    float64
		}{
			{"cost", "day", t.DayUSD, b.DailyCostUSD},
			{"cost", "month", t.MonthUSD, b.MonthlyCostUSD},
			{"tokens", "day", t.DayTokens, float64(b.DailyTokens)},
			{"tokens", "month", t.MonthTokens, float64(b.MonthlyTokens)},
		} {
			if use.limit > 0 && isValidLabel(t.Tenant) {
				all = append(all, budgetUse{t.Tenant, use.budget, use.period, use.used / use.limit})
			}
		}
	}
	slices.SortFunc(all, func(a, b budgetUse) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(a.tenant, b.tenant))
	})
	var out []prometheus.Metric
	for _, u := range all[:min(len(all), c.maxTenants)] {
		out = append(out, gauge(c.desc.budgetUsed, u.ratio, u.tenant, u.budget, u.period))
	}
	return out, nil
}

// readQueues returns the metrics of [Sources].Queues.
func (c *scraper) readQueues(ctx context.Context) ([]prometheus.Metric, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out []prometheus.Metric
	for _, q := range queues {
		out = append(out, gauge(c.desc.taskBacklog, float64(q.Backlog), q.Kind), gauge(c.desc.oldestTask, max(q.Age.Seconds(), 0), q.Kind),
			gauge(c.desc.taskPollers, float64(q.Pollers), q.Kind))
	}
	return out, nil
}
