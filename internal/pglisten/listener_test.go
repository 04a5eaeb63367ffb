package pglisten_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/pglisten"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// silentConn is a connection whose server can vanish without closing it. Then writes succeed, and nothing can be read.
type silentConn struct {
	net.Conn
	mu       sync.Mutex
	isSilent bool
	written  chan struct{} // receives a value for each write while the connection is silent
	onClose  func()
}

func (c *silentConn) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isSilent = true
}

func (c *silentConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isSilent {
		return c.Conn.Write(p)
	}
	c.written <- struct{}{}
	return len(p), nil
}

func (c *silentConn) Close() error {
	c.onClose()
	return c.Conn.Close()
}

func TestListenerReplacesSilentConnection(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(postgrestest.NewEmpty(t))
	require.NoError(t, err)
	dialled, closed := make(chan *silentConn, 10), make(chan struct{}, 10)
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		c := &silentConn{Conn: conn, written: make(chan struct{}, 100), onClose: func() { closed <- struct{}{} }}
		dialled <- c
		return c, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	ctx, cancel := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 10), make(chan struct{})
	l := &pglisten.Listener{
		Pool: pool, Channels: []string{"turnstone_catalog"}, Logger: zap.NewNop(), Quiet: 50 * time.Millisecond,
		Begin: func() { woken <- struct{}{} }, Notify: func(*pgconn.Notification) { woken <- struct{}{} },
	}
	go func() {
		defer close(done)
		l.Run(ctx, nil)
	}()
	<-woken
	first := <-dialled
	require.Empty(t, dialled)
	first.silence()
	<-first.written // the listener checks the connection
	<-woken         // and, as there is no answer, listens on another one
	<-closed
	second := <-dialled
	require.NotSame(t, first, second)
	_, err = pool.Exec(t.Context(), `NOTIFY turnstone_catalog`)
	require.NoError(t, err)
	<-woken
	cancel()
	<-done
}
