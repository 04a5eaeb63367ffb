package gateway

import (
	"net"
	"net/http"
	"sync"
)

// idleConnections are the connections that have not sent a request yet. Browsers open connections in advance, and http.Server.Shutdown would
// wait five seconds for each.
type idleConnections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// track implements http.Server.ConnState.
func (c *idleConnections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew {
		c.open[conn] = struct{}{}
		return
	}
	delete(c.open, conn)
}

func (c *idleConnections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
}
