package jobs

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a bridge. Users choose no label values.
type metrics struct {
	taken      prometheus.Counter
	published  *prometheus.CounterVec
	duplicates prometheus.Counter
	dead       prometheus.Counter
	adopted    prometheus.Counter
	returned   prometheus.Counter
	inFlight   prometheus.Gauge
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		taken: count("jobs_taken_total", "Jobs that the bridge took from the queue."),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jobs_published_total", Help: "Results that the bridge published, by status: completed, failed.",
		}, []string{"status"}),
		duplicates: count("jobs_duplicates_total", "Jobs that were dropped because their attempt had its result already."),
		dead:       count("jobs_dead_total", "Messages that were no jobs."),
		adopted:    count("jobs_adopted_total", "Jobs of dead bridges that the bridge gave back to the queue."),
		returned:   count("jobs_returned_total", "Jobs that the bridge gave back when it left."),
		inFlight:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "jobs_in_flight", Help: "Jobs that the bridge holds, those that wait included."}),
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.taken, m.published, m.duplicates, m.dead, m.adopted, m.returned, m.inFlight} {
		if err := to.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of jobs: %w", err)
		}
	}
	return m, nil
}
