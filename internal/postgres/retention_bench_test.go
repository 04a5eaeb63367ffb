package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/retention"
)

// newStoreOfEndedTurns returns a store with a number of ended turns, a tenth of them of another tenant. Each has five events, two
// messages, a step, a call and a result.
func newStoreOfEndedTurns(t testing.TB, turns int) *Store {
	t.Helper()
	c := Config{URL: MigratedDatabase(t)}
	pool, err := Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	text := strings.Repeat("something was said. ", 20)
	output := `{"turn_id":"x","session_id":"s","agent":"a","status":"completed","output":"` + text + `","blocks":[],"usage":{}}`
	for _, sql := range []string{
		`SET LOCAL statement_timeout = '10min'`, `SET LOCAL session_replication_role = replica`,
		`CREATE TEMP TABLE g ON COMMIT DROP AS SELECT n, 't' || n AS id, CASE n % 11 WHEN 0 THEN 'evil' ELSE 'acme' END AS tenant, 's' || n / 11 AS session,
			now() - ($1 - n) * interval '1 minute' - interval '100 days' AS at FROM generate_series(1, $1::integer) AS n`,
		`INSERT INTO sessions (tenant, session_id) SELECT DISTINCT tenant, session FROM g`,
		`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history, input,
			context, finished_at)
			SELECT id, tenant, session, n, 'completed', '', 'a', '', '', '', '', '', '', '', '[]', '{}', at FROM g`,
		`INSERT INTO streams (stream_id, last_index, closed_at) SELECT id, 5, at FROM g`,
		`INSERT INTO events (stream_id, event_index, size, event) SELECT id, i, 400, '{"text":"` + text + `"}' FROM g, generate_series(1, 5) AS i`,
		`INSERT INTO messages (tenant, session_id, position, turn_id, role, blocks, size)
			SELECT tenant, session, 2 * n + i, id, 'user', '[{"text":"` + text + `"}]', 400 FROM g, generate_series(0, 1) AS i`,
		`INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict) SELECT id, 1, '', '', 1, '[{"text":"` + text + `"}]', '{}' FROM g`,
		`INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, status, ref, duration_ms) SELECT id, 1, 'c', tenant, 'x', 'success', '', 1 FROM g`,
		`INSERT INTO agent_results (job_id, run_id, node_id, status, turn_id, tenant, session_id, output)
			SELECT gen_random_uuid(), '', '', 'completed', id, tenant, session, '` + output + `' FROM g`,
		`INSERT INTO blob_refs (tenant, holder, digest) SELECT tenant, 'turn/' || id, repeat('0', 64) FROM g`,
		`INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote)
			SELECT at, tenant, '', '', '', 'x', '', '', '', '', '' FROM g`,
		`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, created_at)
			SELECT id, 1, 1, tenant, 'm', 1, 1, 0, 0, 0, at FROM g`,
	} {
		if strings.Contains(sql, "$1") {
			sql = strings.ReplaceAll(sql, "$1", fmt.Sprint(turns))
		}
		_, err := tx.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.NoError(t, tx.Commit(t.Context()))
	_, err = pool.Exec(t.Context(), `ANALYZE`)
	require.NoError(t, err)
	return NewStore(pool, c)
}

// BenchmarkRetention sweeps all data of 100,000 turns, 90 % of which are the tenant's, once. Run it with -benchtime 1x.
func BenchmarkRetention(b *testing.B) {
	s := newStoreOfEndedTurns(b, 100_000)
	for _, kind := range []string{retention.Events, retention.Traces, retention.Results, retention.Transcripts, retention.Blobs, retention.Turns, retention.Audit, retention.Usage} {
		b.Run(kind, func(b *testing.B) {
			var (
				at             retention.Cursor
				removed        int64
				batches        int
				longest, ended time.Duration // ended: when the last batch ended
			)
			for b.Loop() {
				for {
					out, err := s.SweepRetention(b.Context(), retention.Sweep{Tenant: "acme", Kind: kind, Before: time.Now().Add(-time.Hour), Follow: true}, at)
					if err != nil {
						b.Fatal(err)
					}
					removed, batches, at = removed+out.Removed, batches+1, out.Next
					longest, ended = max(longest, b.Elapsed()-ended), b.Elapsed()
					if out.Done {
						break
					}
				}
			}
			b.ReportMetric(float64(removed), "rows")
			b.ReportMetric(float64(removed)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(batches), "transactions")
		})
	}
}

// TestSweepsUseIndexes: no statement of a sweep reads a whole table.
func TestSweepsUseIndexes(t *testing.T) {
	t.Parallel()
	s := newStoreOfEndedTurns(t, 8_000)
	var ids []string
	for n := range 20 {
		ids = append(ids, fmt.Sprintf("t%d", 5000+n))
	}
	before := time.Now().Add(-110 * 24 * time.Hour)
	beginning := time.Unix(0, 0)
	for name, query := range map[string]struct {
		sql  string
		args []any
	}{
		"ended":     {readEnded, []any{"acme", beginning, "", before, maxSweptTurns, sweptEvents, 0}},
		"due":       {dueTurns, []any{"acme", before, sweptEvents, 0, retention.Events}},
		"stored":    {countStored + storedTurns + `) s`, []any{"acme", before, 100, sweptEvents, retention.Events}},
		"messages":  {deletion("messages", "turn_id = ANY ($2)"), []any{1000, ids}},
		"steps":     {deletion("turn_steps", "turn_id = ANY ($2)"), []any{1000, ids}},
		"calls":     {deletion("tool_calls", "turn_id = ANY ($2)"), []any{1000, ids}},
		"events":    {deletion("events", "stream_id = ANY ($2)"), []any{1000, ids}},
		"outputs":   {readOutputs, []any{ids}},
		"inactive":  {readInactive, []any{"acme", []string{"s1", "s2"}, before}},
		"empty":     {emptySessions, []any{"acme", []string{"s1", "s2"}}},
		"audit":     {dueAudit, []any{"acme", before}},
		"usage":     {deletionOfTenant("usage_ledger", oldLedgerRows), []any{1000, "acme", before}},
		"due usage": {dueUsage, []any{"acme", before}},
		"closed":    {readClosed, []any{beginning, "", before, 200}},
	} {
		plan, err := queryRows(t.Context(), s.RetentionStore.pool, pgx.RowTo[string], "EXPLAIN "+query.sql, query.args...)
		require.NoError(t, err, name)
		for _, table := range []string{"turns", "messages", "turn_steps", "tool_calls", "events", "agent_results", "audit_log", "usage_ledger", "streams"} {
			require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan on "+table+" ", "%s\n%s", name, strings.Join(plan, "\n"))
			require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan on "+table+"\n", name)
		}
	}
}
