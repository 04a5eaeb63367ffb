//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// drillFailover kills PostgreSQL's primary while turns run, and promotes its synchronous standby. Workers know both addresses and look for the one that
// takes writes.
func drillFailover(t *testing.T, binary string, load int) {
	homes := [2]string{postgresHome(t), postgresHome(t)}
	primary := startPostgres(t, homes[0])
	standby := startStandby(t, primary, homes[1])
	s := newSite(t, binary, 2, func(c *siteConfig) { c.postgres, c.database = primary, eitherOf(t, primary, standby) })
	e := s.begin(load)
	e.awaitDone(load / 3)

	exited := primary.Exited()
	require.NoError(t, syscall.Kill(primary.Pid(), syscall.SIGKILL))
	<-exited
	began := time.Now()
	execute(t, standby.DSN(), "SELECT pg_promote()")
	promoted := time.Since(began)
	e.awaitDone(e.doneSoFar() + 1)
	resumed := time.Since(began)
	e.verify()
	t.Logf("failover: promoted after %s, the next turn ended after %s; %s", promoted.Round(time.Millisecond), resumed.Round(time.Millisecond), e)
}

// startStandby copies a server and starts the copy as its synchronous standby.
func startStandby(t *testing.T, primary *pgdev.Server, home string) *pgdev.Server {
	t.Helper()
	at, err := url.Parse(primary.DSN())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(home, 0o755))
	data := filepath.Join(home, "data")
	runProgram(t, postgresProgram(t, "pg_basebackup"), "--pgdata", data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast",
		"--host", at.Query().Get("host"), "--port", at.Query().Get("port"), "--username", at.User.Username())
	runProgram(t, "chown", "-R", "--reference", at.Query().Get("host"), data) // the user that runs the servers
	standby := startPostgres(t, home)
	execute(t, primary.DSN(), "ALTER SYSTEM SET synchronous_standby_names = '*'") // only now: the copy has no standby of its own
	execute(t, primary.DSN(), "SELECT pg_reload_conf()")
	conn, err := pgx.Connect(t.Context(), primary.DSN())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.Eventually(t, func() bool {
		var follows bool
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&follows)
		return err == nil && follows
	}, time.Minute, 20*time.Millisecond, "the standby follows")
	return standby
}

// eitherOf is the address of whichever of two servers takes writes.
func eitherOf(t *testing.T, a, b *pgdev.Server) string {
	t.Helper()
	first, err := url.Parse(a.DSN())
	require.NoError(t, err)
	second, err := url.Parse(b.DSN())
	require.NoError(t, err)
	q := first.Query()
	q.Set("host", q.Get("host")+","+second.Query().Get("host"))
	q.Set("port", q.Get("port")+","+second.Query().Get("port"))
	q.Set("target_session_attrs", "read-write")
	first.RawQuery = q.Encode()
	return first.String()
}

// drillClock has PostgreSQL's clock jump an hour forth and back, and behind, while turns run. The workers' clock stays: the two disagree. Go reads the clock
// without libc, so that faketime cannot move a worker's.
func drillClock(t *testing.T, binary string, load int) {
	clock := filepath.Join(filepath.Dir(postgresHome(t)), "clock")
	set := func(offset string) {
		require.NoError(t, os.WriteFile(clock+".new", []byte(offset+"\n"), 0o644))
		require.NoError(t, os.Rename(clock+".new", clock))
	}
	set("+0s")
	server := startPostgres(t, postgresHome(t), func(c *pgdev.Config) { c.BinDir = fakedPrograms(t, clock) })
	s := newSite(t, binary, 2, func(c *siteConfig) { c.postgres = server })
	s.jumps = true
	e := s.begin(load)
	offsets := []string{"+3600s", "+0s", "-3600s", "+90000s", "+0s"}
	for i, offset := range offsets {
		e.awaitDone((i + 1) * load / (len(offsets) + 1))
		set(offset)
		if offset != "+0s" {
			require.Eventually(t, func() bool { return s.clockDiffers() }, time.Minute, 50*time.Millisecond, "the clock jumps")
		}
	}
	e.verify()
	t.Logf("clock of PostgreSQL at %v; %s", offsets, e)
}

// clockDiffers reports whether PostgreSQL's clock is a quarter of an hour or more away from this process's.
func (s *site) clockDiffers() bool {
	var now time.Time
	conn, err := pgx.Connect(s.t.Context(), s.set.Database.URL.Reveal())
	if err != nil {
		return false
	}
	defer conn.Close(context.Background())
	err = conn.QueryRow(s.t.Context(), "SELECT clock_timestamp()").Scan(&now)
	return err == nil && time.Since(now).Abs() > 15*time.Minute
}

// fakedPrograms is a folder of PostgreSQL's programs whose server reads its clock from a file.
func fakedPrograms(t *testing.T, clock string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "drill-faketime-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NoError(t, err)
	require.NotEmpty(t, libraries, "this drill needs libfaketime: apt-get install faketime")
	script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 exec %s \"$@\"\n",
		libraries[0], clock, postgresProgram(t, "postgres"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "postgres"), []byte(script), 0o755))
	require.NoError(t, os.Symlink(postgresProgram(t, "initdb"), filepath.Join(folder, "initdb")))
	return folder
}

// postgresProgram is the path of one of PostgreSQL's programs, of the newest release that is installed.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	if len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err, "this drill needs PostgreSQL's programs: apt-get install postgresql")
	return path
}

func runProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, out)
}

// execute runs one statement on a connection of its own.
func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}
