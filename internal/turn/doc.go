// Package turn is the pure core of an agent turn: it decides what happens next and does nothing itself. The workflow and the
// direct driver both run it (docs/design/design.md, "The core"), so there is exactly one agent loop.
//
//	    ┌──────────────────────────────────────────────┐
//	    ▼                                              │ AfterTools
//	[model] ── AfterModel, calls ──▶ [tools] ── gated? ─┴─▶ Await ── AfterDecision ─▶ [tools]
//	    │                               │
//	    │ no calls, jump end            │ limit, cancel, failure
//	    ▼                               ▼
//	  Finish ◀──────────────────────── Finish
//
// A [State] is a value: every After method returns the next one. It holds references, counters and verdicts, never content, and
// slices, never maps, so that its JSON is the same each time; it is what continue-as-new carries. The package imports the
// vocabulary alone: no clock, no JSON, no I/O. [State.Version] records the core a turn began with; when a rule changes in a way
// that would alter the decisions of a recorded history, the old rule stays under the old version.
package turn
