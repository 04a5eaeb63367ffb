// Package direct is the second driver of the pure core: a turn without Temporal, for callers to whom every hop counts (docs/design/design.md, "The core"). It
// carries out the same actions with the same use cases, in this process, and writes the same steps, epochs and events.
//
// A direct turn holds its session by a lease that its driver renews. Whatever would make it wait, or outlive its process, hands it over:
// the workflow turn/<same id> goes on with the state that the driver has come to.
//
//	ready ──▶ drive ── finish ──▶ stored
//	  │         │
//	  │ behind  │ approval, child turn, too long, trouble, shutdown
//	  ▼         ▼
//	 durable ◀── hand over
package direct
