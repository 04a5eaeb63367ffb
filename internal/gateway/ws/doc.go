// Package ws is the WebSocket door, GET /v1/ws: the requests and events of the REST API as JSON frames on one connection
// (docs/reference/websocket.md). It holds no agent logic: whatever a frame asks for is a call of [gateway.Call].
//
//	client ── read.go ── frames.go ── calls.go ── gateway.Call
//	   │                                │
//	   └──── socket.go (one writer) ── follow.go
//
// A socket is a reader, a writer, a pinger, one goroutine for each follow and one for each request in flight, all bounded. They meet in one
// queue of bounded length, in order: a client that reads slowly stalls its own follows and nobody else's, and one that stops reading is
// disconnected after [gateway.Limits] WriteTimeout. Nothing is lost with a socket: events are followed by index, and turns go on.
//
// A socket ends in one of two ways. Gently, when the gateway closes, when it has been open for long enough, or when the client breaks the
// rules: every follow ends behind a whole event with an error frame, requests in flight are answered, and a close frame says why. Or at
// once, when the client is gone.
//
// github.com/coder/websocket is used because it is net/http all through (a handler, contexts, no callbacks), writes from several
// goroutines, bounds its memory to two small buffers per connection, and has the close handshake right. golang.org/x/net/websocket is
// frozen and knows no pings; gorilla/websocket wants its reads and writes locked by hand.
package ws
