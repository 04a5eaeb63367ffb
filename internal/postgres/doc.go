// Package postgres keeps Turnstone's state in PostgreSQL. [Open] connects, [Migrate] brings the schema up to date, and [NewStore] returns a
// store for each feature: [TurnStore], [StepStore], [SessionStore] and so on, all of them in [Store]. The statements of a feature are in
// its files.
//
// Only [TurnStore.Begin] and [TurnStore.Finish] change the state of a turn:
//
//	             session free                              Finish
//	Begin ───────────────────────────▶ running ───────────────────────────▶ completed, failed, cancelled
//	  │                                   ▲                                            ▲
//	  │ session held                      │ the holder before it finishes              │
//	  └────────────────────▶ queued ──────┴───────────── Finish (cancelled waiting) ───┘
//
// A queued turn is running as soon as it gets the session. Its input enters the transcript when it begins again, so that its cursor is
// after the messages of the turn before it.
//
// Rows are locked in the same order everywhere: session, turn, the turn's place among the admitted, event stream; sums of the ledger last,
// by their keys. In the catalog the head is locked first. A transaction that reads before it writes is two batches, and so two round trips:
// the first begins it and reads under lock, Go decides, the second writes and commits.
package postgres
