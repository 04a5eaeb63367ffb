package pgstream_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestConformance(t *testing.T) {
	pool := newPool(t)
	streamtest.Exercise(t, func(t *testing.T) streamtest.Log {
		exec(t, pool, "TRUNCATE streams, stream_producers, events")
		return open(t, pool, pgstream.Config{})
	})
}

// newPool returns a pool for a new database with the log's tables.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return migrated(t, postgrestest.NewEmpty(t))
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// value returns the one value that a query finds.
func value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func begin(t testing.TB, log *pgstream.Log, id, producer string) agent.Fence {
	t.Helper()
	f, _, err := log.Begin(t.Context(), id, producer)
	require.NoError(t, err)
	return f
}

func appendText(t testing.TB, log *pgstream.Log, f agent.Fence, batch int64, text string) {
	t.Helper()
	_, err := log.Append(t.Context(), f, batch, token(text))
	require.NoError(t, err)
}

// migrated returns a pool for a database with the log's tables.
func migrated(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tables, err := os.ReadFile("../../postgres/migrations/002_events.sql")
	require.NoError(t, err)
	exec(t, pool, string(tables))
	return pool
}

// open starts a log that stops before its pool closes.
func open(t testing.TB, pool *pgxpool.Pool, cfg pgstream.Config) *pgstream.Log {
	t.Helper()
	cfg.Pool = pool
	if cfg.Poll == 0 {
		cfg.Poll = time.Minute // so that notifications have to work
	}
	log, err := pgstream.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(log.Stop)
	return log
}
