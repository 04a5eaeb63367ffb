package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/workflows"
)

// person is a user who leaves data in every table, with words that nobody else writes.
type person struct {
	tenant, user, word string
	session            string // of the person's own session
	shared             string // of the shared session
	turn               string // the prefix of the person's turn ids
	digest             string // one letter, of his content
}

// fill returns statements that add data of a person to all tables that hold data of users.
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
		`INSERT INTO sessions (tenant, session_id, title, titled_by) VALUES ('<tenant>', 'of-<turn>', '<word>', '<user>')`,
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
		b.exec(p.says(sql))
	}
}

// tables lists the tables of the schema.
func (b *bench) tables() []string {
	b.t.Helper()
	return column[string](b, `SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`)
}

// mentions counts the rows of each table that contain a text in any column.
func (b *bench) mentions(text string) map[string]int {
	b.t.Helper()
	found := map[string]int{}
	for _, table := range b.tables() {
		if n := value[int](b, fmt.Sprintf(`SELECT count(*) FROM %q AS r WHERE position($1 IN row_to_json(r)::text) > 0`, table), text); n > 0 {
			found[table] = n
		}
	}
	return found
}

// dump returns every row that contains one of the texts, by table.
func (b *bench) dump(texts ...string) map[string][]string {
	b.t.Helper()
	all := map[string][]string{}
	for _, table := range b.tables() {
		all[table] = column[string](b, fmt.Sprintf(`SELECT t FROM (SELECT row_to_json(r)::text AS t FROM %q AS r) s
			WHERE EXISTS (SELECT FROM unnest($1::text[]) AS w WHERE position(w IN t) > 0) ORDER BY t`, table), texts)
	}
	return all
}

// Every table is in the list of erased kinds or, with a reason, in the list of spared tables.
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
			require.Zero(t, left[name], "%s is spared, but the test stores data of a user in it", name)
		default:
			require.Contains(t, erased, name, "table %s is neither erased nor spared: see erasedKinds and sparedTables", name)
		}
	}
	for _, name := range erased {
		require.Contains(t, b.tables(), name)
		if name != "sessions" && name != "blob_refs" && name != "streams" { // they do not name users
			require.NotZero(t, left[name], "the test stores nothing in %s", name)
		}
	}
}

// erased erases a user who has only rows in the database.
func (b *bench) erased(user string) erasure.Erasure {
	b.t.Helper()
	e, err := b.CreateErasure(b.t.Context(), erasure.Request{Tenant: tenant, UserID: user, Reason: "§"}, "ops")
	require.NoError(b.t, err, user)
	b.mark(e.ID)
	b.rows(e.ID)
	e, err = b.FinishErasure(b.t.Context(), tenant, e.ID)
	require.NoError(b.t, err, user)
	require.Equal(b.t, erasure.StatusCompleted, e.Status, user)
	return e
}

// A user's name may be that of a key in a record's detail, occur across two of its strings, or be a word that the runtime writes. Erasure
// does not change other data, nor the proofs of other erasures.
func TestErasureOfAwkwardNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	record := func(subject, resource, detail string) {
		require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{{
			At: time.Now(), Tenant: tenant, Subject: subject, Credential: "key/abc", Method: "key", Action: "turns.run", Resource: resource,
			Outcome: agent.AuditAllowed, Detail: json.RawMessage(detail),
		}}))
	}
	const others = `{"mode": "durable", "note": ": ", "tags": ["x", "y", ", "], "turn_id": "t", "user_id": "bob", "empty": ""}`
	proofs := []erasure.Erasure{b.erased("first")}
	for _, user := range []string{
		"digest", "status", "erasure", "key", "agent", "user_id", "completed", ": ", ", ", `", "`, `": "`, "%", "_", `\1`, `\`, `a"b`, "(?:", "$1", "é", "{", "\u2028",
	} {
		quoted, err := json.Marshal(map[string]any{"user_id": user, "by": "user/" + user, "mode": "x" + user})
		require.NoError(t, err)
		record("bob", "agent/analyst", others)
		record(user, "agent/user/"+user, string(quoted))
		proofs = append(proofs, b.erased(user))
		e := proofs[len(proofs)-1]

		var detail, resource string
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT detail, resource FROM audit_log WHERE subject = $1 ORDER BY id DESC LIMIT 1`,
			e.Report.Pseudonym).Scan(&detail, &resource), user)
		want, err := json.Marshal(map[string]any{"user_id": e.Report.Pseudonym, "by": "user/" + e.Report.Pseudonym, "mode": "x" + user})
		require.NoError(t, err)
		require.JSONEq(t, string(want), detail, user)
		require.Equal(t, "ops", e.RequestedBy, user)
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT detail, resource FROM audit_log WHERE subject = 'bob' ORDER BY id DESC LIMIT 1`).Scan(&detail, &resource))
		if user != ": " && user != ", " { // like one of the strings
			require.JSONEq(t, others, detail, user)
		}
		require.True(t, json.Valid([]byte(detail)), user)
		require.Equal(t, "agent/analyst", resource, user)
	}
	for _, e := range proofs {
		e, err := b.Erasure(t.Context(), tenant, e.ID)
		require.NoError(t, err)
		p, err := erasure.Verify(&e, "")
		require.NoError(t, err)
		require.Empty(t, p.Faults)
		require.True(t, p.Trail)
	}
}

// A user who decided about another user's call is also named in the stream of that turn and in those of its parents. A user id may be as
// long as a turn id.
func TestErasureOfAnApprover(t *testing.T) {
	b := newBench(t, postgres.Config{})
	approver := strings.Repeat("x", erasure.MaxUserID)
	sql := strings.NewReplacer("<approver>", approver)
	for _, text := range []string{
		`INSERT INTO sessions (tenant, session_id) VALUES ('acme', 's')`,
		`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history, input,
			context, trace, parent, finished_at) SELECT 't' || i, 'acme', 's', i, 'completed', '', 'a', 'a@1', 'h', 'm', 'http', 'bob', 'queue', 'load', '[]', '{}', '',
			CASE i WHEN 1 THEN '' ELSE 't' || i - 1 END, now() FROM generate_series(1, 3) i`,
		`INSERT INTO approvals (turn_id, approval_id, tenant, call_id, step, tool_name, rule, message, decided_by)
			VALUES ('t3', 'a', 'acme', 'c', 1, 't', 'r', 'wisteria', '<approver>')`,
		`INSERT INTO streams (stream_id) VALUES ('t1'), ('t2'), ('t3')`,
		`INSERT INTO events (stream_id, event_index, size, event) SELECT 't' || i, 1, 1, json_build_object('type', 'approval_resolved', 'approval', json_build_object(
			'approval_id', 'a', 'by', '<approver>', 'message', 'wisteria', 'decided_args', 'wisteria')) FROM generate_series(1, 3) i`,
		`INSERT INTO events (stream_id, event_index, size, event) VALUES ('t1', 2, 1, '{"type":"approval_resolved","approval":{"by":"bob","message":"marigold"}}')`,
	} {
		b.exec(sql.Replace(text))
	}
	before := b.dump("marigold")
	e := b.erased(approver)
	require.EqualValues(t, 3, kindOf(t, e.Report, "events of decisions").Unnamed)
	require.Empty(t, b.mentions(approver))
	require.Empty(t, b.mentions("wisteria"))
	require.Equal(t, before, b.dump("marigold"))
	require.Len(t, b.dump(e.Report.Pseudonym)["events"], 3)
}

// outside is a fake of everything outside the store: turns that stop when they are cancelled, the executions in Temporal, and a bucket.
type outside struct {
	*bench

	mu      sync.Mutex
	deleted []string
	removed []string
}

func (o *outside) Cancel(ctx context.Context, id agent.TurnID, _ agent.CancelRequest) error {
	f := finish(string(id), "s-live")
	f.Output.Status, f.Events[1].Status = agent.TurnCancelled, agent.StatusCancelled
	_, err := o.Finish(ctx, f)
	return err
}

func (o *outside) DeleteSchedule(_ context.Context, _, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deleted = append(o.deleted, name)
	return nil
}

func (o *outside) Delete(ctx context.Context, id string) (int, error) {
	return 1, o.DeleteSchedule(ctx, "", id)
}

func (o *outside) Remove(ctx context.Context, tenant, ref string) error {
	released, err := o.Release(ctx, tenant, ref)
	if err == nil && !released {
		return agent.Errorf(agent.CodeConflict, "", "in use")
	}
	o.removed = append(o.removed, ref)
	return err
}

// This runs the workflow with its activities on a real database while a turn of the user is running.
func TestErasureWorkflow(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{BlobGrace: time.Hour})
	ann, bob := people()[0], people()[1]
	b.leaves(ann)
	b.leaves(bob)
	running := turn("live", "s-live")
	running.UserID, running.Input = "ann.lee", []agent.Message{agent.UserText("wisteria")}
	b.begin(running)
	before := b.dump("marigold")

	e := b.erasure(false)
	world := &outside{bench: b}
	eraser, err := erasure.NewEraser(erasure.EraserConfig{Store: b.Store, Turns: world, Histories: world, Blobs: world, SettleTime: time.Millisecond})
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterWorkflowWithOptions(workflows.Erasure, workflow.RegisterOptions{Name: workflows.ErasureType})
	workflows.RegisterActivities(env, activities.NewErasure(eraser))
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: tenant, ErasureID: e.ID})
	require.NoError(t, env.GetWorkflowError())

	e, err = b.Erasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusCompleted, e.Status)
	require.Empty(t, b.mentions("wisteria"))
	require.Empty(t, b.mentions("ann.lee"))
	require.Equal(t, before, b.dump("marigold"))
	require.Contains(t, world.deleted, "turn/live")
	require.Contains(t, world.deleted, "wisteria2", "the schedule")
	require.Equal(t, []string{cas("a")}, world.removed)
	require.EqualValues(t, 3, e.Report.Turns)
	require.Equal(t, e.Report.Executions.Found, e.Report.Executions.Deleted)
	proof, err := erasure.Verify(&e, "ann.lee")
	require.NoError(t, err)
	require.Empty(t, proof.Faults)
}
