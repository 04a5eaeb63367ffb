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

// deadConn is a connection whose other side vanishes without a word: what is written is lost, and nothing comes.
type deadConn struct {
	net.Conn
	mu     sync.Mutex
	dead   bool
	asked  chan struct{} // one signal per write after death
	closed func()
}

func (c *deadConn) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *deadConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		return c.Conn.Write(p)
	}
	c.asked <- struct{}{}
	return len(p), nil
}

func (c *deadConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func TestListenerReplacesADeadConnection(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(postgrestest.NewEmpty(t))
	require.NoError(t, err)
	dialled, closed := make(chan *deadConn, 10), make(chan struct{}, 10)
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		dead := &deadConn{Conn: conn, asked: make(chan struct{}, 100), closed: func() { closed <- struct{}{} }}
		dialled <- dead
		return dead, err
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
	first.die()
	<-first.asked // it was silent, and so it is asked
	<-woken       // and does not answer, and so another one listens
	<-closed
	second := <-dialled
	require.NotSame(t, first, second)
	_, err = pool.Exec(t.Context(), `NOTIFY turnstone_catalog`)
	require.NoError(t, err)
	<-woken
	cancel()
	<-done
}
