// Package metrics is what Prometheus reads of this process (docs/reference/metrics.md), besides the metrics that the catalog, the blob collection and the
// channels register themselves:
//
//	activities, direct turns ──agent.Observer──▶ Metrics ──┐
//	event log ────────────────pgstream.Watch───▶ Metrics ──┤
//	database, Temporal ◀─asked when scraped────── scraper ─┼──▶ prometheus.Registry ──▶ GET /metrics
//	Temporal SDK ────────client.MetricsHandler─▶ Temporal ─┘
//
// No label can grow without bound. Labels whose values others choose (tenants, agents, models, providers, tools) keep the first MaxValues names;
// what comes later is counted as "other", and telemetry_label_overflow_total says that it happened. Combinations of such labels are bounded
// likewise. A tool's name becomes a label only once the tool was granted: models make names up.
//
// What is asked of others when scraped is asked at most every five seconds, within two seconds, and left out when there is no answer.
package metrics
