// Package pgstream is the event log on PostgreSQL: any process may write a stream and any process may follow it.
//
// The process that writes a stream owns it (live.go): it numbers the events and shows them from memory; one writer per process stores
// those of all its streams together (write.go). A stream without an owner is numbered by SQL functions (internal/postgres/migrations):
//
//	          Begin: turnstone_own                    Release, Stop, idle, asked by another process: the rest is stored
//	nobody's ──────────────────────▶ owned ────────────────────────────────────────────────────────────────────────────▶ nobody's
//	   ▲  Append: turnstone_append    │  Append: memory, then the writer
//	   └──────────────────────────────┘ taken by another process after two seconds without an answer: producers are fenced
//
// Followers in the owner's process read its memory. Others are woken and then read the table themselves:
//
//	                                one listening connection ─┐
//	Append, Begin, Close in this process ─────────────────────┼─▶ hub: stream → newest index known ──▶ follower: reads its own pages
//	a poll every 2 s, for what was missed ────────────────────┘
//
// Nothing is lost when a notification is: the poll asks once for all followed streams, and after the listening connection was
// away every follower reads again. Followers outlive a restart of the database. What a follower holds is one page.
package pgstream
