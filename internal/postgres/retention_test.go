package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// perTurnKinds returns the kinds of data of turns, in the order in which they are swept.
func perTurnKinds() []string {
	return []string{
		retention.Events, retention.Traces, retention.Results, retention.Transcripts, retention.Blobs, retention.Turns,
	}
}

// ended makes turns end a number of hours ago.
func (b *bench) ended(hours int, ids ...string) {
	b.t.Helper()
	b.exec(`UPDATE turns SET finished_at = now() - $2 * interval '1 hour' WHERE turn_id = ANY ($1)`, ids, hours)
	b.exec(`UPDATE streams SET closed_at = now() - $2 * interval '1 hour' WHERE stream_id = ANY ($1)`, ids, hours)
}

// sweep removes all data of a kind that is older than a number of hours, and returns the number of rows.
func (b *bench) sweep(of, kind string, hours int) (removed int64) {
	b.t.Helper()
	w := retention.Sweep{Tenant: of, Kind: kind, Before: time.Now().Add(-time.Duration(hours) * time.Hour), Follow: true}
	var at retention.Cursor
	for range 10_000 {
		out, err := b.SweepRetention(b.t.Context(), w, at)
		require.NoError(b.t, err)
		removed += out.Removed
		require.LessOrEqual(b.t, out.Removed, int64(1000))
		if at = out.Next; out.Done {
			return removed
		}
	}
	b.t.Fatal("the sweep has no end")
	return 0
}

// sweepAll removes all data that is older than 50 hours.
func (b *bench) sweepAll() {
	b.t.Helper()
	for _, kind := range perTurnKinds() {
		b.sweep(tenant, kind, 50)
	}
}

// requireNoDanglingRows fails the test if rows refer to rows that do not exist.
func (b *bench) requireNoDanglingRows() {
	b.t.Helper()
	for table, column := range map[string]string{
		"messages": "turn_id", "turn_steps": "turn_id", "tool_calls": "turn_id", "approvals": "turn_id", "agent_results": "turn_id",
		"prepared": "turn_id", "turn_tools": "turn_id", "streams": "stream_id",
	} {
		require.Zero(b.t, b.count(table+` x WHERE NOT EXISTS (SELECT FROM turns t WHERE t.turn_id = x.`+column+`)`), table)
	}
	require.Zero(b.t, b.count(`events x WHERE NOT EXISTS (SELECT FROM streams s WHERE s.stream_id = x.stream_id)`), "events")
	require.Zero(b.t, b.count(`blob_refs x WHERE holder LIKE 'turn/%' AND NOT EXISTS (SELECT FROM turns t WHERE 'turn/' || t.turn_id = x.holder)`), "refs")
	require.Zero(b.t, b.count(`turns t WHERE state IN ('completed', 'failed', 'cancelled') AND NOT EXISTS (SELECT FROM agent_results r WHERE r.turn_id = t.turn_id)`),
		"a turn that ended has a result, or it could be run again")
	require.Zero(b.t, b.count(`sessions s WHERE NOT EXISTS (SELECT FROM turns t WHERE t.tenant = s.tenant AND t.session_id = s.session_id)`), "sessions")
}

func TestRetentionSweepsKindByKind(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("old", "s"), cas("1"), cas("2"))
	b.live(turn("new", "s"), cas("3"), cas("4"))
	foreign := turn("theirs", "s")
	foreign.Tenant = "evil"
	b.live(foreign, cas("1"), cas("2"))
	b.ended(100, "old", "theirs")
	rows := func(table, of string) int { return b.count(table + ` WHERE turn_id = '` + of + `'`) }

	require.Positive(t, b.sweep(tenant, retention.Events, 50))
	require.Zero(t, b.count(`events WHERE stream_id = 'old'`))
	require.Equal(t, 1, b.count(`streams WHERE stream_id = 'old' AND swept AND first_index > last_index`), "followers get a gap")
	require.Positive(t, b.count(`events WHERE stream_id = 'new'`))
	require.Zero(t, b.sweep(tenant, retention.Events, 50), "nothing is left to remove")

	require.EqualValues(t, 3, b.sweep(tenant, retention.Traces, 50))
	for _, table := range []string{"tool_calls", "approvals", "prepared"} {
		require.Zero(t, rows(table, "old"), table)
		require.Equal(t, 1, rows(table, "new"), table)
	}

	require.EqualValues(t, 1, b.sweep(tenant, retention.Results, 50))
	_, err := b.Result(t.Context(), tenant, "old")
	requireCode(t, agent.CodeNotFound, err)
	require.ErrorContains(t, err, "has expired")
	require.Equal(t, 1, b.count(`agent_results WHERE turn_id = 'old' AND result_data IS NULL AND cas_id IS NULL`))
	left, err := b.Turn(t.Context(), "old")
	require.NoError(t, err)
	out := *left.Output
	require.Equal(t, agent.AgentStepOutput{
		TurnID: "old", SessionID: "s", Agent: "analyst", AgentInstanceID: "analyst@1", Status: agent.TurnCompleted, Blocks: []agent.Block{},
		ResultRef: out.ResultRef, ToolCalls: []agent.ToolCallNote{}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25},
		StopReason: agent.StopEndTurn, StreamID: "old", ExecutionTimeMS: 12, Model: "small", Structured: out.Structured, ResultPreview: out.ResultPreview,
	}, out, "who, how it ended, what it took")
	again := b.begin(turn("old", "s"))
	require.Equal(t, agent.BeginDuplicate, again.Answer, "the turn does not run again")

	require.Positive(t, b.sweep(tenant, retention.Transcripts, 50))
	require.Zero(t, rows("messages", "old"))
	require.Zero(t, rows("turn_steps", "old"))
	require.Equal(t, 1, b.count(`turns WHERE turn_id = 'old' AND input::text = '[]' AND context::text = '{}'`))
	require.Equal(t, 1, b.count(`session_notes WHERE tenant = 'acme'`), "the session continues")
	require.Equal(t, 1, b.count(`remembered_decisions WHERE tenant = 'acme'`))

	require.Positive(t, b.sweep(tenant, retention.Blobs, 50))
	require.Empty(t, b.holders(tenant, cas("1")))
	require.NotEmpty(t, b.holders(tenant, cas("3")))
	require.EqualValues(t, 1, b.sweep(tenant, retention.Turns, 50))
	require.Zero(t, rows("turns", "old"))
	require.Zero(t, b.count(`streams WHERE stream_id = 'old'`))
	b.requireNoDanglingRows()

	for _, table := range []string{"messages", "turn_steps", "tool_calls", "approvals", "prepared", "agent_results", "turns"} {
		require.Positive(t, rows(table, "theirs"), table)
	}
	require.Equal(t, []string{"turn/theirs"}, b.holders("evil", cas("1")), "data of another tenant stays")
	require.Positive(t, b.count(`events WHERE stream_id = 'theirs'`))
}

// A session continues after its oldest messages were removed.
func TestASessionGoesOnWithoutItsOldMessages(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, id := range []string{"t1", "t2", "t3"} {
		b.ready(id, "s")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("said in "+id))))
		b.finish(finish(id, "s"))
	}
	require.NoError(t, b.SetTitle(t.Context(), tenant, "s", "My trip", "ann"))
	b.ended(100, "t1", "t2")
	b.sweepAll()
	require.Equal(t, 1, b.count("turns"))
	page, err := b.Messages(t.Context(), tenant, "s", 0, 10)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.EqualValues(t, 5, page[0].Position, "positions do not change")
	begun := b.ready("t4", "s")
	require.EqualValues(t, 7, begun.Cursor)
	prompt, _, err := b.Prompt(t.Context(), agent.PromptQuery{Tenant: tenant, SessionID: "s", TurnID: "t4", Cursor: begun.Cursor, Step: 1})
	require.NoError(t, err)
	require.Len(t, prompt, 3)
	require.Equal(t, agent.RoleUser, prompt[0].Role)
	turns, err := b.Turns(t.Context(), tenant, "s", 0, 10)
	require.NoError(t, err)
	require.EqualValues(t, 4, turns[1].Seq)
	b.finish(finish("t4", "s"))
	require.Equal(t, 1, b.count(`sessions WHERE title = 'My trip'`))

	b.ended(100, "t3", "t4")
	require.Positive(t, b.sweep(tenant, retention.Transcripts, 50))
	require.Equal(t, 1, b.count(`sessions WHERE title = ''`), "the title may quote messages")
	b.sweepAll()
	for _, table := range perTurn() {
		require.Zero(t, b.count(table), table)
	}
	require.EqualValues(t, 1, b.ready("t5", "s").Cursor, "a deleted session begins again")
}

// Data of ended turns stays while another turn of the session runs or waits for a person, except for results and traces.
func TestRetentionSparesLiveSessions(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("old", "s"), cas("1"), cas("2"))
	b.ready("waits", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("waits", 1, 1, call("c1"))))
	a := approval("open")
	a.TurnID = "waits"
	require.NoError(t, b.SaveApproval(t.Context(), tenant, a))
	b.ended(1000, "old")
	b.live(turn("elsewhere", "s2"), cas("3"), cas("4"))
	b.ended(999, "elsewhere") // ends after the turn that is spared
	b.sweepAll()
	require.Positive(t, b.count(`messages WHERE turn_id = 'old'`))
	require.NotEmpty(t, b.holders(tenant, cas("1")))
	require.Zero(t, b.count(`events WHERE stream_id = 'old'`))
	require.Zero(t, b.count(`turns WHERE turn_id = 'elsewhere'`), "other sessions do not wait")
	require.Equal(t, 1, b.count(`approvals WHERE turn_id = 'waits'`))
	require.Equal(t, 1, b.count(`turn_steps WHERE turn_id = 'waits'`))

	b.finish(finish("waits", "s"))
	b.sweepAll()
	require.Zero(t, b.count(`turns WHERE turn_id = 'old'`), "the next sweep removes it")
	require.Positive(t, b.count(`messages WHERE turn_id = 'waits'`))
	b.requireNoDanglingRows()
}

func TestRetentionSparesChildrenOfLiveTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("parent", "s")
	b.live(child("c", "own", "parent"), cas("1"), cas("2"))
	b.ended(1000, "c")
	for _, kind := range perTurnKinds() {
		require.Zero(t, b.sweep(tenant, kind, 50), kind)
	}
	b.finish(finish("parent", "s"))
	b.sweepAll()
	require.Zero(t, b.count(`turns WHERE turn_id = 'c'`))
	b.requireNoDanglingRows()
}

// A sweep does not wait for locked rows, and removes them the next time.
func TestRetentionPassesOverWhatIsLocked(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s1"), cas("1"), cas("2"))
	b.live(turn("t2", "s2"), cas("1"), cas("2"))
	b.ended(1000, "t1", "t2")
	release := b.holdLock(`SELECT FROM sessions WHERE session_id = 's1' FOR UPDATE`)
	b.sweepAll()
	require.Equal(t, 1, b.count("turns"))
	release()
	b.sweepAll()
	require.Zero(t, b.count("turns"))
	require.Zero(t, b.count("sessions"))
}

func TestRetentionOfContentThatIsShared(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.recordPut(tenant, cas("1"))
	b.recordPut(tenant, cas("2"))
	b.age()
	b.live(turn("t1", "s1"), cas("1"), cas("2"))
	b.live(turn("t2", "s2"), cas("1"), cas("3"))
	b.ended(1000, "t1")
	b.sweep(tenant, retention.Transcripts, 50)
	require.Zero(t, b.sweep(tenant, retention.Blobs, 50), "the result and the trace refer to it")
	b.sweep(tenant, retention.Results, 50)
	b.sweep(tenant, retention.Traces, 50)
	require.Positive(t, b.sweep(tenant, retention.Blobs, 50))
	require.False(t, b.release(tenant, cas("1")), "the other turn refers to it")
	require.True(t, b.release(tenant, cas("2")), "nothing refers to it")
}

// A sweep that is interrupted anywhere can be repeated and then removes everything.
func TestRetentionDiesAnywhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	var ids []string
	for i := range 8 {
		id := fmt.Sprintf("t%d", i)
		b.live(turn(id, fmt.Sprintf("s%d", i%3)), cas("1"), cas("2"))
		ids = append(ids, id)
	}
	b.ended(1000, ids...)
	for _, kind := range perTurnKinds() {
		w := retention.Sweep{Tenant: tenant, Kind: kind, Before: time.Now().Add(-time.Hour), Follow: true}
		require.Error(t, b.killWhileBlocked(`SELECT FROM turns WHERE turn_id = 't0' FOR UPDATE`, func() error {
			_, err := b.SweepRetention(t.Context(), w, retention.Cursor{})
			return err
		}))
		b.requireNoDanglingRows()
		for _, after := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := b.SweepRetention(ctx, w, retention.Cursor{})
			cancel()
			_ = err // some attempts succeed
			b.requireNoDanglingRows()
		}
		require.Eventually(t, func() bool { // the server may keep the locks of the dead connection for a moment
			b.sweep(tenant, kind, 50)
			left, err := b.StoredKind(t.Context(), tenant, kind, time.Time{})
			return err == nil && left.Count == 0
		}, 10*time.Second, 10*time.Millisecond)
	}
	for _, table := range perTurn() {
		require.Zero(t, b.count(table), table)
	}
}

func TestRetentionOfLargeTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.exec(`INSERT INTO events (stream_id, event_index, size, event) SELECT 't1', n, 10, '{}' FROM generate_series(100, 4000) AS n`)
	b.ended(1000, "t1")
	require.Greater(t, b.sweep(tenant, retention.Events, 50), int64(3900), "in batches of 1,000")
	require.Zero(t, b.count("events"))
}

// Streams without a turn belong to turns that were refused.
func TestRetentionOfStreamsWithoutTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	for i := range 450 {
		id := fmt.Sprintf("refused%d", i)
		b.finish(finish(id, "none"))
	}
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.exec(`UPDATE streams SET closed_at = now() - interval '1000 hours' WHERE stream_id <> 'refused7'`)
	require.Positive(t, b.sweep("", retention.Events, 50))
	require.Equal(t, 2, b.count("streams"), "the new one, and the one with a turn")
	require.Positive(t, b.count(`events WHERE stream_id = 't1'`))
	b.exec(`UPDATE streams SET closed_at = now() - interval '60 hours' WHERE stream_id = 'refused7'`)
	require.Positive(t, b.sweep("", retention.Events, 50), "its turn begins later")
	require.Equal(t, 1, b.count("streams"))
}

func TestRetentionOfRows(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote)
		SELECT now() - (2600 - n) * interval '1 hour', CASE n % 2 WHEN 0 THEN 'acme' ELSE 'evil' END, '', '', '', 'x', '', '', '', '', '' FROM generate_series(1, 2600) AS n`)
	b.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, agent, created_at)
		SELECT 't' || n, 1, 1, 'acme', 'm', 1, 1, 0, 0, 0.1, 'a', now() - n * interval '1 hour' FROM generate_series(0, 2400) AS n`)
	b.exec(`INSERT INTO workflow_runs (run_id, tenant, workflow_id, tag, owner, version, status, user_id, schedule, started_at, finished_at)
		SELECT 'r' || n, 'acme', '', 'x', '', 1, 'x', '', '', now() - n * interval '1 hour', CASE WHEN n <> 3 THEN now() - n * interval '1 hour' END
		FROM generate_series(1, 120) AS n`)
	b.exec(`INSERT INTO workflow_run_steps (run_id, node_id, visit, type, status, outcome, ref, turn_id, started_at)
		SELECT r.run_id, 'n', n, '', '', '', '', '', now() FROM workflow_runs r, generate_series(1, 30) AS n`)
	b.exec(`INSERT INTO pipeline_shapes (tenant, shape, uses, used_at) VALUES ('acme', 'old', 1, now() - interval '9 days'), ('acme', 'tool', 1, now() - interval '9 days'), ('acme', 'new', 1, now())`)
	b.exec(`INSERT INTO pipeline_samples (tenant, shape, digest, steps, used_at) VALUES ('acme', 'old', 'x', '[]', now() - interval '9 days')`)
	b.exec(`INSERT INTO composites (tenant, id, name, description, shape, version, enabled, created_at, updated_at) VALUES ('acme', 'c', 'c', '', 'tool', 1, true, now(), now())`)
	b.exec(`INSERT INTO schedules (tenant, name, revision, kind, document, paused, note, principal, created_by, updated_by, created_at, updated_at)
		VALUES ('acme', 'n', 1, '', '{}', false, '', '{}', '', '', now(), now())`)
	b.exec(`INSERT INTO schedule_runs (run_id, tenant, schedule, kind, workflow_id, status, started_at, ended_at) SELECT 's' || n, 'acme', 'n', '', '', '', now() - n * interval '1 day',
		CASE WHEN n <> 5 THEN now() - n * interval '1 day' END FROM generate_series(1, 9) AS n`)

	require.EqualValues(t, 1300-12, b.sweep(tenant, retention.Audit, 24))
	require.Equal(t, 12, b.count(`audit_log WHERE tenant = 'acme'`))
	require.Equal(t, 1300, b.count(`audit_log WHERE tenant = 'evil'`))
	require.EqualValues(t, 0, b.sweep("", retention.Audit, 24))

	_, err := b.AddUpUsage(t.Context())
	require.NoError(t, err)
	days := b.count("usage_daily")
	require.Greater(t, b.sweep(tenant, retention.Usage, 40*24), int64(2401-40*24-1))
	require.Equal(t, 40*24, b.count("usage_ledger"))
	require.Less(t, b.count("usage_daily"), days)
	require.Zero(t, b.count(`usage_daily WHERE day < (now() - interval '41 days')::date`))
	require.Positive(t, b.count(`usage_daily WHERE day = (now() - interval '39 days')::date`))

	require.Positive(t, b.sweep(tenant, retention.Traces, 2))
	require.Equal(t, 2, b.count("workflow_runs"), "one is new, and one has not ended")
	require.Equal(t, 60, b.count("workflow_run_steps"))
	require.Equal(t, 2, b.count("pipeline_shapes"), "one is new, and one belongs to a composite")
	require.Zero(t, b.count("pipeline_samples"))
	require.Equal(t, 1, b.count("schedule_runs"), "the turn has not ended")
}

func TestRetentionRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, w := range []retention.Sweep{
		{Tenant: tenant, Kind: "everything", Before: time.Now()}, {Tenant: "", Kind: retention.Turns, Before: time.Now()}, {Tenant: tenant, Kind: retention.Audit},
	} {
		_, err := b.SweepRetention(t.Context(), w, retention.Cursor{})
		requireCode(t, agent.CodeInvalid, err)
	}
	_, err := b.SweepRetention(t.Context(), retention.Sweep{Tenant: tenant, Kind: retention.Audit, Before: time.Now()}, retention.Cursor{Stage: 1})
	requireCode(t, agent.CodeInvalid, err)
	_, err = b.StoredKind(t.Context(), tenant, "x", time.Now())
	requireCode(t, agent.CodeInvalid, err)
}

func TestStoredKind(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.live(turn("t2", "s"), cas("1"), cas("2"))
	b.ended(100, "t1")
	for _, kind := range perTurnKinds() {
		k, err := b.StoredKind(t.Context(), tenant, kind, time.Now().Add(-50*time.Hour))
		require.NoError(t, err)
		require.EqualValues(t, 2, k.Count, kind)
		require.EqualValues(t, 1, k.Due, kind)
		require.WithinDuration(t, time.Now().Add(-100*time.Hour), *k.Oldest, time.Minute)
	}
	b.sweep(tenant, retention.Events, 50)
	k, err := b.StoredKind(t.Context(), tenant, retention.Events, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 1, k.Count)
	require.Zero(t, k.Due)
	k, err = b.StoredKind(t.Context(), tenant, retention.Usage, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 2, k.Count)
	k, err = b.StoredKind(t.Context(), "", retention.Audit, time.Time{})
	require.NoError(t, err)
	require.Nil(t, k.Oldest)
}

func TestRetentionTenants(t *testing.T) {
	b := newBench(t, postgres.Config{})
	found, err := b.RetentionTenants(t.Context(), "", 0)
	require.NoError(t, err)
	require.Empty(t, found)
	for _, of := range []string{"b", "a"} {
		r := turn("t"+of, "s")
		r.Tenant = of
		b.begin(r)
	}
	require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{{At: time.Now(), Tenant: "z"}, {At: time.Now()}}))
	b.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd)
		VALUES ('acme', 1, 1, 'm', '', 1, 1, 0, 0, 0)`)
	found, err = b.RetentionTenants(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "m", "z"}, found)
	found, err = b.RetentionTenants(t.Context(), "a", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "m"}, found)
}

// Followers of a turn whose events were removed get a gap. The sweep of the log and this one have the same effect.
func TestFollowersOfSweptEventsAreToldOfAGap(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.ended(100, "t1")
	b.sweep(tenant, retention.Events, 50)
	ctx := t.Context()
	log, err := pgstream.New(ctx, pgstream.Config{Pool: b.pool})
	require.NoError(t, err)
	defer log.Stop()
	for _, err := range log.Follow(ctx, "t1", 0) {
		require.ErrorIs(t, err, agent.ErrGap)
		break
	}
	_, _, err = log.Begin(ctx, "t1", "model/2")
	require.ErrorIs(t, err, agent.ErrStreamClosed)
}

// tablesOfKinds says how long the rows of each table are kept: by the kind of retention that removes them, or another reason.
var tablesOfKinds = map[string][]string{
	retention.Events:      {"events", "stream_producers"},
	retention.Transcripts: {"messages", "turn_steps", "session_notes", "remembered_decisions", "reference_lists", "session_references", "reference_names"},
	retention.Results:     {"agent_results"},
	retention.Blobs:       {"blobs", "blob_refs"},
	retention.Traces: {
		"tool_calls", "approvals", "prepared", "turn_tools", "workflow_runs", "workflow_run_steps", "workflow_run_attempts", "schedule_runs",
		"schedule_notices", "pipeline_shapes", "pipeline_uses", "pipeline_samples",
	},
	retention.Audit: {"audit_log"},
	retention.Usage: {"usage_ledger", "usage_daily"},
	retention.Turns: {"turns", "sessions", "streams"},
	"a rule of its own": {
		"admissions", "turn_places", "result_cache", "chat_link_codes", "chat_link_failures", "chat_turns", "chat_questions", "workflow_requests",
		"retention_marks", "blob_collection", "usage_pending", "stream_peers",
	},
	"until somebody deletes it": {
		"catalog_head", "catalog_documents", "catalog_artifacts", "catalog_history", "knowledge_documents", "knowledge_chunks", "knowledge_vectors",
		"workflow_definitions", "workflow_versions", "composites", "composite_versions", "api_keys", "chat_links",
		"chat_threads", "schedules", "erasures", "erasure_counts", "erasure_marks",
		"turnstone_schema_version",
	},
}

// Every table has a kind of retention, or a reason why it has none.
func TestEveryTableHasAKind(t *testing.T) {
	b := newBench(t, postgres.Config{})
	found := b.tables()
	if !slices.Contains(found, "knowledge_vectors") { // without the extension
		found = append(found, "knowledge_vectors")
	}
	require.ElementsMatch(t, found, slices.Concat(slices.Collect(maps.Values(tablesOfKinds))...), "how long is a table kept? (docs/guides/retention.md)")
}
