// Package relay hands the events of streams from the process that owns them to processes that follow them, before they are stored: one
// gRPC stream for each pair of processes, with what all followed streams have gathered in some 10 ms.
//
//	owner                                                                             follower
//	Source ◀── Server ◀── follow {number, stream, after} ──────────────────────────── Client ◀── Follow
//	  │ moved    │                                                                      ▲
//	  └─────────▶└─ every 10 ms: pieces {number, events, closed or gone} ───────────────┘──▶ receive
//
// The server keeps no events: it reads them from the source when it sends. A follower who cannot take them in time finds that the source
// has let go of them, and gets gone. Nothing depends on the relay: what it does not hand over is read from the database.
//
// A server has a certificate of its own making and a token. Whoever knows both, as a [Peer], may follow every stream.
package relay
