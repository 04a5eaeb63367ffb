package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/postgres"
)

// TestLedgerRowsAreAddedUpByDay adds rows around midnight in UTC, a row twice, and numbers that cannot be added up.
func TestLedgerRowsAreAddedUpByDay(t *testing.T) {
	b := newBench(t, postgres.Config{})
	charge := func(turn, agentName, user string, step int, model, tokens, usd, created string) {
		_, err := b.pool.Exec(t.Context(), `
			INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens,
				cost_usd, agent, user_id, created_at)
			VALUES ($2, $3, 1, $1, $4, $5::text::bigint, 1, 2, 3, $6::text::numeric, $7, $8, $9::text::timestamptz) ON CONFLICT DO NOTHING`,
			tenant, turn, step, model, tokens, usd, agentName, user, created)
		require.NoError(t, err)
	}
	charge("t1", "a1", "u1", 1, "m1", "10", "0.5", "2026-03-31 23:59:59.999999Z")
	charge("t1", "a1", "u1", 2, "m1", "10", "0.5", "2026-03-31T20:00:00-05:00")
	charge("t2", "a2", "", 1, "m2", "10", "0.25", "2026-04-01Z")
	charge("gone", "", "", 1, "m2", "10", "0.125", "2026-04-01Z")
	charge("t2", "a2", "", 2, "m2", "-5", "NaN", "2026-04-01Z")
	charge("t2", "a2", "", 3, "m2", "9223372036854775807", "Infinity", "2026-04-01Z")
	charge("t1", "a1", "u1", 3, "m1", "100", "1", "2026-04-01Z")
	charge("gone", "", "", 2, "m1", "100", "2", "2026-04-01Z")
	charge("t1", "a1", "u1", 4, "m1", "-9223372036854775808", "-7", "2026-04-01Z")
	charge("t1", "a1", "u1", 5, "m1", "9223372036854775807", "1e300", "2026-04-01Z")
	charge("t1", "a1", "u1", 3, "m1", "1", "1", "2026-04-01Z")

	rows, err := b.pool.Query(t.Context(), `SELECT kind || '/' || name || ' ' || day || ' ' || sum(calls) || ' ' || sum(input_tokens + output_tokens) || ' ' ||
			sum(cost_usd)
		FROM usage_by_day WHERE tenant = $1 GROUP BY kind, name, day ORDER BY kind, name, day`, tenant)
	require.NoError(t, err)
	sums, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"agent/a1 2026-03-31 1 11 0.5", "agent/a1 2026-04-01 4 1000000000114 1.5", "agent/a2 2026-04-01 3 1000000000013 0.25",
		"model/m1 2026-03-31 1 11 0.5", "model/m1 2026-04-01 5 1000000000215 3.5", "model/m2 2026-04-01 4 1000000000024 0.375",
		"tenant/ 2026-03-31 1 11 0.5", "tenant/ 2026-04-01 9 2000000000239 3.875",
		"user/u1 2026-03-31 1 11 0.5", "user/u1 2026-04-01 4 1000000000114 1.5",
	}, sums)
}
