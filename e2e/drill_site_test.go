//go:build unix

package e2e_test

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// site is an installation whose parts are processes that a drill kills, freezes and restarts. Only the model's provider and the outside world
// that tools act on live in the test.
type site struct {
	*bench

	outside  *outside
	postgres *pgdev.Server
	temporal *process
	folder   string // of Temporal's database
	binary   string
	extra    []string // more variables of every worker
	jumps    bool     // PostgreSQL's clock is not to be trusted

	mu      sync.Mutex // guards workers
	workers []*process
}

// siteConfig says what of a site is not the default.
type siteConfig struct {
	postgres *pgdev.Server // nil: a throw-away server
	database string        // URL; empty: that of postgres
	binary   string        // of the worker
	env      []string      // of every worker
}

// newSite starts an installation with so many workers and waits until it is ready.
func newSite(t *testing.T, binary string, workers int, change ...func(*siteConfig)) *site {
	t.Helper()
	c := siteConfig{binary: binary}
	for _, f := range change {
		f(&c)
	}
	if c.postgres == nil {
		c.postgres = startPostgres(t, postgresHome(t))
	}
	if c.database == "" {
		c.database = c.postgres.DSN()
	}
	s := &site{postgres: c.postgres, binary: c.binary, extra: c.env, outside: newOutside(t), folder: filepath.Join(t.TempDir(), "temporal")}
	set := turnstonetest.Settings(t, s.outside.model, func(set *app.Config) { set.Database.URL = app.Secret(c.database) })
	set.Temporal.Address = freeAddr(t)
	s.bench = &bench{system: &system{t: t, set: set}, env: environment(set)}
	s.startTemporal()
	for range workers {
		s.addWorker()
	}
	for _, w := range s.workers {
		w.awaitReady()
	}
	s.client = s.workers[0].door
	return s
}

// postgresHome is a folder for a PostgreSQL server, which runs as another user where root runs the tests.
func postgresHome(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "drill-postgres-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	return filepath.Join(folder, "home")
}

// startPostgres starts a server that loses nothing when it is killed: the throw-away servers of other tests do.
func startPostgres(t testing.TB, home string, change ...func(*pgdev.Config)) *pgdev.Server {
	t.Helper()
	cfg := pgdev.Config{DataDir: home}
	for _, f := range change {
		f(&cfg)
	}
	server, err := pgdev.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
	})
	return server
}

// startTemporal starts the server, on what an earlier one kept, and waits until it answers.
func (s *site) startTemporal() {
	s.t.Helper()
	address := s.set.Temporal.Address
	_, port, err := net.SplitHostPort(address)
	require.NoError(s.t, err)
	self, err := os.Executable()
	require.NoError(s.t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{temporalFolder + "=" + s.folder, temporalPort + "=" + port, "HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	_, err = cmd.StdinPipe() // it ends with this process
	require.NoError(s.t, err)
	s.temporal = startProcess(s.t, "Temporal", cmd)
	require.Eventually(s.t, func() bool {
		c, err := temporalclient.Dial(temporalclient.Options{HostPort: address})
		if err == nil {
			c.Close()
		}
		return err == nil
	}, time.Minute, 50*time.Millisecond, "Temporal answers")
}

// dialTemporal connects to Temporal for as long as the test runs.
func (s *site) dialTemporal() temporalclient.Client {
	s.t.Helper()
	c, err := temporalclient.Dial(temporalclient.Options{HostPort: s.set.Temporal.Address})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func (s *site) addWorker() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, s.launch(s.binary, freeAddr(s.t), s.extra, s.outside.server.URL))
}

// killWorker kills a worker and launches one in its place.
func (s *site) killWorker(i int) { s.replaceWorker(i, syscall.SIGKILL) }

// replaceWorker ends a worker and launches one of the site's binary in its place, at the same address.
func (s *site) replaceWorker(i int, how syscall.Signal) {
	s.t.Helper()
	s.workers[i].end(how)
	next := s.launch(s.binary, s.workers[i].addr, s.extra, s.outside.server.URL)
	s.mu.Lock()
	s.workers[i] = next
	s.mu.Unlock()
}

// stopWorkers ends all workers, as for a restore.
func (s *site) stopWorkers() {
	s.t.Helper()
	for _, w := range s.workers {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range s.workers {
		<-w.exited
	}
}

func (s *site) freezeWorker(i int, how time.Duration) {
	s.t.Helper()
	s.workers[i].signal(syscall.SIGSTOP)
	time.Sleep(how) // the freeze itself
	s.workers[i].signal(syscall.SIGCONT)
}

// killPostgres kills the server without a last checkpoint and starts it again.
func (s *site) killPostgres() {
	s.t.Helper()
	exited := s.postgres.Exited()
	require.NoError(s.t, syscall.Kill(s.postgres.Pid(), syscall.SIGKILL))
	<-exited
	require.NoError(s.t, s.postgres.Resume(s.t.Context()))
}

func (s *site) killTemporal() {
	s.t.Helper()
	s.temporal.end(syscall.SIGKILL)
	s.startTemporal()
}

// anyDoor is the door of one of the workers, alive or not.
func (s *site) anyDoor() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[rand.IntN(len(s.workers))].door
}

// awaitIdle waits until Temporal has no open workflow of a type.
func (s *site) awaitIdle(kind string) {
	s.t.Helper()
	c := s.dialTemporal()
	query := "WorkflowType = '" + kind + "' AND ExecutionStatus = 'Running'"
	var open []string
	defer func() {
		if len(open) > 0 {
			s.t.Log("open workflows:", open)
		}
	}()
	require.Eventually(s.t, func() bool {
		page, err := c.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 20})
		open = nil
		for _, w := range page.GetExecutions() {
			open = append(open, w.GetExecution().GetWorkflowId())
		}
		return err == nil && len(open) == 0
	}, 2*time.Minute, 100*time.Millisecond, "workflows are still open")
}
