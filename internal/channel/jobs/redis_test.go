package jobs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
