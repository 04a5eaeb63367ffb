// Package postgres keeps Turnstone's state in PostgreSQL. [Open] connects, [Migrate] brings the schema up to date, and [NewStore] returns a
// [Store] with a store for each feature: [TurnStore], [StepStore], [SessionStore] and so on. The SQL of a feature is next to its Go code.
//
// Only [TurnStore.Begin] and [TurnStore.Finish] change the state of a turn:
//
//	             session free                              Finish
//	Begin ───────────────────────────▶ running ───────────────────────────▶ completed, failed, cancelled
//	  │                                   ▲                                            ▲
//	  │ session held                      │ the holder before it finishes              │
//	  └────────────────────▶ queued ──────┴───────────── Finish (cancelled waiting) ───┘
//
// A queued turn is running as soon as it gets the session. Its input is appended to the transcript when it begins again, so that its cursor
// is after the messages of the turn before it.
//
// All transactions lock rows in the same order: session, turn, turn_places, event stream, and last the sums of the ledger by their keys. In
// the catalog they lock the head first. A transaction that writes what depends on what it has read takes two round trips: the first batch
// begins it and reads under lock; the second writes and commits.
package postgres
