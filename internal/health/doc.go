// Package health checks the dependencies of turns, and reports what is wrong and what to do about it.
//
// A [Board] holds probes. It calls them at the same time, each with its own timeout. All readers share one call, and its answer is valid for a
// moment. So a thousand readers cost a dependency as much as one, and a dependency that hangs delays a reader by its timeout at most.
//
//	          ok ──────────┐
//	probe ──▶ degraded ────┤ turns run anyway             ──▶ board: the worst of all
//	          down ────────┘ no turn can run until it is back
//
// A probe opens no connections except those in its doc comment. A finding has two texts: the detail is for operators and may hold addresses and
// error texts; the hint is a constant of this package (hints.go) that anybody may read.
package health
