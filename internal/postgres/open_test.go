package postgres_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestOpenBoundsItsConnections(t *testing.T) {
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 3})
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

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dsn := pgtest.New(t)
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
	dsn := pgtest.New(t)
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
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { errs[i] = postgres.Migrate(t.Context(), pool) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, postgres.Migrate(t.Context(), pool), "nothing left to do")
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

// The requirements name the columns and their types; other programs read them.
func TestAgentResultsIsTheSeedsTable(t *testing.T) {
	b := newBench(t, postgres.Config{})
	rows, err := b.pool.Query(t.Context(), `SELECT column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
		FROM information_schema.columns WHERE table_name = 'agent_results' ORDER BY ordinal_position`)
	require.NoError(t, err)
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"result_id uuid not null", "job_id uuid not null", "run_id text not null", "node_id text not null", "result_data jsonb",
		"cas_id text", "s3_ref text", "status text not null", "error jsonb", "tool_calls jsonb", "tokens_used integer",
		"cache_hit boolean", "execution_time_ms integer", "created_at timestamp with time zone not null",
		"completed_at timestamp with time zone",
	}, columns[:15])
	var indexes int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_indexes WHERE indexname IN
		('idx_agent_results_job_id', 'idx_agent_results_run_id', 'idx_agent_results_created_at')`).Scan(&indexes))
	require.Equal(t, 3, indexes)
}
