package postgres_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

var _ erasure.Store = (*postgres.Store)(nil)

// people returns the user to erase, another user, one whose name contains that of the first, and one with the same name in another tenant.
func people() []person {
	return []person{
		{"acme", "ann.lee", "wisteria", "s-ann", "s-all", "t1", "a"},
		{"acme", "bob", "marigold", "s-bob", "s-all", "t2", "b"},
		{"acme", "joann.lee-2", "hyacinth", "s-joann", "s-joann2", "t3", "c"},
		{"zoo", "ann.lee", "camellia", "s-ann", "s-all", "t4", "d"},
	}
}

func (b *bench) erasure(dry bool) erasure.Erasure {
	b.t.Helper()
	e, err := b.CreateErasure(b.t.Context(), erasure.Request{Tenant: tenant, UserID: "ann.lee", Reason: "ticket 7", DryRun: dry}, "ops")
	require.NoError(b.t, err)
	return e
}

// rows calls EraseRows until nothing is left to erase.
func (b *bench) rows(id string) {
	b.t.Helper()
	for more := true; more; {
		var err error
		more, err = b.EraseRows(b.t.Context(), tenant, id)
		require.NoError(b.t, err)
	}
}

func (b *bench) mark(id string) {
	b.t.Helper()
	_, err := b.BeginErasure(b.t.Context(), tenant, id)
	require.NoError(b.t, err)
	require.NoError(b.t, b.MarkErasure(b.t.Context(), tenant, id))
}

// content removes the released content like the blob store, which asks the ledger first.
func (b *bench) content(id string, settled time.Duration) (removed int, pending int64) {
	b.t.Helper()
	free, pending, err := b.ReleaseContent(b.t.Context(), tenant, id, settled, 100)
	require.NoError(b.t, err)
	for _, c := range free {
		released, err := b.Release(b.t.Context(), tenant, c.Ref)
		require.NoError(b.t, err)
		require.True(b.t, released)
		require.NoError(b.t, b.MarkDone(b.t.Context(), tenant, id, erasure.MarkContent, []string{c.Ref}, 1, c.Bytes))
	}
	return len(free), pending
}

func (b *bench) executions(id string) []string {
	b.t.Helper()
	names, err := b.Marks(b.t.Context(), tenant, id, erasure.MarkExecution, 100)
	require.NoError(b.t, err)
	for _, name := range names { // they are found, and deleted before they are read again
		require.NoError(b.t, b.MarkFound(b.t.Context(), tenant, id, erasure.MarkExecution, name, 1))
		require.NoError(b.t, b.MarkFound(b.t.Context(), tenant, id, erasure.MarkExecution, name, 0))
	}
	require.NoError(b.t, b.MarkDone(b.t.Context(), tenant, id, erasure.MarkExecution, names, 0, 0))
	return names
}

func kindOf(t *testing.T, r *erasure.Report, name string) erasure.Kind {
	t.Helper()
	at := slices.IndexFunc(r.Kinds, func(k erasure.Kind) bool { return k.Name == name })
	require.GreaterOrEqual(t, at, 0, name)
	return r.Kinds[at]
}

// After an erasure no row contains data of the user, and rows of other users have only changed where they named the user.
func TestErasure(t *testing.T) {
	b := newBench(t, postgres.Config{BlobGrace: time.Hour})
	for _, p := range people() {
		b.leaves(p)
	}
	require.NoError(t, b.SetNote(t.Context(), tenant, "s-all", "summary", json.RawMessage(`"who spoke of wisteria"`)))
	require.NoError(t, b.SetTitle(t.Context(), tenant, "s-all", "what wisteria asked", "ops"))
	others := []string{"marigold", "hyacinth", "camellia", `"bob"`, "joann", `"zoo"`}
	before := b.dump(others...)
	require.NotEmpty(t, b.mentions("wisteria"))
	paid, spent := b.total("usage_ledger"), b.total("usage_by_day")

	dry := b.erasure(true)
	b.mark(dry.ID)
	dry, err := b.FinishErasure(t.Context(), tenant, dry.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusCompleted, dry.Status)
	require.Equal(t, before, b.dump(others...), "a dry run changes nothing")
	require.EqualValues(t, 2, kindOf(t, dry.Report, "messages").Found)
	require.Zero(t, kindOf(t, dry.Report, "messages").Removed)

	e := b.erasure(false)
	b.mark(e.ID)
	require.Subset(t, b.executions(e.ID), []string{
		"turn/t1-1", "turn/t1-2", "conversation/acme/s-ann", "conversation/acme/s-all", "workflow/t1", "scheduled/t1", "scheduled/other-t1",
	})
	schedules, err := b.Marks(t.Context(), tenant, e.ID, erasure.MarkSchedule, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"wisteria", "wisteria2"}, schedules)
	b.rows(e.ID)
	removed, pending := b.content(e.ID, 0)
	require.Equal(t, 1, removed)
	require.Zero(t, pending)
	left, err := b.CheckErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Zero(t, left)
	e, err = b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusCompleted, e.Status)

	require.Empty(t, b.mentions("wisteria"), "the user's texts")
	require.Empty(t, b.mentions(strings.Repeat("a", 64)), "the user's content")
	found := b.mentions("ann.lee")
	for table, n := range b.mentions("joann.lee") { // rows of joann, and of the other tenant
		found[table] -= n
	}
	for table, n := range found {
		require.Equal(t, b.count(table+` AS r WHERE position('ann.lee' IN row_to_json(r)::text) > 0 AND position('"tenant":"zoo"' IN row_to_json(r)::text) > 0`), n, "the user's name in %s", table)
	}
	require.Equal(t, before, b.dump(others...), "rows of others")
	require.Equal(t, paid, b.total("usage_ledger"), "the costs do not change")
	require.Equal(t, spent, b.total("usage_by_day"))

	for name, want := range map[string]int64{"turns": 2, "messages": 2, "events": 1, "sessions": 1, "schedules": 2, "api_keys": 1, "chat_links": 1, "workflow_runs": 1} {
		require.Equal(t, want, kindOf(t, e.Report, name).Removed, name)
		require.Equal(t, want, kindOf(t, dry.Report, name).Found, "%s in the dry run", name)
	}
	require.EqualValues(t, 2, kindOf(t, e.Report, "usage_ledger").Unnamed)
	require.EqualValues(t, 2, kindOf(t, e.Report, "audit_log").Unnamed)
	require.Equal(t, erasure.Content{Found: 1, Removed: 1, Bytes: 100}, e.Report.Content)
	require.Equal(t, []int64{2, 1, 1}, []int64{e.Report.Turns, e.Report.Sessions, e.Report.Shared})
	proof, err := erasure.Verify(&e, "ann.lee")
	require.NoError(t, err)
	require.Empty(t, proof.Faults)
	require.True(t, proof.Trail)
	require.Zero(t, b.count("erasure_marks"))

	again, err := b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, e, again, "an ended erasure does not change")
	_, err = b.EraseRows(t.Context(), tenant, e.ID)
	requireCode(t, agent.CodeConflict, err)
}

// total adds up all costs in a table.
func (b *bench) total(table string) string {
	b.t.Helper()
	return value[string](b, `SELECT concat_ws(' ', count(*), sum(input_tokens), sum(output_tokens), sum(cost_usd)) FROM `+table)
}

// An erasure leaves the audit trail protected against other changes.
func TestErasureLeavesTheTrailLocked(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ann := people()[0]
	b.leaves(ann)
	e := b.erasure(false)
	b.mark(e.ID)
	b.rows(e.ID)
	_, err := b.pool.Exec(t.Context(), `UPDATE audit_log SET subject = 'x'`)
	require.ErrorContains(t, err, "cannot be changed")
	var subject, remote, detail string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT subject, remote FROM audit_log WHERE action = 'turns.run'`).Scan(&subject, &remote))
	require.Equal(t, erasure.Pseudonym(e.Subject), subject)
	require.Empty(t, remote)
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT remote, detail FROM audit_log WHERE action = 'keys.write'`).Scan(&remote, &detail))
	require.Equal(t, "192.0.2.8", remote, "of another")
	require.JSONEq(t, `{"subject":"`+subject+`","who":"key/`+subject+`","n":[7]}`, detail)
}

// An erasure of more rows than one batch continues after a process has died between two batches.
func TestErasureResumes(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ann := people()[0]
	b.leaves(ann)
	const more = 2*postgres.EraseBatch + 5
	b.exec(`INSERT INTO events (stream_id, event_index, size, event) SELECT 't1-1', n + 1, 1, '["wisteria"]' FROM generate_series(1, $1::integer) n`, more)
	e := b.erasure(false)
	b.mark(e.ID)
	left, err := b.EraseRows(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.True(t, left)
	require.Equal(t, more+1-postgres.EraseBatch, b.count("events"))

	dying, die := context.WithCancel(t.Context())
	die()
	_, err = b.EraseRows(dying, tenant, e.ID)
	require.ErrorIs(t, err, context.Canceled)
	b.mark(e.ID) // the workflow repeats the round
	b.rows(e.ID)
	b.executions(e.ID)
	b.content(e.ID, 0)
	e, err = b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.EqualValues(t, more+1, kindOf(t, e.Report, "events").Removed, "each row is counted once")
	require.Empty(t, b.mentions("wisteria"))
}

// A batch whose connection is killed removes and counts nothing.
func TestErasureCountsWhatIsGone(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ann := people()[0]
	b.leaves(ann)
	e := b.erasure(false)
	b.mark(e.ID)
	err := b.killWhileBlocked(`LOCK TABLE messages IN ACCESS EXCLUSIVE MODE`, func() error {
		_, err := b.EraseRows(t.Context(), tenant, e.ID)
		return err
	})
	requireCode(t, agent.CodeUnavailable, err)
	require.Zero(t, b.count("turn_steps"), "the kinds before it are erased")
	require.Equal(t, 2, b.count("messages"))
	b.rows(e.ID)
	b.executions(e.ID)
	b.content(e.ID, 0)
	e, err = b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, kindOf(t, e.Report, "messages").Removed)
	require.EqualValues(t, 1, kindOf(t, e.Report, "turn_steps").Removed)
}

// A running turn is listed until it ends, and is erased even if it does not end; its session continues without it. Data that the user adds
// meanwhile is erased in the next round.
func TestErasureOfARunningTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	mine := turn("mine", "s")
	mine.UserID = "ann.lee"
	b.begin(mine)
	b.epoch("mine", "model/1")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("mine", 1, 1, agent.Text("wisteria"))))
	theirs := turn("theirs", "s")
	require.Equal(t, agent.BeginBehind, b.begin(theirs).Answer)

	e := b.erasure(false)
	b.mark(e.ID)
	live, err := b.LiveTurns(t.Context(), tenant, e.ID, 10)
	require.NoError(t, err)
	require.Equal(t, []agent.TurnID{"mine"}, live)
	b.rows(e.ID)
	second := turn("second", "s2")
	second.UserID = "ann.lee"
	b.begin(second)
	require.NoError(t, b.MarkErasure(t.Context(), tenant, e.ID))
	left, err := b.CheckErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.NotZero(t, left, "the turn that has begun meanwhile")
	b.rows(e.ID)
	left, err = b.CheckErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Zero(t, left)

	b.finish(finish("mine", "s")) // a worker that has not stopped: the turn is gone, but its last events are stored
	left, err = b.CheckErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.NotZero(t, left)
	b.rows(e.ID)
	require.Empty(t, b.mentions("answer mine"))
	require.Equal(t, agent.BeginReady, b.begin(theirs).Answer, "the session continues")
	b.finish(finish("theirs", "s"))
	third := turn("third", "s")
	third.UserID = "ann.lee"
	begun := b.begin(third)
	require.Equal(t, agent.BeginReady, begun.Answer)
	past, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "third", Tenant: tenant, SessionID: "s", Cursor: begun.Cursor, History: agent.HistoryLoad})
	require.NoError(t, err)
	text, err := json.Marshal(past)
	require.NoError(t, err)
	require.Contains(t, string(text), "question theirs")
	require.NotContains(t, string(text), "wisteria")
}

// Content that others refer to stays. Content that was stored recently waits, because whoever stored it may be about to refer to it.
func TestErasureOfContent(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{BlobGrace: time.Hour})
	ann, bob := people()[0], people()[1]
	bob.digest = ann.digest
	b.leaves(ann)
	b.leaves(bob)
	e := b.erasure(false)
	b.mark(e.ID)
	b.rows(e.ID)
	removed, pending := b.content(e.ID, 0)
	require.Zero(t, removed, "bob refers to it")
	require.Zero(t, pending)
	e, err := b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Report.Content.Shared)
	require.Equal(t, erasure.StatusIncomplete, e.Status, "the executions are not deleted")

	b = newBench(t, postgres.Config{BlobGrace: time.Hour})
	b.leaves(ann)
	e = b.erasure(false)
	b.mark(e.ID)
	b.rows(e.ID)
	require.NoError(t, b.RecordPut(t.Context(), tenant, cas("a"), 100))
	removed, pending = b.content(e.ID, time.Hour)
	require.Zero(t, removed)
	require.EqualValues(t, 1, pending)
	removed, pending = b.content(e.ID, 0)
	require.Equal(t, 1, removed, "before the end of the grace period")
	require.Zero(t, pending)
	removed, _ = b.content(e.ID, 0)
	require.Zero(t, removed, "once")
}

func TestCreateErasure(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for field, r := range map[string]erasure.Request{
		"user_id": {Tenant: tenant, Reason: "r"},
		"reason":  {Tenant: tenant, UserID: "ann", Reason: "ann asked for it"},
		"tenant":  {UserID: "ann", Reason: "r"},
	} {
		_, err := b.CreateErasure(t.Context(), r, "ops")
		requireFault(t, agent.CodeInvalid, field, err)
	}
	e := b.erasure(false)
	require.Equal(t, e, b.erasure(false), "an active erasure is returned")
	require.NotEqual(t, e.ID, b.erasure(true).ID)
	_, err := b.Erasure(t.Context(), "zoo", e.ID)
	requireFault(t, agent.CodeNotFound, "erasure_id", err)
	requireFault(t, agent.CodeNotFound, "erasure_id", b.MarkErasure(t.Context(), "zoo", e.ID))

	require.NoError(t, b.FailErasure(t.Context(), tenant, e.ID, "no way for ann.lee"))
	failed, err := b.Erasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusFailed, failed.Status)
	require.Equal(t, "no way for …", failed.Error)
	requireCode(t, agent.CodeConflict, b.MarkErasure(t.Context(), tenant, e.ID))
	next := b.erasure(false)
	require.NotEqual(t, e.ID, next.ID)
	require.NotEqual(t, e.Subject, next.Subject, "it has another salt")
	own, err := b.CreateErasure(t.Context(), erasure.Request{Tenant: tenant, UserID: "dan", Reason: "r"}, "dan")
	require.NoError(t, err)
	require.Equal(t, erasure.Pseudonym(own.Subject), own.RequestedBy)

	page, err := b.Erasures(t.Context(), tenant, agent.Page{Size: 3})
	require.NoError(t, err)
	require.Equal(t, []string{own.ID, next.ID}, []string{page.Erasures[0].ID, page.Erasures[1].ID})
	rest, err := b.Erasures(t.Context(), tenant, agent.Page{Token: page.Next})
	require.NoError(t, err)
	require.Len(t, rest.Erasures, 1)
	require.Empty(t, rest.Next)
}

// A change of a report, of its digest or of both is detected.
func TestErasureProof(t *testing.T) {
	b := newBench(t, postgres.Config{})
	e := b.erasure(false)
	b.mark(e.ID)
	e, err := b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	faults := func(user string) []string {
		read, err := b.Erasure(t.Context(), tenant, e.ID)
		require.NoError(t, err)
		p, err := erasure.Verify(&read, user)
		require.NoError(t, err)
		return p.Faults
	}
	require.Empty(t, faults("ann.lee"))
	require.Equal(t, []string{"the report is about another user"}, faults("bob"))
	b.exec(`UPDATE erasures SET report = replace(report::text, '"removed":0', '"removed":9')::json`)
	require.Len(t, faults(""), 2)
	read, err := b.Erasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	digest, err := read.Report.Digest()
	require.NoError(t, err)
	b.exec(`UPDATE erasures SET digest = $1`, digest)
	require.Equal(t, []string{"the report is not the one that the audit trail has the digest of"}, faults(""))
	require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{{
		Tenant: tenant, Action: erasure.ActionWrite, Resource: "erasure/" + e.ID, Outcome: agent.AuditAllowed, Detail: json.RawMessage(`{"digest":"` + digest + `"}`),
	}}))
	require.Len(t, faults(""), 1, "the first record counts")
	_, err = erasure.Verify(&erasure.Erasure{ID: "x"}, "")
	requireCode(t, agent.CodeConflict, err)
}
