package results

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what a collector does. No metric has a label.
type metrics struct {
	collected prometheus.Counter
	bytes     prometheus.Counter
	adopted   prometheus.Counter
	failures  prometheus.Counter
	duration  prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	newCounter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		collected: newCounter("blobs_collected_total", "Stored content that this process removed because nothing referred to it."),
		bytes:     newCounter("blob_bytes_collected_total", "Uncompressed bytes of stored content that this process removed."),
		adopted:   newCounter("blobs_adopted_total", "Stored content that this process found in the bucket and nowhere else."),
		failures:  newCounter("blob_collection_failures_total", "Removals and runs of the collection that failed in this process."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "blob_collection_duration_seconds", Help: "Time of one run of the collection.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.collected, m.bytes, m.adopted, m.failures, m.duration)
	}
	return m
}

// addRun counts one run.
func (m *metrics) addRun(done *Collected, duration time.Duration, err error) {
	m.collected.Add(float64(done.Removed))
	m.bytes.Add(float64(done.Bytes))
	m.adopted.Add(float64(done.Adopted))
	m.failures.Add(float64(done.Failed))
	if err != nil {
		m.failures.Inc()
	}
	m.duration.Observe(duration.Seconds())
}
