// Package postgres keeps Turnstone's state in PostgreSQL: sessions and their queues, turns, steps, transcripts, results, the
// usage ledger, approvals, the catalog, knowledge collections, and who may come in:
// keys, the audit trail, admissions. [Open] connects, [Migrate] brings the schema up to date, [Store] does the rest; it
// satisfies the ports turns.TurnStore, catalog.Store and retrieval.Store without importing them.
//
// The life of a turn, which [Store.Begin] and [Store.Finish] alone move along:
//
//	             session free                              Finish
//	Begin ───────────────────────────▶ running ───────────────────────────▶ completed, failed, cancelled
//	  │                                   ▲                                            ▲
//	  │ session held                      │ the holder before it finishes              │
//	  └────────────────────▶ queued ──────┴───────────── Finish (cancelled waiting) ───┘
//
// A turn that comes from the queue is running from the moment it is handed the session, but its input enters the transcript
// only when it begins again, so that its cursor lies behind everything the turn before it said.
//
// Rows are locked in one order everywhere: session, turn, its place among the admitted, event stream; sums of the ledger last, by
// their keys; of the catalog the head first. A transaction that has to look before it writes is two batches and so two round trips: the
// first begins it and reads under lock, Go decides, the second writes and commits.
package postgres
