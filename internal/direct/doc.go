// Package direct runs turns in this process, without a workflow, for callers to whom the first token matters (docs/design/design.md, "The
// core"). It carries out the actions of the same core with the same use cases, and stores the same steps, epochs and events.
//
// A direct turn holds its session by a lease that its driver renews. When the turn has to wait, or its process stops, the driver hands it over:
// the workflow turn/<same id> continues from the driver's state.
//
//	ready ──▶ drive ── finish ──▶ stored
//	  │         │
//	  │ behind  │ approval, child turn, too long, trouble, shutdown
//	  ▼         ▼
//	 durable ◀── hand over
package direct
