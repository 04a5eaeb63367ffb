package health_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func open(t *testing.T, dsn string, most int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: dsn, MaxConns: most})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func database(pool *pgxpool.Pool) *health.Database {
	return &health.Database{
		Row: func(ctx context.Context, sql string, dest ...any) error { return pool.QueryRow(ctx, sql).Scan(dest...) },
		Try: func(ctx context.Context, statements ...string) error {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		},
		Pool: func() (int, int) {
			stat := pool.Stat()
			return int(stat.AcquiredConns()), int(stat.MaxConns())
		},
	}
}

func TestDatabase(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	pool := open(t, dsn, 2)
	db := database(pool)

	r := ask(t, (&health.Database{Row: db.Row, Pool: db.Pool, Schema: 3}).Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "The tables are not there")

	require.NoError(t, postgres.Migrate(t.Context(), pool))
	db.Schema = postgres.SchemaVersion()
	r = ask(t, db.Probe())
	require.Equal(t, health.OK, r.State, r.Detail)
	require.Contains(t, r.Detail, "of 2 connections in use")
	require.Equal(t, health.OK, ask(t, db.ClockProbe()).State)

	db.Schema--
	r = ask(t, db.Probe())
	require.Equal(t, health.Degraded, r.State, "a rolling upgrade")
	require.Contains(t, r.Hint, "update this process")
	db.Schema += 2
	r = ask(t, db.Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "restart a worker")
	db.Schema--

	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	r = ask(t, db.Probe())
	require.Equal(t, health.OK, r.State, r.Detail)
	more, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer more.Release()
	r = ask(t, db.Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "database.max_conns")
}

func TestReadOnlyDatabase(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	pool := open(t, dsn, 2)
	_, err := pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	require.NoError(t, err)
	readOnly := database(open(t, dsn, 2))
	r := ask(t, readOnly.Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "default_transaction_read_only")
}

// A server whose disk is full reads, and refuses writes with 53100. The schema first in the path has a repeat that says so, and only then.
func TestDatabaseWhoseDiskIsFull(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	pool := open(t, dsn, 2)
	require.Equal(t, health.OK, ask(t, database(pool).Probe()).State)
	for _, sql := range []string{
		`CREATE SCHEMA full_disk`,
		`CREATE FUNCTION full_disk.repeat(text, int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
  IF current_setting('work_mem') <> '64kB' THEN RETURN 'not the probe'; END IF;
  RAISE EXCEPTION 'could not write to file "base/pgsql_tmp/pgsql_tmp1.0": No space left on device' USING ERRCODE = '53100';
END $$`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = full_disk, pg_catalog', current_database()); END $$`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	r := ask(t, database(open(t, dsn, 2)).Probe())
	require.Equal(t, health.Postgres, r.Name)
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "disk is full")
	require.Contains(t, r.Detail, "reads work, writes fail")
}

func TestDatabaseWithAnswersThatNoTestServerGives(t *testing.T) {
	row := func(standby bool, sessions, room int) func(context.Context, string, ...any) error {
		return func(_ context.Context, _ string, dest ...any) error {
			*dest[0].(*bool), *dest[1].(*bool), *dest[2].(*int), *dest[3].(*int), *dest[4].(*string) = standby, false, sessions, room, "18.1"
			return nil
		}
	}
	pool := func() (int, int) { return 1, 10 }
	r := ask(t, (&health.Database{Row: row(true, 1, 97), Pool: pool}).Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "standby")
	r = ask(t, (&health.Database{Row: row(false, 88, 97), Pool: pool}).Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "max_connections")
	require.Equal(t, health.OK, ask(t, (&health.Database{Row: row(false, 87, 97), Pool: pool}).Probe()).State)
	r = ask(t, (&health.Database{Row: row(false, 5, 97), Pool: func() (int, int) { return 10, 10 }}).Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "database.max_conns")
}

func TestClocksThatDiffer(t *testing.T) {
	for shift, want := range map[int]health.State{0: health.OK, 4: health.OK, -4: health.OK, 6: health.Degraded, -3600: health.Degraded} {
		pool := open(t, postgrestest.NewEmpty(t), 2)
		db := database(pool)
		row := db.Row
		db.Row = func(ctx context.Context, sql string, dest ...any) error {
			err := row(ctx, sql, dest...)
			*dest[0].(*float64) += float64(shift)
			return err
		}
		r := ask(t, db.ClockProbe())
		require.Equal(t, want, r.State, "%d: %s", shift, r.Detail)
	}
}

// Everything that a connection is refused for, for real.
func TestDatabaseThatCannotBeReached(t *testing.T) {
	server := postgrestest.Server(t)
	base, err := url.Parse(server.DSN())
	require.NoError(t, err)
	password := "pass" + "word-of-the-test"
	pool, err := pgxpool.New(t.Context(), server.DSN())
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE ROLE nobody_here NOLOGIN`)
	require.NoError(t, err)

	dial := func(dsn string) health.Reading {
		lazy, err := pgxpool.New(t.Context(), dsn)
		require.NoError(t, err)
		defer lazy.Close()
		return ask(t, database(lazy).Probe())
	}
	with := func(change func(*url.URL)) string {
		u := *base
		change(&u)
		return u.String()
	}
	refused := fmt.Sprintf("postgres://app:%s@127.0.0.1:%d/app?sslmode=disable", password, closedPort(t))
	for dsn, hint := range map[string]string{
		refused: "Nothing listens at that address",
		"postgres://app:" + password + "@nowhere.invalid/app":                          "cannot be resolved",
		with(func(u *url.URL) { u.Path = "/nothing_of_that_name" }):                    "There is no such database",
		with(func(u *url.URL) { u.User = url.UserPassword("nobody_here", password) }):  "refuses the credentials",
		with(func(u *url.URL) { u.User = url.UserPassword("unknown_role", password) }): "refuses the credentials",
	} {
		r := dial(dsn)
		require.Equal(t, health.Down, r.State, dsn)
		require.Contains(t, r.Hint, hint, "%s: %s", dsn, r.Detail)
		require.NotContains(t, r.Detail, password)
	}
	live := database(pool)
	require.Equal(t, health.OK, ask(t, live.Probe()).State)
	require.NoError(t, server.Stop(t.Context()))
	r := ask(t, live.Probe())
	require.Equal(t, health.Down, r.State)
	require.NotEmpty(t, r.Hint)
	require.Equal(t, health.OK, ask(t, live.ClockProbe()).State, "one cause, one complaint")
}
