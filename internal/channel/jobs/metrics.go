package jobs

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a bridge.
type metrics struct {
	taken      prometheus.Counter
	published  *prometheus.CounterVec
	duplicates prometheus.Counter
	dead       prometheus.Counter
	adopted    prometheus.Counter
	returned   prometheus.Counter
	inFlight   prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	newCounter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		taken: newCounter("jobs_taken_total", "Jobs that the bridge took from the queue."),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jobs_published_total", Help: "Results that the bridge published, by status: completed, failed.",
		}, []string{"status"}),
		duplicates: newCounter("jobs_duplicates_total", "Jobs that were dropped because their attempt had its result already."),
		dead:       newCounter("jobs_dead_total", "Messages that were not jobs."),
		adopted:    newCounter("jobs_adopted_total", "Jobs of dead bridges that the bridge gave back to the queue."),
		returned:   newCounter("jobs_returned_total", "Jobs that the bridge gave back when it stopped."),
		inFlight:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "jobs_in_flight", Help: "Jobs that the bridge holds, those that wait included."}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.taken, m.published, m.duplicates, m.dead, m.adopted, m.returned, m.inFlight} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of jobs: %w", err)
		}
	}
	return m, nil
}
