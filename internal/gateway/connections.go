package gateway

import (
	"net"
	"net/http"
	"sync"
)

// idleConnections are the connections that have not sent a request yet. Browsers open such in advance, and http.Server.Shutdown would wait
// five seconds for each.
type idleConnections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// track implements http.Server.ConnState.
func (u *idleConnections) track(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.open[c] = struct{}{}
		return
	}
	delete(u.open, c)
}

// close closes them all; the server notices by itself.
func (u *idleConnections) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		_ = c.Close() // nobody has used it
	}
}
