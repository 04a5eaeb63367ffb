package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// cas returns the reference of content that does not exist.
func cas(digit string) string { return "cas://sha256:" + strings.Repeat(digit, 64) }

// perTurn lists the tables that have rows of a turn after [bench.live].
func perTurn() []string {
	return []string{
		"turns", "messages", "turn_steps", "tool_calls", "agent_results", "approvals", "prepared", "remembered_decisions", "session_notes",
		"streams", "stream_producers", "events", "sessions",
	}
}

// live runs a turn that adds rows to every table: with a call whose result is stored under toolRef, and a result under resultRef.
func (b *bench) live(r agent.TurnRecord, toolRef, resultRef string) {
	b.t.Helper()
	id, session := string(r.TurnID), string(r.SessionID)
	require.Equal(b.t, agent.BeginReady, b.begin(r).Answer)
	b.epoch(id, "model/1")
	require.NoError(b.t, b.SavePrepared(b.t.Context(), agent.Prepared{TurnID: r.TurnID, Tenant: r.Tenant, Query: "q"}))
	m := modelStep(id, 1, 1, call("c1"))
	m.Tenant = r.Tenant
	require.NoError(b.t, b.SaveModelStep(b.t.Context(), m))
	t := toolStep(id, 1, "c1", 1)
	t.Tenant, t.Result.Ref, t.Verdict.Ref = r.Tenant, toolRef, toolRef
	require.NoError(b.t, b.SaveToolStep(b.t.Context(), t))
	a := approval("a-" + id)
	a.TurnID = r.TurnID
	require.NoError(b.t, b.SaveApproval(b.t.Context(), r.Tenant, a))
	_, err := b.ResolveApproval(b.t.Context(), r.TurnID, agent.Decision{ApprovalID: a.ApprovalID, Decision: agent.DecisionApprove, By: "ops", Remember: true})
	require.NoError(b.t, err)
	require.NoError(b.t, b.SetNote(b.t.Context(), r.Tenant, r.SessionID, "summary", json.RawMessage(`"short"`)))
	f := finish(id, session)
	f.Tenant, f.CASID = r.Tenant, strings.TrimPrefix(resultRef, "cas://")
	b.finish(f)
}

func child(id, session, parent string) agent.TurnRecord {
	r := turn(id, session)
	r.Parent = agent.TurnID(parent)
	return r
}

func (b *bench) deleteSession(session string) agent.SessionDeleted {
	b.t.Helper()
	gone, err := b.DeleteSession(b.t.Context(), tenant, agent.SessionID(session))
	require.NoError(b.t, err)
	require.EqualValues(b.t, session, gone.SessionID)
	require.Len(b.t, gone.Refs, gone.Blobs)
	return gone
}

func TestExportSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.ready("t2", "s")
	b.live(turn("t3", "other"), cas("3"), cas("4"))
	require.NoError(t, b.SetTitle(t.Context(), tenant, "s", "My trip", "ann"))
	e, err := b.ExportSession(t.Context(), tenant, "s")
	require.NoError(t, err)
	require.Equal(t, tenant+" My trip", e.Tenant+" "+e.Title)
	require.EqualValues(t, "s", e.SessionID)
	require.WithinDuration(t, time.Now(), e.CreatedAt, time.Minute)
	lines := make([]string, len(e.Messages))
	for i, m := range e.Messages {
		lines[i] = fmt.Sprint(m.Position, " ", m.TurnID, " ", render(m.Message))
		require.False(t, m.CreatedAt.IsZero())
	}
	require.Equal(t, []string{"1 t1 user: question t1", "2 t1 assistant: call(c1)", "3 t1 tool: success(c1)", "4 t2 user: question t2"}, lines)
	require.Len(t, e.Turns, 2)
	require.Equal(t, "completed", e.Turns[0].State)
	require.Equal(t, "answer t1", e.Turns[0].Output.Output)
	require.NotNil(t, e.Turns[0].FinishedAt)
	require.Equal(t, agent.StateRunning, e.Turns[1].State)
	require.Equal(t, "analyst http u1", strings.Join([]string{e.Turns[1].Agent, e.Turns[1].Channel, e.Turns[1].UserID}, " "))
	require.Nil(t, e.Turns[1].Output)
	require.Len(t, e.Approvals, 1)
	require.Equal(t, "ops", e.Approvals[0].By)
	require.Len(t, e.Notes, 1)
	require.JSONEq(t, `"short"`, string(e.Notes[0].Body))

	for who, session := range map[string]agent.SessionID{"evil": "s", tenant: "nowhere"} {
		_, err = b.ExportSession(t.Context(), who, session)
		requireCode(t, agent.CodeNotFound, err)
	}
	empty := turn("t4", "empty")
	empty.Input = nil
	b.begin(empty)
	e, err = b.ExportSession(t.Context(), tenant, "empty")
	require.NoError(t, err)
	body, err := json.Marshal(e)
	require.NoError(t, err)
	require.Contains(t, string(body), `"messages":[]`)
	require.Contains(t, string(body), `"approvals":[],"notes":[],"references":[]`)

	kept, err := b.AddReferences(t.Context(), tenant, "empty", []agent.Reference{{Key: "doi:10.1/x", Aliases: []string{"pmid:1"}, Source: "pubmed", Item: json.RawMessage(`{"title":"X"}`)}})
	require.NoError(t, err)
	e, err = b.ExportSession(t.Context(), tenant, "empty")
	require.NoError(t, err)
	require.Equal(t, kept, e.References)
}

func TestDeleteSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("k1", "kept"), cas("8"), cas("9"))
	before := map[string]int{}
	for _, table := range perTurn() {
		before[table] = b.count(table)
		require.Positive(t, before[table], table)
	}
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.live(turn("t2", "s"), cas("3"), "")
	for _, who := range []string{"evil", "*"} {
		_, err := b.DeleteSession(t.Context(), who, "s")
		requireCode(t, agent.CodeNotFound, err)
	}

	gone := b.deleteSession("s")
	require.Equal(t, 2, gone.Turns)
	require.Equal(t, 6, gone.Messages)
	require.Equal(t, []string{cas("1"), cas("2"), cas("3")}, gone.Refs)
	for table, want := range before {
		require.Equal(t, want, b.count(table), table)
	}
	require.Equal(t, 3, b.count("usage_ledger"), "the ledger rows stay")
	_, err := b.Turn(t.Context(), "t1")
	requireCode(t, agent.CodeNotFound, err)
	for id, want := range map[agent.TurnID]bool{"t1": false, "k1": true} {
		kept, err := b.HasStream(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, kept, id)
	}
	_, err = b.DeleteSession(t.Context(), tenant, "s")
	requireCode(t, agent.CodeNotFound, err)
	require.Equal(t, []string{"user: question k1", "assistant: call(c1)", "tool: success(c1)"}, b.transcript("kept"))
	b.live(turn("t1", "s"), "", "")
}

func TestDeleteSessionInUse(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.begin(turn("t2", "s"))
	refused := func(session agent.SessionID) {
		t.Helper()
		_, err := b.DeleteSession(t.Context(), tenant, session)
		requireCode(t, agent.CodeConflict, err)
	}
	refused("s")
	b.finish(finish("t1", "s"))
	refused("s") // t2 has got the session
	b.ready("t2", "s")
	b.begin(child("c1", "below", "t2"))
	b.finish(finish("t2", "s"))
	refused("s") // a child turn runs
	require.Equal(t, 3, b.count("turns"))
	b.finish(finish("c1", "below"))
	require.Equal(t, 3, b.deleteSession("s").Turns)
}

// Content stays while anything else of the tenant refers to it, in any column.
func TestDeleteSessionKeepsWhatOthersReferTo(t *testing.T) {
	t.Parallel()
	shared := cas("5")
	mention := func(text string) func(b *bench) {
		return func(b *bench) {
			r := turn("o1", "other")
			r.Input = []agent.Message{agent.UserText(text)}
			b.begin(r)
			b.finish(finish("o1", "other"))
		}
	}
	tests := map[string]struct {
		other func(b *bench)
		keeps bool
	}{
		"nobody":               {func(*bench) {}, false},
		"a tool call":          {func(b *bench) { b.live(turn("o1", "other"), shared, "") }, true},
		"a result":             {func(b *bench) { b.live(turn("o1", "other"), "", shared) }, true},
		"a message":            {mention("look at " + shared + "."), true},
		"a message of another": {mention("look at " + cas("6")), false},
		"a longer number":      {mention("look at " + strings.Repeat("5", 64)), false},
		"a waiting turn": {func(b *bench) {
			b.ready("o1", "other")
			r := turn("o2", "other")
			r.Input = []agent.Message{agent.UserText(shared)}
			b.begin(r)
		}, true},
		"a running turn": {func(b *bench) {
			b.ready("o1", "other")
			s := toolStep("o1", 1, "c1", 1)
			s.Verdict.Ref = shared
			require.NoError(b.t, b.SaveToolStep(b.t.Context(), s))
		}, true},
		"a note": {func(b *bench) {
			b.ready("o1", "other")
			require.NoError(b.t, b.SetNote(b.t.Context(), tenant, "other", "summary", json.RawMessage(`"see `+shared+`"`)))
		}, true},
		"another tenant": {func(b *bench) {
			r := turn("o1", "other")
			r.Tenant = "evil"
			b.live(r, shared, shared)
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Config{})
			b.live(turn("t1", "s"), shared, cas("7"))
			b.live(turn("t2", "s"), shared, "")
			test.other(b)
			want := []string{shared, cas("7")}
			if test.keeps {
				want = want[1:]
			}
			require.Equal(t, want, b.deleteSession("s").Refs)
		})
	}
}

// Content that a person has only mentioned is not removed with the session.
func TestDeleteSessionRemovesOnlyWhatItStored(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := turn("t1", "s")
	r.Input = []agent.Message{agent.UserText(cas("6"))}
	b.live(r, "", "artifact://x")
	require.NotContains(t, b.deleteSession("s").Refs, cas("6"))
}

func TestDeleteSessionTakesChildTurnsAlong(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), "")
	b.live(child("c1", "child", "t1"), cas("2"), cas("1"))
	b.live(child("c2", "grandchild", "c1"), cas("3"), "")
	b.live(child("x1", "both", "c1"), cas("4"), "") // in a session that has other turns, too
	b.live(turn("x2", "both"), "", "")
	b.live(child("x3", "below both", "x1"), "", "")
	b.live(child("own", "s", "t1"), "", "")
	foreign := child("f1", "child", "t1")
	foreign.Tenant = "evil"
	b.live(foreign, "", "")

	gone := b.deleteSession("s")
	require.Equal(t, 4, gone.Turns)
	require.Equal(t, 12, gone.Messages)
	require.Equal(t, []string{cas("1"), cas("2"), cas("3")}, gone.Refs)
	require.Equal(t, []string{"f1", "x1", "x2", "x3"}, column[string](b, `SELECT turn_id FROM turns ORDER BY turn_id`))
}
