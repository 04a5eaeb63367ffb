package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func TestOpenBoundsItsConnections(t *testing.T) {
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: postgrestest.NewEmpty(t), MaxConns: 3})
	require.NoError(t, err)
	defer pool.Close()
	require.EqualValues(t, 3, pool.Config().MaxConns)
	for setting, want := range map[string]string{
		"application_name": "turnstone", "statement_timeout": "30s", "lock_timeout": "15s",
		"idle_in_transaction_session_timeout": "15s", "default_transaction_isolation": "read committed",
	} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

func TestOpenErrors(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	tests := map[string]struct {
		url  string
		want agent.Code
	}{
		"no URL":            {"postgres://%zz", agent.CodeInvalid},
		"no such database":  {replaceDatabase(t, dsn, "nowhere"), agent.CodeInvalid},
		"nobody listens":    {"postgres://user@127.0.0.1:1/db?sslmode=disable", agent.CodeUnavailable},
		"no such parameter": {addParameter(dsn, "no_such_setting=1"), agent.CodeInvalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			_, err := postgres.Open(t.Context(), postgres.Config{URL: test.url, ConnectTimeout: 300 * time.Millisecond})
			requireCode(t, test.want, err)
			require.Less(t, time.Since(started), 5*time.Second)
		})
	}
}

func TestOpenRefusesAnotherEncoding(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	name := "latin_" + strings.ReplaceAll(newID(), "-", "")
	_, err = conn.Exec(t.Context(), `CREATE DATABASE `+name+` ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), postgres.Config{URL: replaceDatabase(t, dsn, name)})
	requireCode(t, agent.CodeInvalid, err)
	require.ErrorContains(t, err, "UTF8")
}

func replaceDatabase(t *testing.T, dsn, name string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	require.Contains(t, dsn, cfg.Database)
	return strings.Replace(dsn, cfg.Database, name, 1)
}

func addParameter(dsn, parameter string) string {
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" {
		if u.RawQuery != "" {
			parameter = "&" + parameter
		} else {
			parameter = "?" + parameter
		}
		return dsn + parameter
	}
	return dsn + " " + parameter
}

func TestMigrateManyAtOnce(t *testing.T) {
	const workers = 8
	var c postgres.Config
	pool := openEmpty(t, &c)
	require.NoError(t, errors.Join(atOnce(workers, func(int) error { return postgres.Migrate(t.Context(), pool) })...))
	require.NoError(t, postgres.Migrate(t.Context(), pool), "the other processes have nothing left to do")
	var tables int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename IN (
		'sessions', 'turns', 'messages', 'turn_steps', 'tool_calls', 'usage_ledger', 'approvals', 'agent_results', 'streams',
		'stream_producers', 'events', 'catalog_head', 'catalog_documents', 'catalog_artifacts', 'catalog_history')`).Scan(&tables))
	require.Equal(t, 15, tables)
}

func TestMigrateRefusesANewerDatabase(t *testing.T) {
	var c postgres.Config
	pool := openEmpty(t, &c)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	_, err := pool.Exec(t.Context(), `UPDATE turnstone_schema_version SET version = 99`)
	require.NoError(t, err)
	err = postgres.Migrate(t.Context(), pool)
	require.ErrorIs(t, err, postgres.ErrSchemaNewer)
	require.ErrorContains(t, err, "99")
}

// The requirements specify the columns and their types, because other programs read them.
func TestAgentResultsIsTheSeedsTable(t *testing.T) {
	b := newBench(t, postgres.Config{})
	columns := column[string](b, `SELECT column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
		FROM information_schema.columns WHERE table_name = 'agent_results' ORDER BY ordinal_position`)
	require.Equal(t, []string{
		"result_id uuid not null", "job_id uuid not null", "run_id text not null", "node_id text not null", "result_data jsonb",
		"cas_id text", "s3_ref text", "status text not null", "error jsonb", "tool_calls jsonb", "tokens_used integer",
		"cache_hit boolean", "execution_time_ms integer", "created_at timestamp with time zone not null",
		"completed_at timestamp with time zone",
	}, columns[:15])
	require.Equal(t, 3, b.count(`pg_indexes WHERE indexname IN
		('idx_agent_results_job_id', 'idx_agent_results_run_id', 'idx_agent_results_created_at')`))
}

// killWhileBlocked runs work while another connection holds lock, terminates the connection of work once it waits for the lock, and
// returns the error of work.
func (b *bench) killWhileBlocked(lock string, work func() error) error {
	b.t.Helper()
	defer b.holdLock(lock)()
	failed := async(work)
	require.Eventually(b.t, func() bool {
		var killed int
		err := b.pool.QueryRow(b.t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&killed)
		return err == nil && killed == 1
	}, 10*time.Second, 5*time.Millisecond)
	return <-failed
}

// holdLock runs a statement in a transaction that is held open until release is called or the test ends. It may only take row locks,
// because a table lock would block others while they prepare statements.
func (b *bench) holdLock(lock string) (release func()) {
	b.t.Helper()
	holder, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	release = sync.OnceFunc(func() { _ = holder.Rollback(context.WithoutCancel(b.t.Context())) })
	b.t.Cleanup(release)
	_, err = holder.Exec(b.t.Context(), lock)
	require.NoError(b.t, err)
	return release
}

const (
	lockLedgerRow = `INSERT INTO usage_ledger VALUES ('t1', 1, 1, 'other', 'm', 0, 0, 0, 0, 0)`
	lockTurnID    = `WITH s AS (INSERT INTO sessions (tenant, session_id) VALUES ('other', 'other') RETURNING *)
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 't1', tenant, session_id, 1, 'queued', '', '', '', '', '', '', '', '', '', '[]', '{}' FROM s`
	lockTurnRow   = `SELECT FROM turns WHERE turn_id = 't1' FOR UPDATE`
	lockStreamRow = `SELECT FROM streams WHERE stream_id = 't1' FOR UPDATE`
)

// awaitWaiting waits until n connections are waiting for locks.
func (b *bench) awaitWaiting(want int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		var waiting int
		err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == want
	}, 10*time.Second, 5*time.Millisecond)
}

// A new epoch of a producer waits while a step of the older epoch is being stored.
func TestProducerWaitsForTheStepOfItsOlderEpoch(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	step := modelStep("t1", 1, b.epoch("t1", "model/1"), agent.Text("said"))
	release := b.holdLock(lockLedgerRow)
	saved := async(func() error { return b.SaveModelStep(t.Context(), step) })
	b.awaitWaiting(1)
	begun := async(func() error {
		_, err := b.pool.Exec(t.Context(), beginProducer, "t1", "model/1")
		return err
	})
	b.awaitWaiting(2)
	release()
	require.NoError(t, <-saved)
	require.NoError(t, <-begun)
}

// A turn that is queued while the holder releases the session does not get lost.
func TestBeginWaitsForFinish(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("said"))))
	var answer agent.Begun
	release := b.holdLock(lockTurnRow)
	finished := async(func() error {
		_, err := b.Finish(t.Context(), finish("t1", "s"))
		return err
	})
	b.awaitWaiting(1)
	begun := async(func() (err error) {
		answer, err = b.Begin(t.Context(), turn("t2", "s"))
		return err
	})
	b.awaitWaiting(2)
	release()
	require.NoError(t, <-finished)
	require.NoError(t, <-begun)
	require.Equal(t, agent.BeginReady, answer.Answer)
	require.EqualValues(t, 3, answer.Cursor)
}

// A turn that begins again while its session is being deleted waits for that and begins as a new turn.
func TestBeginWaitsForDeletedSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.finish(finish("t1", "s"))
	var answer agent.Begun
	release := b.holdLock(lockTurnRow)
	deleted := async(func() error {
		_, err := b.DeleteSession(t.Context(), tenant, "s")
		return err
	})
	b.awaitWaiting(1)
	begun := async(func() (err error) {
		answer, err = b.Begin(t.Context(), turn("t1", "s"))
		return err
	})
	b.awaitWaiting(2)
	release()
	require.NoError(t, <-deleted)
	require.NoError(t, <-begun)
	require.Equal(t, agent.BeginReady, answer.Answer)
	require.True(t, answer.New)
	require.EqualValues(t, 1, answer.Cursor, "the session counts from 1 again")
}

func TestKilledConnectionLeavesNothingHalfStored(t *testing.T) {
	b := newBench(t, postgres.Config{})

	requireCode(t, agent.CodeUnavailable, b.killWhileBlocked(lockTurnID, func() error {
		_, err := b.Begin(t.Context(), turn("t1", "s"))
		return err
	}))
	require.Zero(t, b.count("turns")+b.count("sessions")+b.count("messages"))
	b.ready("t1", "s")
	b.begin(turn("t2", "s"))

	step := modelStep("t1", 1, 1, agent.Text("said"))
	requireCode(t, agent.CodeUnavailable, b.killWhileBlocked(lockLedgerRow, func() error {
		return b.SaveModelStep(t.Context(), step)
	}))
	require.Zero(t, b.count("turn_steps")+b.count("usage_ledger"), "a step is stored together with its ledger rows")
	require.NoError(t, b.SaveModelStep(t.Context(), step))

	b.epoch("t1", "model/1") // so that the stream has a row to lock
	requireCode(t, agent.CodeUnavailable, b.killWhileBlocked(lockStreamRow, func() error {
		_, err := b.Finish(t.Context(), finish("t1", "s"))
		return err
	}))
	require.Zero(t, b.count("agent_results")+b.count("events"))
	require.Len(t, b.transcript("s"), 1)
	require.Equal(t, 1, b.begin(turn("t2", "s")).Position, "the session is still held")

	require.EqualValues(t, "t2", b.finish(finish("t1", "s")).Next)
	require.Len(t, b.transcript("s"), 2)
}

func TestCancelledCallReleasesItsLocks(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.epoch("t1", "model/1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := b.holdLock(lockStreamRow)
	failed := async(func() error {
		_, err := b.Finish(ctx, finish("t1", "s"))
		return err
	})
	b.awaitWaiting(1)
	cancel()
	requireCode(t, agent.CodeCancelled, <-failed)
	release()
	require.True(t, b.finish(finish("t1", "s")).Logged)
}

func TestStoreSurvivesARestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN()})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	b := &bench{Store: postgres.NewStore(pool, postgres.Config{}), t: t, pool: pool}
	b.ready("t1", "s")

	require.NoError(t, server.Suspend(t.Context()))
	_, err = b.Finish(t.Context(), finish("t1", "s"))
	requireCode(t, agent.CodeUnavailable, err)
	requireCode(t, agent.CodeUnavailable, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("x"))))

	require.NoError(t, server.Resume(t.Context()))
	require.Eventually(t, func() bool {
		_, err := b.Finish(t.Context(), finish("t1", "s"))
		return err == nil
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, agent.BeginDuplicate, b.begin(turn("t1", "s")).Answer)
}

// countingConn counts round trips: writes after a read.
type countingConn struct {
	net.Conn
	listened atomic.Bool
	trips    *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.listened.Store(true)
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	if c.listened.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Write(p)
}

// countTrips makes the store use one connection, and returns a function that counts the round trips of another function.
func (b *bench) countTrips() func(func()) int64 {
	b.t.Helper()
	var trips atomic.Int64
	cfg := b.pool.Config()
	cfg.MaxConns = 1
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countingConn{Conn: conn, trips: &trips}, err
	}
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	b.Store = postgres.NewStore(pool, postgres.Config{})
	return func(f func()) int64 {
		before := trips.Load()
		f()
		return trips.Load() - before
	}
}

func TestRoundTrips(t *testing.T) {
	b := newBench(t, postgres.Config{})
	measure := b.countTrips()
	for _, id := range []string{"warm up", "measured"} { // the first turn prepares the statements
		begin := measure(func() { b.ready(id, "s") })
		queue := measure(func() { b.begin(turn(id+" next", "s")) })
		again := measure(func() { b.ready(id, "s") })
		model := measure(func() { require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, call("c1")))) })
		tool := measure(func() { require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "c1", 1))) })
		prompt := measure(func() {
			_, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: agent.TurnID(id), Tenant: tenant, SessionID: "s", Cursor: 1, Step: 2})
			require.NoError(t, err)
		})
		finished := measure(func() { b.finish(finish(id, "s")) })
		b.ready(id+" next", "s")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id+" next", 1, 1, agent.Text("said"))))
		complete := b.complete(id+" next", "s")
		last := measure(func() { b.finish(complete) })
		if id == "measured" {
			require.Equal(t, []int64{1, 3, 3, 1, 1, 1, 2, 1}, []int64{begin, queue, again, model, tool, prompt, finished, last},
				"begin, begin behind, begin again, model step, tool step, prompt, finish with a turn behind, finish with nobody behind")
		}
	}
}
