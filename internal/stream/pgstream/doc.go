// Package pgstream is the event log on PostgreSQL (DESIGN §4): any process may write a stream and any process may follow it.
//
// A write is one call of an SQL function (internal/postgres/migrations/002_events.sql), which locks the stream's row and writes. A
// notification with stream and index only follows. Readers are woken and then read the table themselves:
//
//	                   one listening connection ─┐
//	Append, Begin, Close in this process ────────┼─▶ hub: stream → newest index known ──▶ follower: reads its own pages
//	a poll every 2 s, for what was missed ───────┘
//
// Nothing is lost when a notification is: the poll asks once for all followed streams, and after the listening connection was
// away every follower reads again. Followers outlive a restart of the database. What a follower holds is one page.
package pgstream
