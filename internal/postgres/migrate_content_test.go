package postgres

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
)

// upTo are the migrations before one.
func upTo(t *testing.T, before string) fs.FS {
	t.Helper()
	files, err := fs.Glob(migrations, "migrations/*.sql")
	require.NoError(t, err)
	known := fstest.MapFS{}
	for _, file := range files {
		name := strings.TrimPrefix(file, "migrations/")
		if name < before {
			body, err := fs.ReadFile(migrations, file)
			require.NoError(t, err)
			known[name] = &fstest.MapFile{Data: body}
		}
	}
	return known
}

// What a release from before has stored is held, and so is what it stores while it runs beside this one.
func TestMigrationHoldsWhatIsStored(t *testing.T) {
	c := Config{URL: pgtest.New(t)}
	pool, err := Open(t.Context(), c)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrateTo(t.Context(), pool, upTo(t, "008")))
	ref := func(digit string) string { return "cas://sha256:" + strings.Repeat(digit, 64) }
	exec := func(sql string) {
		t.Helper()
		for _, digit := range "0123456789ab" {
			sql = strings.ReplaceAll(sql, "<"+string(digit)+">", ref(string(digit)))
		}
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	turns := func(id, state, input string) string {
		return `INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
			VALUES ('` + id + `', 'acme', 's', (SELECT count(*) FROM turns), '` + state + `', '', '', '', '', '', '', '', '', '', '` + input + `', '{}');`
	}
	step := func(id, content string) string {
		return `INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict)
			VALUES ('` + id + `', 1, '` + content[:3] + `', '', 1, '["` + content + `"]', '{}');`
	}
	exec(`INSERT INTO sessions (tenant, session_id, holder) VALUES ('acme', 's', 'live'), ('evil', 's', NULL);` +
		turns("old", "completed", "[]") + turns("live", "running", `["<3>"]`) + turns("next", "queued", `["<4>"]`) + step("live", "<5>") +
		`INSERT INTO messages (tenant, session_id, position, turn_id, role, blocks, size) VALUES ('acme', 's', 1, 'old', 'user', '["<0>", "\u0000 <1>"]', 1);
		INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, status, ref, duration_ms) VALUES ('old', 1, 'c', 'acme', 'x', 'success', '<2>', 1);
		INSERT INTO agent_results (job_id, run_id, node_id, cas_id, status, turn_id, tenant, session_id, output)
		VALUES (gen_random_uuid(), '', '', substr('<6>', 7), 'completed', 'old', 'acme', 's', '{}');
		INSERT INTO session_notes (tenant, session_id, name, body, updated_at) VALUES ('acme', 's', 'n', '"<7>"', now());`)

	require.NoError(t, Migrate(t.Context(), pool))
	require.Equal(t, []string{
		"acme note/s/n 7", "acme turn/live 3", "acme turn/live 5", "acme turn/next 4", "acme turn/old 0", "acme turn/old 1", "acme turn/old 2", "acme turn/old 6",
	}, heldContent(t, pool))
	_, err = NewStore(pool, c).Collect(t.Context(), func(_ context.Context, c Collection) error {
		require.False(t, c.Due, "it waits for the releases from before to end")
		return nil
	})
	require.NoError(t, err)

	exec(step("live", "<8>") + `UPDATE session_notes SET body = '"<9>"'`)
	held := heldContent(t, pool)
	require.Contains(t, held, "acme turn/live 8")
	require.Contains(t, held, "acme note/s/n 9")
	require.NotContains(t, held, "acme note/s/n 7")
}

// A row of a release from before said with cache_hit that a pipeline was answered out of the cache, and its document had the rows inside.
func TestMigrationRenamesCacheHits(t *testing.T) {
	c := Config{URL: pgtest.New(t)}
	pool, err := Open(t.Context(), c)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrateTo(t.Context(), pool, upTo(t, "018")))
	_, err = pool.Exec(t.Context(), `
		INSERT INTO sessions (tenant, session_id) VALUES ('acme', 's');
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 't' || n, 'acme', 's', n, 'completed', '', '', '', '', '', '', '', '', '', '[]', '{}' FROM generate_series(1, 3) AS n;
		INSERT INTO agent_results (job_id, run_id, node_id, result_data, status, turn_id, tenant, session_id, output, cache_hit, cached_tokens,
			tokens_used, execution_time_ms, completed_at)
		SELECT gen_random_uuid(), '', '', '{"output":"x","data":[1]}', 'completed', 't' || n, 'acme', 's', '{}', n = 1, CASE n WHEN 2 THEN 7 END, 0, 0, now()
		FROM generate_series(1, 3) AS n`)
	require.NoError(t, err)
	require.NoError(t, Migrate(t.Context(), pool))
	var hits string
	require.NoError(t, pool.QueryRow(t.Context(),
		`SELECT string_agg(concat_ws(' ', cache_hit, pipeline_cache_hit), ', ' ORDER BY turn_id) FROM agent_results`).Scan(&hits))
	require.Equal(t, "f t, t f, f f", hits)
	row, err := NewStore(pool, c).Result(t.Context(), "acme", "t1")
	require.NoError(t, err)
	require.JSONEq(t, `{"output":"x","data":[1]}`, string(row.Document()))
}

func heldContent(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT tenant || ' ' || holder || ' ' || left(digest, 1) FROM blob_refs ORDER BY tenant, holder, digest`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}
