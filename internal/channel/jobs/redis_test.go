package jobs_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnstone-run/turnstone/internal/redis"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// server is a real Redis of the test's own, on a socket in a folder of its own, that keeps what it acknowledged.
type server struct {
	t      testing.TB
	dir    string
	cmd    *exec.Cmd
	client *redis.Client
}

func startRedis(t testing.TB) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // a socket's path must be short
	require.NoError(t, err)
	s := &server{t: t, dir: dir}
	s.client = redis.New(*s.options())
	t.Cleanup(func() {
		require.NoError(t, s.client.Close())
		s.kill()
		require.NoError(t, os.RemoveAll(dir))
	})
	s.start()
	return s
}

func (s *server) options() *redis.Options {
	return &redis.Options{Network: "unix", Address: filepath.Join(s.dir, "s")}
}

func (s *server) start() {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	require.NoError(s.t, err, "these tests need a Redis server: apt-get install redis-server")
	s.cmd = exec.Command(path, "--port", "0", "--unixsocket", filepath.Join(s.dir, "s"), "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool { _, err := s.client.Do(context.Background(), "PING"); return err == nil }, 20*time.Second, 10*time.Millisecond)
}

// kill ends it as a crash does.
func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// wire makes connections that go wrong when they are told to.
type wire struct {
	mu     sync.Mutex
	gate   sync.RWMutex // held: nothing passes
	conns  []net.Conn
	dead   bool
	writes int

	at     int  // the write that goes wrong, from 1; 0: none
	sent   bool // it reaches the server, and only the answer is lost
	hiccup bool // one connection breaks, and others may be made; else it is the end of all
	wrong  chan struct{}
}

func newWire() *wire { return &wire{wrong: make(chan struct{})} }

// through puts the wire into a client's options.
func (w *wire) through(o *redis.Options) *redis.Options {
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dead {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		w.conns = append(w.conns, c)
		return &wiredConn{Conn: c, wire: w}, nil
	}
	return o
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// kill cuts all connections for good, as the death of the process does.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, c := range w.conns {
		_ = c.Close()
	}
}

type wiredConn struct {
	net.Conn

	wire *wire
}

func (c *wiredConn) Write(b []byte) (int, error) {
	w := c.wire
	w.gate.RLock()
	defer w.gate.RUnlock()
	w.mu.Lock()
	w.writes++
	now := w.writes == w.at
	w.mu.Unlock()
	if !now {
		return c.Conn.Write(b)
	}
	if w.sent {
		_, _ = c.Conn.Write(b)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Read(make([]byte, 1)) // the server has done it
	}
	_ = c.Close()
	if !w.hiccup {
		w.kill()
	}
	close(w.wrong)
	return 0, net.ErrClosed
}
