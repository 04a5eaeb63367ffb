package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/postgres"
)

// person is somebody who leaves something in every table: words that nobody else writes, and his name.
type person struct {
	tenant, user, word string
	session            string // his own
	shared             string // others are there too
	turn               string // the ids of his turns begin with it
	digest             string // one letter, of his content
}

// fill lists what a person leaves, in all tables that hold something of a user.
func fill() []string {
	turn := func(suffix, session, seq string) string {
		return `INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history, input,
			context, trace, finished_at) VALUES ('<turn>` + suffix + `', '<tenant>', '<` + session + `>', ` + seq + `, 'completed', 'turn/<turn>` + suffix + `', 'a', 'a@1', 'h',
			'm', 'http', '<user>', 'queue', 'load', '["<word>", "cas://sha256:<digest>"]', '{"user_id":"<user>"}', '', now())`
	}
	message := func(suffix, session, position string) string {
		return `INSERT INTO messages (tenant, session_id, position, turn_id, role, blocks, size)
			VALUES ('<tenant>', '<` + session + `>', ` + position + `, '<turn>` + suffix + `', 'user', '["<word>"]', 8)`
	}
	return []string{
		`INSERT INTO sessions (tenant, session_id, last_seq) VALUES ('<tenant>', '<session>', 1), ('<tenant>', '<shared>', 9) ON CONFLICT DO NOTHING`,
		turn("-1", "session", "1"),
		turn("-2", "shared", `(SELECT count(*) + 1 FROM turns WHERE tenant = '<tenant>' AND session_id = '<shared>')`),
		message("-1", "session", "1"),
		message("-2", "shared", `(SELECT count(*) + 1 FROM messages WHERE tenant = '<tenant>' AND session_id = '<shared>')`),
		`INSERT INTO streams (stream_id, closed_at) VALUES ('<turn>-1', now())`,
		`INSERT INTO stream_producers (stream_id, producer) VALUES ('<turn>-1', '<word>')`,
		`INSERT INTO events (stream_id, event_index, size, event) VALUES ('<turn>-1', 1, 1, '["<word>"]')`,
		`INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict) VALUES ('<turn>-1', 1, '', 'p', 1, '["<word>"]', '{}')`,
		`INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, args, status, ref, duration_ms)
			VALUES ('<turn>-1', 1, 'c', '<tenant>', 'execute_pipeline', '["<word>"]', 'success', '', 1)`,
		`INSERT INTO approvals (turn_id, approval_id, tenant, call_id, step, tool_name, rule, message, decided_by)
			VALUES ('<turn>-1', 'a', '<tenant>', 'c', 1, 't', 'r', '<word>', '<user>')`,
		`INSERT INTO agent_results (job_id, run_id, node_id, status, turn_id, tenant, session_id, output)
			VALUES (gen_random_uuid(), 'r', 'n', 'completed', '<turn>-1', '<tenant>', '<session>', '["<word>"]')`,
		`INSERT INTO prepared (turn_id, producer, epoch, body) VALUES ('<turn>-1', 'p', 1, '["<word>"]')`,
		`INSERT INTO turn_tools (turn_id, body) VALUES ('<turn>-1', '["<word>"]')`,
		`INSERT INTO remembered_decisions (tenant, session_id, tool, args_hash, decision, message, by, created_at)
			VALUES ('<tenant>', '<session>', 't', '', 'approve', '<word>', 'ops', now()), ('<tenant>', '<shared>', '<turn>', '', 'approve', '<word>', '<user>', now())`,
		`INSERT INTO session_notes (tenant, session_id, name, body, updated_at) VALUES ('<tenant>', '<session>', 'summary', '["<word>"]', now())`,
		`INSERT INTO reference_lists (tenant, session_id, numbers) VALUES ('<tenant>', '<session>', 1)`,
		`INSERT INTO session_references (tenant, session_id, number, key, aliases, source, item, added_at)
			VALUES ('<tenant>', '<session>', 1, 'k', '{<word>}', 's', '["<word>"]', now())`,
		`INSERT INTO reference_names (tenant, session_id, name, number) VALUES ('<tenant>', '<session>', '<word>', 1)`,
		`INSERT INTO blobs (tenant, digest, bytes, put_at) VALUES ('<tenant>', '<digest>', 100, now() - interval '1 hour') ON CONFLICT DO NOTHING`,
		`INSERT INTO result_cache (tenant, key, body, digest, remembered_at, expires_at) VALUES ('<tenant>', '<turn>', '["<word>"]', '<digest>', now(), now())`,
		`INSERT INTO pipeline_shapes (tenant, shape, uses, used_at) VALUES ('<tenant>', 'fetch', 1, now()) ON CONFLICT DO NOTHING`,
		`WITH u AS (INSERT INTO pipeline_uses (tenant, key, at) VALUES ('<tenant>', '<turn>-1/1/c', clock_timestamp()) RETURNING at)
			INSERT INTO pipeline_samples (tenant, shape, digest, steps, used_at) SELECT '<tenant>', 'fetch', sha256('<turn>'), '["<word>"]', at FROM u`,
		`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd,
			user_id, agent, session_id, channel)
			VALUES ('<turn>-1', 1, 1, '<tenant>', 'm', 10, 5, 0, 0, 0.5, '<user>', 'a', '<session>', 'http')`,
		`SELECT turnstone_add_up_usage(100)`,
		`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd,
			user_id, agent, session_id, channel)
			VALUES ('<turn>-1', 1, 2, '<tenant>', 'm', 10, 5, 0, 0, 0.5, '<user>', 'a', '<session>', 'http')`,
		`INSERT INTO admissions (tenant, kind, name, n, at) VALUES ('<tenant>', 'user', '<user>', 1, now())`,
		`INSERT INTO turn_places (tenant, turn_id, user_id, agent, at) VALUES ('<tenant>', '<turn>-soon', '<user>', 'a', now())`,
		`INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail) VALUES
			(now(), '<tenant>', '<user>', 'jwt', 'jwt:<user>', 'turns.run', 'turn/<turn>-1', 'allowed', 'http', '', '192.0.2.7', '{"n":1}'),
			(now(), '<tenant>', 'ops', 'key', 'key:k1', 'keys.write', 'user/<user>', 'allowed', 'http', '', '192.0.2.8', '{"subject":"<user>","who":"key/<user>","n":[7]}')`,
		`INSERT INTO api_keys (id, tenant, name, hash, subject, role, scopes, created_at, created_by) VALUES
			('<turn>k1', '<tenant>', '<word>', '', '<user>', '', '{}', now(), 'ops'), ('<turn>k2', '<tenant>', 'bot', '', 'bot', '', '{}', now(), '<user>')`,
		`INSERT INTO chat_links (channel, chat_id, tenant, user_id, role, scopes, linked_by, linked_at)
			VALUES ('telegram', '<word>', '<tenant>', '<user>', '', '{}', 'ops', now()), ('telegram', '<turn>o', '<tenant>', 'somebody', '', '{}', '<user>', now())`,
		`INSERT INTO chat_link_codes (hash, channel, tenant, user_id, role, scopes, linked_by, expires_at)
			VALUES (sha256('<turn>1'), 'telegram', '<tenant>', '<user>', '', '{}', 'ops', now()), (sha256('<turn>2'), 'telegram', '<tenant>', 'somebody', '', '{}', '<user>', now())`,
		`INSERT INTO chat_link_failures (channel, chat_id, since, failures) VALUES ('telegram', '<word>', now(), 1)`,
		`INSERT INTO chat_threads (channel, chat_id, thread) VALUES ('telegram', '<word>', 2)`,
		`INSERT INTO chat_turns (turn_id, channel, account, chat_id, tenant, user_id, messages, after_index, holder, held_until, created_at)
			VALUES ('<turn>-1', 'telegram', 'bot', '<word>', '<tenant>', '<user>', '{}', 0, '', now(), now())`,
		`INSERT INTO chat_questions (channel, account, chat_id, message_id, turn_id, approval_id, tool, allowed) VALUES ('telegram', 'bot', '<word>', 1, '<turn>-1', 'a', 't', '{}')`,
		`INSERT INTO schedules (tenant, name, revision, kind, document, paused, note, principal, created_by, updated_by, created_at, updated_at) VALUES
			('<tenant>', '<word>', 1, 'runs', '{"message":"<word>","user_id":"<user>"}', false, '', '{"subject":"ops"}', 'ops', 'ops', now(), now()),
			('<tenant>', '<word>2', 1, 'runs', '{"message":"<word>"}', false, '', '{"subject":"<user>"}', 'ops', 'ops', now(), now()),
			('<tenant>', 'of-<turn>', 1, 'runs', '{"cron":["0 1 * * *"],"notify":[{"telegram":{"user":"<user>"}}]}', true, 'paused by <user>', '{}', '<user>', '<user>', now(), now())`,
		`INSERT INTO schedule_runs (run_id, tenant, schedule, kind, workflow_id, turn_id, status, output, started_at) VALUES
			('<turn>r1', '<tenant>', '<word>', 'runs', 'scheduled/<turn>', '', 'completed', '<word>', now()),
			('<turn>r2', '<tenant>', 'of-<turn>', 'runs', 'scheduled/other-<turn>', '<turn>-1', 'completed', '<word>', now())`,
		`INSERT INTO schedule_notices (run_id, position, kind, target, status, attempts, at) VALUES ('<turn>r1', 0, 'email', '<word>', 'sent', 1, now())`,
		`INSERT INTO workflow_definitions (tenant, tag, owner, version, deleted) VALUES ('<tenant>', 'main', '<user>', 1, false), ('<tenant>', '<turn>', 'team', 1, false)`,
		`INSERT INTO workflow_versions (tenant, tag, owner, version, definition, hash, deleted, patch_id, description, revert_of, updated_at, updated_by) VALUES
			('<tenant>', 'main', '<user>', 1, '{}', 'h', false, '<turn>p1', '', '', now(), '<user>'), ('<tenant>', '<turn>', 'team', 1, '{}', 'h', false, '<turn>p2', '', '', now(), '<user>')`,
		`INSERT INTO workflow_requests (tenant, idempotency, request_hash, tag, owner, patch_id, version, base_version, hash, unchanged, at)
			VALUES ('<tenant>', '<turn>', 'h', 'main', '<user>', '', 1, 0, 'h', false, now())`,
		`INSERT INTO workflow_runs (run_id, tenant, workflow_id, tag, owner, version, status, input, user_id, schedule, started_at) VALUES
			('<turn>w1', '<tenant>', 'workflow/<turn>', 'main', '<user>', 1, 'completed', '["<word>", "cas://sha256:<digest>"]', '<user>', '', now()),
			('<turn>w2', '<tenant>', 'workflow/other-<turn>', 'main', 'team', 1, 'completed', '[]', 'somebody', '', now())`,
		`INSERT INTO workflow_run_steps (run_id, node_id, visit, type, status, outcome, output, ref, turn_id, started_at) VALUES
			('<turn>w1', 'n', 1, 'task', 'completed', '', '["<word>"]', '', '', now()), ('<turn>w2', 'n', 1, 'task', 'completed', '', '["<word>"]', '', '<turn>-1', now())`,
		`INSERT INTO workflow_run_attempts (run_id, node_id, visit, at) VALUES ('<turn>w1', 'n', 1, now())`,
		`INSERT INTO catalog_documents (kind, tenant, name, version, revision, source, updated_at, updated_by, deleted)
			VALUES ('Agent', '<tenant>', '<turn>', '', 1, 's', now(), '<user>', true)`,
		`INSERT INTO catalog_history (revision, kind, tenant, name, version, action, size, at, by, source, comment)
			VALUES (1, 'Agent', '<tenant>', '<turn>', '', 'deleted', 0, now(), '<user>', 's', '')`,
	}
}

func (p *person) says(sql string) string {
	return strings.NewReplacer("<tenant>", p.tenant, "<user>", p.user, "<word>", p.word, "<session>", p.session, "<shared>", p.shared, "<turn>", p.turn,
		"<digest>", strings.Repeat(p.digest, 64)).Replace(sql)
}

func (b *bench) leaves(p person) {
	b.t.Helper()
	for _, sql := range fill() {
		_, err := b.pool.Exec(b.t.Context(), p.says(sql))
		require.NoError(b.t, err, sql)
	}
}

// tables lists the tables of the schema.
func (b *bench) tables() []string {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`)
	require.NoError(b.t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	return names
}

// mentions counts, by table, the rows that have a text anywhere, whatever the column.
func (b *bench) mentions(text string) map[string]int {
	b.t.Helper()
	found := map[string]int{}
	for _, table := range b.tables() {
		var n int
		err := b.pool.QueryRow(b.t.Context(), fmt.Sprintf(`SELECT count(*) FROM %q AS r WHERE position($1 IN row_to_json(r)::text) > 0`, table), text).Scan(&n)
		require.NoError(b.t, err, table)
		if n > 0 {
			found[table] = n
		}
	}
	return found
}

// dump is every row that names one of the texts, table by table.
func (b *bench) dump(texts ...string) map[string][]string {
	b.t.Helper()
	all := map[string][]string{}
	for _, table := range b.tables() {
		rows, err := b.pool.Query(b.t.Context(), fmt.Sprintf(`SELECT t FROM (SELECT row_to_json(r)::text AS t FROM %q AS r) s
			WHERE EXISTS (SELECT FROM unnest($1::text[]) AS w WHERE position(w IN t) > 0) ORDER BY t`, table), texts)
		require.NoError(b.t, err, table)
		all[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(b.t, err, table)
	}
	return all
}

// Whoever makes a table says what an erasure does with it: it is in the list of what goes, or in that of what is spared with the reason.
func TestEveryTableIsErasedOrSpared(t *testing.T) {
	b := newBench(t, postgres.Config{})
	erased, spared := postgres.ErasedTables()
	b.leaves(person{"acme", "ann", "wisteria", "s-ann", "s-all", "t-ann", "a"})
	left := b.mentions("wisteria")
	for name, n := range b.mentions("ann") {
		left[name] += n
	}
	for _, name := range b.tables() {
		why, is := spared[name]
		switch {
		case is:
			require.NotEmpty(t, why, "%s is spared without a reason", name)
			require.NotContains(t, erased, name, "is spared and erased")
			require.Zero(t, left[name], "%s is spared, but the test has put something of a user into it", name)
		default:
			require.Contains(t, erased, name, "nothing says what an erasure does with table %s: see erasing and spared", name)
		}
	}
	for _, name := range erased {
		require.Contains(t, b.tables(), name)
		if name != "sessions" && name != "blob_refs" && name != "streams" { // they name nobody
			require.NotZero(t, left[name], "the test puts nothing into %s", name)
		}
	}
}
