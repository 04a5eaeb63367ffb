package pgstream_test

import (
	"os"
	"strings"
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
	up, _ := migration(t)
	_, err = pool.Exec(t.Context(), up)
	require.NoError(t, err)
	return pool
}

// migration returns the migrations of the log's tables, in order, and what undoes them.
func migration(t testing.TB) (up, down string) {
	t.Helper()
	for _, name := range []string{"002_events", "021_live_streams", "024_stream_peers"} {
		file, err := os.ReadFile("../../postgres/migrations/" + name + ".sql")
		require.NoError(t, err)
		does, undoes, found := strings.Cut(string(file), "---- create above / drop below ----")
		require.True(t, found)
		up, down = up+does, undoes+down
	}
	return up, down
}

func TestMigrationGoesBothWays(t *testing.T) {
	pool := migrated(t, pgtest.New(t))
	up, down := migration(t)
	for _, sql := range []string{down, up, down} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace) +
		(SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)`).Scan(&left))
	require.Zero(t, left)
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
