package pgstream_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestConformance(t *testing.T) {
	pool := migrated(t, pgtest.New(t))
	streamtest.Exercise(t, func(t *testing.T) streamtest.Log {
		_, err := pool.Exec(t.Context(), "TRUNCATE streams, stream_producers, events")
		require.NoError(t, err)
		return open(t, pool, pgstream.Config{})
	})
}

// migrated returns a pool for a database with the log's tables.
func migrated(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tables, err := os.ReadFile("../../postgres/migrations/002_events.sql")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), string(tables))
	require.NoError(t, err)
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
