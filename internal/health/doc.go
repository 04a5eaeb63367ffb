// Package health asks what a turn depends on, and says what is wrong and what to do about it.
//
// A [Board] holds probes. Each is asked on its own, at the same time as the others, within its own bound, by one caller for all: whoever
// comes while it is asked waits for that answer, and an answer holds for a moment. So a thousand readers cost a dependency what one costs,
// and a dependency that hangs costs a reader no more than its bound.
//
//	          ok ──────────┐
//	probe ──▶ degraded ────┤ turns run all the same       ──▶ board: the worst of all
//	          down ────────┘ no turn can run until it is back
//
// A probe knows what it asks through a small port: it opens nothing but what its doc says. Texts for people come in two kinds: the detail,
// which may hold addresses and words of others and is for those who run the system, and the hint, a constant of this package (hints.go) that
// anybody may read.
package health
