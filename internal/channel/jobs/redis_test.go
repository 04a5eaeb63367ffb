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

// server is a Redis server for one test. It writes each command to disk before it acknowledges it.
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

// kill ends the server as a crash does.
func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// dialer makes connections that fail when a test says so.
type dialer struct {
	blocked sync.RWMutex // while a test holds it, nothing is sent

	mu       sync.Mutex
	conns    []net.Conn
	isKilled bool
	writes   int

	failAt    int  // number of the write that fails, from 1; 0: none fails
	isSent    bool // whether the write that fails reaches the server, so that only the reply is lost
	mayRedial bool // whether new connections can be made after the failure
	failed    chan struct{}
}

func newDialer() *dialer { return &dialer{failed: make(chan struct{})} }

// dialFor makes a client's options use the dialer, and returns them.
func (d *dialer) dialFor(o *redis.Options) *redis.Options {
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.isKilled {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		d.conns = append(d.conns, c)
		return &dialedConn{Conn: c, dialer: d}, nil
	}
	return o
}

func (d *dialer) writeCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

// kill closes all connections and refuses new ones, as if the process had died.
func (d *dialer) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isKilled = true
	for _, c := range d.conns {
		_ = c.Close()
	}
}

type dialedConn struct {
	net.Conn

	dialer *dialer
}

func (c *dialedConn) Write(b []byte) (int, error) {
	d := c.dialer
	d.blocked.RLock()
	defer d.blocked.RUnlock()
	d.mu.Lock()
	d.writes++
	isFailure := d.writes == d.failAt
	d.mu.Unlock()
	if !isFailure {
		return c.Conn.Write(b)
	}
	if d.isSent {
		_, _ = c.Conn.Write(b)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Read(make([]byte, 1)) // wait until the server has run the command
	}
	_ = c.Close()
	if !d.mayRedial {
		d.kill()
	}
	close(d.failed)
	return 0, net.ErrClosed
}
