package notifications

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// connection is the SMTP connection of one delivery. It can be closed at any time.
type connection struct {
	tls *tls.Config // nil: the connection does not begin with TLS

	mu       sync.Mutex
	conn     net.Conn
	isClosed bool
}

// dial connects, and does the TLS handshake if the connection begins with TLS.
func (c *connection) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if c.tls != nil {
		secured := tls.Client(conn, c.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the handshake has failed
			return nil, err
		}
		conn = secured
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed { // while it was dialed
		_ = conn.Close()
		return nil, context.Canceled
	}
	c.conn = conn
	return conn, nil
}

// close closes the connection without completing the message that is being sent.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	if conn := c.conn; conn != nil {
		if secured, ok := conn.(*tls.Conn); ok {
			conn = secured.NetConn() // closing TLS could block
		}
		_ = conn.Close() // it may be closed already
	}
}
