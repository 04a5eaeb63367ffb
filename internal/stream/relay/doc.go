// Package relay sends the events of streams from the process that owns them to processes that follow them, before they are stored. Each pair
// of processes has one gRPC stream. Its frames contain the new events of all followed streams, one frame every 10 ms or so.
//
//	owner                                                                             follower
//	Source ◀── Server ◀── follow {number, stream, after} ──────────────────────────── Client ◀── Follow
//	  │ moved    │                                                                      ▲
//	  └─────────▶└─ every 10 ms: pieces {number, events, closed or gone} ───────────────┘──▶ receive
//
// The server keeps no events: it reads them from the source when it sends. If a follower is too slow, the source no longer has its events, and
// the follower gets gone. Nothing depends on the relay: events that it does not deliver are read from the database.
//
// A server has a self-signed certificate and a token. A client with both, as a [Peer], may follow every stream.
package relay
