package pgdev_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// serverArg is the argument with which the test binary runs a server until a test kills it.
const serverArg = "run-a-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serverArg {
		runServer(os.Args[2])
	}
	os.Exit(m.Run())
}

// runServer starts a server in dir, or an ephemeral one if dir is "-", prints its pid and DSN, and waits.
func runServer(dir string) {
	cfg := pgdev.Config{DataDir: dir}
	if dir == "-" {
		cfg = pgdev.Config{Ephemeral: true}
	}
	server, err := pgdev.Start(context.Background(), cfg)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(server.Pid(), server.DSN())
	select {}
}

func TestKeptDataComesBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "a folder", "db") // Start creates the parents; the DSN has a space
	var progress []string
	cfg := pgdev.Config{DataDir: dir, Progress: func(text string) { progress = append(progress, text) }}

	first := start(t, cfg)
	require.Equal(t, []string{"initialising PostgreSQL (first run)…", "starting PostgreSQL…"}, progress)
	query(t, first, "CREATE TABLE thing AS SELECT 42 AS id")
	pid := first.Pid()
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, first.Stop(t.Context()), "stopping twice is harmless")
	requireGone(t, pid)
	require.Zero(t, first.Pid())
	require.ErrorIs(t, first.Resume(t.Context()), pgdev.ErrStopped)

	// A stale file has the pid of a process that is not PostgreSQL: this one.
	stale := filepath.Join(dir, "data", "postmaster.pid")
	require.NoError(t, os.WriteFile(stale, []byte(strconv.Itoa(os.Getpid())+"\n"+dir+"\n"), 0o644))
	progress = nil
	second := start(t, cfg)
	require.Equal(t, []string{"starting PostgreSQL…"}, progress)
	require.Equal(t, "42", query(t, second, "SELECT id::text FROM thing"))
	require.Equal(t, "on", query(t, second, "SHOW fsync"), "kept data is durable")
	require.Empty(t, query(t, second, "SHOW listen_addresses"), "no TCP port")

	_, err := pgdev.Start(t.Context(), pgdev.Config{DataDir: dir})
	require.ErrorIs(t, err, pgdev.ErrInUse)
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()), "the owner is named")
	require.Equal(t, "42", query(t, second, "SELECT id::text FROM thing"), "the server is not disturbed")
}

func TestSuspendResumeAndCrash(t *testing.T) {
	t.Parallel()
	server := start(t, pgdev.Config{Ephemeral: true})
	dsn := server.DSN()
	query(t, server, "CREATE TABLE thing AS SELECT 42 AS id")

	require.NoError(t, server.Suspend(t.Context()))
	require.Zero(t, server.Pid())
	_, err := pgx.Connect(t.Context(), dsn)
	require.Error(t, err)
	require.NoError(t, server.Resume(t.Context()))
	require.NoError(t, server.Resume(t.Context()), "resuming a running server does nothing")
	require.Equal(t, dsn, server.DSN())
	require.Equal(t, "42", query(t, server, "SELECT id::text FROM thing"))

	exited := server.Exited()
	require.NoError(t, syscall.Kill(server.Pid(), syscall.SIGKILL))
	select {
	case <-exited:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "a crash is not noticed")
	}
	require.NoError(t, server.Resume(t.Context()), "a crashed server recovers")
	require.Equal(t, "42", query(t, server, "SELECT id::text FROM thing"))
}

func TestServerDiesWithItsOwner(t *testing.T) {
	t.Parallel()
	t.Run("kept", func(t *testing.T) {
		dir := openDir(t)
		killOwner(t, dir)
		again := start(t, pgdev.Config{DataDir: dir})
		require.Equal(t, "1", query(t, again, "SELECT 1::text"), "the directory is free again")
	})
	t.Run("ephemeral", func(t *testing.T) {
		conf, err := pgx.ParseConfig(killOwner(t, "-"))
		require.NoError(t, err)
		abandoned := filepath.Dir(conf.Host)
		require.DirExists(t, abandoned)
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(abandoned, old, old))
		start(t, pgdev.Config{Ephemeral: true})
		require.NoDirExists(t, abandoned, "the next server removes it")
	})
}

// killOwner starts a server in another process, kills that process, waits until the server has ended, and returns its DSN.
func killOwner(t *testing.T, place string) string {
	t.Helper()
	owner := exec.CommandContext(t.Context(), os.Args[0], serverArg, place)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	first, dsn, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err, line)

	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())
	requireGone(t, pid)
	return dsn
}

// TestInterruptedFirstRunIsDoneAgain starts a server after two first runs that did not end: one that was killed, and one that was cancelled.
func TestInterruptedFirstRunIsDoneAgain(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data.new", "PG_VERSION"), []byte("9\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pgdev.Start(ctx, pgdev.Config{DataDir: dir, Progress: func(string) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)

	server := start(t, pgdev.Config{DataDir: dir})
	require.Equal(t, "1", query(t, server, "SELECT 1::text"))
	require.NoDirExists(t, filepath.Join(dir, "data.new"))
}

func TestLongPathGetsAShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), strings.Repeat("long", 30))
	server := start(t, pgdev.Config{DataDir: dir})
	require.Equal(t, "1", query(t, server, "SELECT 1::text"))
	require.NotContains(t, server.DSN(), "longlong")

	conf, err := pgx.ParseConfig(server.DSN())
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.NoDirExists(t, conf.Host, "the socket's folder goes with the server")
}

func TestRefusals(t *testing.T) {
	empty := openDir(t)
	foreign := openDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(foreign, "data", "precious"), 0o700))
	ancient := openDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(ancient, "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(ancient, "data", "PG_VERSION"), []byte("8\n"), 0o600))

	tests := map[string]struct {
		cfg  pgdev.Config
		is   error
		text string
	}{
		"no place":         {cfg: pgdev.Config{}, text: "data directory is required"},
		"two places":       {cfg: pgdev.Config{DataDir: empty, Ephemeral: true}, text: "ephemeral"},
		"no programs":      {cfg: pgdev.Config{Ephemeral: true, BinDir: empty}, is: pgdev.ErrNoBinaries, text: "apt-get install postgresql"},
		"foreign folder":   {cfg: pgdev.Config{DataDir: foreign}, text: "not a PostgreSQL cluster"},
		"older cluster":    {cfg: pgdev.Config{DataDir: ancient}, is: pgdev.ErrNoBinaries, text: "written by PostgreSQL 8"},
		"file as a folder": {cfg: pgdev.Config{DataDir: os.Args[0]}, text: os.Args[0]},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := pgdev.Start(t.Context(), test.cfg)
			require.Nil(t, server)
			require.ErrorContains(t, err, test.text)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
	require.DirExists(t, filepath.Join(foreign, "data", "precious"))
}

func TestCheckDirNamesTheClosedFolder(t *testing.T) {
	closed := filepath.Join(openDir(t), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	err := pgdev.CheckDir(filepath.Join(closed, "not", "yet", "there"))
	if os.Geteuid() != 0 {
		require.NoError(t, err, "an ordinary user's server runs as that user")
		return
	}
	require.ErrorContains(t, err, closed)
	require.NoError(t, pgdev.CheckDir(filepath.Dir(closed)))
	require.NoDirExists(t, filepath.Join(closed, "not"))
}

// openDir returns a temporary folder to which all users have access. They have none to the parent of t.TempDir.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgdev-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, cfg pgdev.Config) *pgdev.Server {
	t.Helper()
	server, err := pgdev.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// query runs a statement and returns the first column of its first row, or "" without a row.
func query(t *testing.T, server *pgdev.Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); !errors.Is(err, pgx.ErrNoRows) {
		require.NoError(t, err)
	}
	return answer
}

// requireGone waits until a process has ended or is a zombie.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		state, err := exec.CommandContext(context.Background(), "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
	}, 30*time.Second, 20*time.Millisecond, "process %d still runs", pid)
}
