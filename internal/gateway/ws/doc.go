// Package ws is the WebSocket door, GET /v1/ws: the requests and events of the REST API as JSON frames on one connection
// (docs/reference/websocket.md). It has no agent logic: each frame is a call of [gateway.Call].
//
//	client ── read.go ── frames.go ── calls.go ── gateway.Call
//	   │                                │
//	   └──── socket.go (one writer) ── follow.go
//
// A socket has a reader, a writer, a pinger, one goroutine for each follow and one for each request in flight. Their number is bounded, and all send
// their frames through one bounded queue. So a client that reads slowly delays only its own follows, and a client that stops reading is disconnected
// after WriteTimeout of [gateway.Limits]. Nothing is lost with a socket: turns go on, and a client follows them again from the last event it has.
//
// A socket is closed gracefully when the gateway shuts down, when its maximum age is reached, or when the client breaks the rules: every follow ends
// with an error frame after a whole event, requests in flight are answered, and a close frame gives the reason. When the client has disconnected,
// the socket ends immediately.
//
// github.com/coder/websocket is used because it works with handlers and contexts of net/http, allows writes from several goroutines, needs only two
// small buffers per connection, and implements the close handshake correctly. golang.org/x/net/websocket is frozen and has no pings;
// gorilla/websocket requires the caller to lock reads and writes.
package ws
