// Package metrics has the Prometheus metrics of this process (docs/reference/metrics.md). The catalog, the blob collection and the channels register
// further metrics themselves.
//
//	activities, direct turns ──agent.Observer──▶ Metrics ──┐
//	event log ────────────────pgstream.Watch───▶ Metrics ──┤
//	database, Temporal ◀─── queried by ────────── scraper ─┼──▶ prometheus.Registry ──▶ GET /metrics
//	Temporal SDK ────────client.MetricsHandler─▶ Temporal ─┘
//
// Every label is bounded. A label whose values others choose (tenants, agents, models, providers, tools) keeps the first MaxValues names. Later names
// count as "other", and in telemetry_label_overflow_total. Combinations of such labels are bounded too. The name of a tool becomes a label once the
// tool has run, because models make up names.
//
// The scraper queries a source at most every five seconds, for at most two seconds. Without an answer it leaves out the metrics of the source.
package metrics
