package gateway

import (
	"net"
	"net/http"
	"sync"
)

// unusedConns knows the connections that have not sent a request yet. Browsers open such in advance, and http.Server.Shutdown
// would wait five seconds for each to make up its mind.
type unusedConns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// note is an http.Server.ConnState.
func (u *unusedConns) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.open[c] = struct{}{}
		return
	}
	delete(u.open, c)
}

// close closes them all; the server notices by itself.
func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		_ = c.Close() // nobody has used it
	}
}
