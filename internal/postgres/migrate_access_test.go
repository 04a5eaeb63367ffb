package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
)

// What was spent before is added up, and so is what a release from before spends while it runs beside this one.
func TestMigrationAddsUpTheLedger(t *testing.T) {
	c := Config{URL: pgtest.New(t)}
	pool, err := Open(t.Context(), c)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrateTo(t.Context(), pool, upTo(t, "010")))
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	charge := func(turn, step, model, tokens, usd, created string) string {
		return `INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, created_at)
			VALUES ('` + turn + `', ` + step + `, 1, 'acme', '` + model + `', ` + tokens + `, 1, 2, 3, ` + usd + `, '` + created + `');`
	}
	exec(`INSERT INTO sessions (tenant, session_id, holder) VALUES ('acme', 's', 't1');
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history,
			input, context)
		SELECT 't' || n, 'acme', 's', n, 'running', '', 'a' || n, '', '', '', 'http', CASE n WHEN 1 THEN 'u1' ELSE '' END, '', '', '[]', '{}'
		FROM generate_series(1, 2) AS n;` +
		charge("t1", "1", "m1", "10", "0.5", "2026-03-31 23:59:59.999999Z") + charge("t1", "2", "m1", "10", "0.5", "2026-03-31T20:00:00-05:00") +
		charge("t2", "1", "m2", "10", "0.25", "2026-04-01Z") + charge("gone", "1", "m2", "10", "0.125", "2026-04-01Z") +
		charge("t2", "2", "m2", "-5", "'NaN'", "2026-04-01Z") + charge("t2", "3", "m2", "9223372036854775807", "'Infinity'", "2026-04-01Z"))

	require.NoError(t, Migrate(t.Context(), pool))
	before := []string{
		"agent/a1 2026-03-31 1 11 0.5", "agent/a1 2026-04-01 1 11 0.5", "agent/a2 2026-04-01 3 1000000000013 0.25",
		"model/m1 2026-03-31 1 11 0.5", "model/m1 2026-04-01 1 11 0.5", "model/m2 2026-04-01 4 1000000000024 0.375",
		"tenant/ 2026-03-31 1 11 0.5", "tenant/ 2026-04-01 5 1000000000035 0.875",
		"user/u1 2026-03-31 1 11 0.5", "user/u1 2026-04-01 1 11 0.5",
	}
	require.Equal(t, before, addedUp(t, pool))
	require.Equal(t, []string{" a2 http s ", " a1 http s u1", "    "}, attributed(t, pool))

	exec(charge("t1", "3", "m1", "100", "1", "2026-04-01Z") + charge("gone", "2", "m1", "100", "2", "2026-04-01Z") +
		charge("t1", "4", "m1", "-9223372036854775808", "-7", "2026-04-01Z") + charge("t1", "5", "m1", "9223372036854775807", "1e300", "2026-04-01Z"))
	exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd)
		VALUES ('t1', 3, 1, 'acme', 'm1', 1, 1, 1, 1, 1) ON CONFLICT DO NOTHING`)
	require.Equal(t, []string{
		before[0], "agent/a1 2026-04-01 4 1000000000114 1.5", before[2], before[3], "model/m1 2026-04-01 5 1000000000215 3.5", before[5], before[6],
		"tenant/ 2026-04-01 9 2000000000239 3.875", before[8], "user/u1 2026-04-01 4 1000000000114 1.5",
	}, addedUp(t, pool))
	require.Equal(t, []string{" a2 http s ", " a1 http s u1", "    "}, attributed(t, pool))

	// A turn that a release from before begins and ends takes and frees its place.
	store := NewStore(pool, c)
	require.NoError(t, store.Admit(t.Context(), agent.Admission{TurnID: "t3", Tenant: "acme", At: time.Now(), Tenants: agent.Bound{ConcurrentTurns: 5}}))
	exec(`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history,
			input, context) VALUES ('t3', 'acme', 's', 3, 'queued', '', '', '', '', '', '', '', '', '', '[]', '{}')`)
	running, err := store.Running(t.Context(), agent.Admission{Tenant: "acme", At: time.Now().Add(time.Hour)}, 0)
	require.NoError(t, err)
	require.Equal(t, []agent.TurnID{"t3"}, running)
	exec(`UPDATE turns SET state = 'running' WHERE turn_id = 't3'; UPDATE turns SET state = 'failed' WHERE turn_id = 't3'`)
	running, err = store.Running(t.Context(), agent.Admission{Tenant: "acme"}, 0)
	require.NoError(t, err)
	require.Empty(t, running)
}

func addedUp(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return lines(t, pool, `SELECT kind || '/' || name || ' ' || day || ' ' || sum(calls) || ' ' || sum(input_tokens + output_tokens) || ' ' || sum(cost_usd)
		FROM usage_by_day WHERE tenant = 'acme' GROUP BY kind, name, day ORDER BY kind, name, day`)
}

func attributed(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return lines(t, pool, `SELECT DISTINCT ' ' || agent || ' ' || channel || ' ' || session_id || ' ' || user_id COLLATE "C" AS line FROM usage_ledger ORDER BY line DESC`)
}

func lines(t *testing.T, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}
