package notify

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// line is the connection of one delivery, which can be cut.
type line struct {
	tls *tls.Config // nil: plain, or secured later

	mu     sync.Mutex
	conn   net.Conn
	isOver bool
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if l.tls != nil {
		secured := tls.Client(conn, l.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // it was of no use
			return nil, err
		}
		conn = secured
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver {
		_ = conn.Close() // as above
		return nil, context.Canceled
	}
	l.conn = conn
	return conn, nil
}

// cut closes the connection under whatever is being said.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOver = true
	if c := l.conn; c != nil {
		if secured, ok := c.(*tls.Conn); ok {
			c = secured.NetConn() // no goodbye that could wait
		}
		_ = c.Close() // it may be closed already
	}
}
