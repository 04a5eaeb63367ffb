package notifications

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// connection is the SMTP connection of one delivery. It can be cut at any time.
type connection struct {
	tls *tls.Config // nil: no TLS, or STARTTLS

	mu    sync.Mutex
	conn  net.Conn
	isCut bool
}

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
	if c.isCut {
		_ = conn.Close() // it was cut while it was dialed
		return nil, context.Canceled
	}
	c.conn = conn
	return conn, nil
}

// cut closes the connection without completing what is being sent.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	if conn := c.conn; conn != nil {
		if secured, ok := conn.(*tls.Conn); ok {
			conn = secured.NetConn() // closing TLS could block
		}
		_ = conn.Close() // it may be closed already
	}
}
