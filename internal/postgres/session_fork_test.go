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
	"github.com/turnstone-run/turnstone/internal/retention"
)

func (b *bench) fork(from, turn, to string) agent.SessionForked {
	b.t.Helper()
	forked, err := b.ForkSession(b.t.Context(), tenant, agent.Fork{From: agent.SessionID(from), TurnID: agent.TurnID(turn), SessionID: agent.SessionID(to)})
	require.NoError(b.t, err)
	return forked
}

// lines returns the messages of a session, one per line, or none for an unknown session.
func (b *bench) lines(session string) (lines []string) {
	b.t.Helper()
	found, err := b.Messages(b.t.Context(), tenant, agent.SessionID(session), 0, 100)
	if agent.CodeOf(err) != agent.CodeNotFound {
		require.NoError(b.t, err)
	}
	for _, m := range found {
		lines = append(lines, fmt.Sprint(m.Position, " ", m.TurnID, " ", render(m.Message)))
	}
	return lines
}

// exportJSON returns the export of a session as JSON.
func (b *bench) exportJSON(session string) string {
	b.t.Helper()
	e, err := b.ExportSession(b.t.Context(), tenant, agent.SessionID(session))
	require.NoError(b.t, err)
	body, err := json.Marshal(e)
	require.NoError(b.t, err)
	return string(body)
}

func TestForkSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	_, err := b.AddReferences(t.Context(), tenant, "s", []agent.Reference{{Key: "doi:1", Source: "pubmed", Item: json.RawMessage(`{"title":"X"}`)}})
	require.NoError(t, err)
	b.leave("t2", dataset(cas("3"), 3))
	b.finish(finish("t2", "s"))
	b.ready("t3", "s")
	require.NoError(t, b.SetTitle(t.Context(), tenant, "s", "My trip", "ann"))
	before := b.exportJSON("s")
	spent := b.count("usage_ledger")

	forked := b.fork("s", "t2", "branch")
	require.Equal(t, agent.SessionForked{SessionID: "branch", ForkedFrom: "s", TurnID: "t2", Turns: 2, Messages: 6}, forked)
	require.Equal(t, b.lines("s")[:6], b.lines("branch"), "with the turn ids of the original")
	require.Equal(t, before, b.exportJSON("s"), "the original is not changed")
	require.Equal(t, spent, b.count("usage_ledger"), "costs are not copied")
	require.Zero(t, b.count(`remembered_decisions WHERE session_id = 'branch'`), "decisions are not copied")
	require.Zero(t, b.count(`session_notes WHERE session_id = 'branch'`))

	page, err := b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant})
	require.NoError(t, err)
	branch := page.Sessions[len(page.Sessions)-1]
	require.Equal(t, "branch s t2 question t1 2", fmt.Sprint(branch.SessionID, " ", branch.ForkedFrom, " ", branch.LastTurnID, " ", branch.Summary, " ", branch.Turns))
	require.Empty(t, branch.Title)
	require.Equal(t, []string{"t3", "t2", "t1"}, b.foundTurns(agent.TurnQuery{Tenant: tenant}), "copies are not listed as turns")

	begun := b.ready("t4", "branch")
	require.EqualValues(t, 7, begun.Cursor)
	messages, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t4", Tenant: tenant, SessionID: "branch", Cursor: begun.Cursor, Step: 1})
	require.NoError(t, err)
	require.Len(t, messages, 7, "the branch continues after the copies")
	sets, err := b.Datasets(t.Context(), tenant, "branch", "t4", 10)
	require.NoError(t, err)
	require.Len(t, sets, 1)
	require.Equal(t, "t2 "+cas("3"), fmt.Sprint(sets[0].TurnID, " ", sets[0].Ref))
	b.finish(finish("t4", "branch"))
	counts, err := b.CallCounts(t.Context(), tenant, "branch")
	require.NoError(t, err)
	require.Zero(t, counts, "copied calls do not count")
	kept, err := b.AddReferences(t.Context(), tenant, "branch", []agent.Reference{{Key: "doi:2", Source: "pubmed", Item: json.RawMessage(`{}`)}, {Key: "doi:1", Source: "pubmed", Item: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.Equal(t, "2 1", fmt.Sprint(kept[0].Number, " ", kept[1].Number), "sources keep their numbers")

	b.fork("branch", "t1", "twig")
	require.Equal(t, b.lines("s")[:3], b.lines("twig"), "a copy of a copy")
	require.Equal(t, 7, b.fork("branch", "", "whole").Messages)
}

func TestForkIsRefused(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.ready("t2", "s")
	b.begin(turn("t3", "s"))
	b.live(turn("other", "o"), cas("1"), cas("2"))
	tests := map[string]struct {
		tenant        string
		from, to      agent.SessionID
		turn          agent.TurnID
		want          agent.Code
		field, answer string
	}{
		"unknown session":        {tenant, "nowhere", "n", "", agent.CodeNotFound, "", `session "nowhere" is not known`},
		"another tenant's":       {"evil", "s", "n", "t1", agent.CodeNotFound, "", `session "s" is not known`},
		"unknown turn":           {tenant, "s", "n", "t9", agent.CodeNotFound, "turn_id", `session "s" has no turn "t9"`},
		"turn of another":        {tenant, "s", "n", "other", agent.CodeNotFound, "turn_id", `session "s" has no turn "other"`},
		"running turn":           {tenant, "s", "n", "t2", agent.CodeConflict, "turn_id", `turn "t2" has not ended`},
		"queued turn":            {tenant, "s", "n", "t3", agent.CodeConflict, "turn_id", `turn "t2" has not ended`},
		"all, while a turn runs": {tenant, "s", "n", "", agent.CodeConflict, "turn_id", `turn "t2" has not ended`},
		"session in use":         {tenant, "s", "o", "t1", agent.CodeConflict, "session_id", `session "o" has turns or messages already`},
		"itself":                 {tenant, "o", "o", "", agent.CodeConflict, "session_id", `session "o" has turns or messages already`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.ForkSession(t.Context(), test.tenant, agent.Fork{From: test.from, TurnID: test.turn, SessionID: test.to})
			requireCode(t, test.want, err)
			require.ErrorContains(t, err, test.answer)
			require.Equal(t, test.field, agent.FailureOf(err).Field)
			require.Zero(t, b.count(`sessions WHERE session_id = 'n'`), "nothing is left of it")
			require.Zero(t, b.count(`turns WHERE copy_of <> ''`))
		})
	}
}

func TestABranchOutlivesItsOriginal(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.fork("s", "", "branch")
	said := b.lines("branch")
	b.age()
	require.Empty(t, b.deleteSession("s").Refs, "the branch refers to the content")
	require.Equal(t, said, b.lines("branch"))
	require.False(t, b.release(tenant, cas("1")))
	require.Empty(t, b.deleteSession("branch").Refs, "content that a copy refers to is left to the collection")
	b.recordPut(tenant, cas("1"))
	b.age()
	require.True(t, b.release(tenant, cas("1")))
	for _, table := range perTurn() {
		require.Zero(t, b.count(table), table)
	}
}

func TestRetentionOfBranches(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("old", "s"), cas("1"), cas("2"))
	b.ended(100, "old")
	b.sweep(tenant, retention.Events, 50)
	b.sweep(tenant, retention.Results, 50)
	b.fork("s", "", "branch")
	b.live(turn("new", "branch"), cas("3"), cas("4"))
	for _, kind := range perTurnKinds()[1:] {
		b.sweep(tenant, kind, 50)
	}
	require.Empty(t, b.lines("s"))
	require.Equal(t, []string{"4 new user: question new", "5 new assistant: call(c1)", "6 new tool: success(c1)"}, b.lines("branch"),
		"a copy goes when its original does")
	require.Empty(t, b.holders(tenant, cas("1")))
	require.Zero(t, b.count(`turns WHERE turn_id <> 'new'`))
	b.requireNoDanglingRows()
}

// rerun returns the record of a turn that reruns another.
func rerun(id, session, of string, step int) agent.TurnRecord {
	r := turn(id, session)
	r.UserID, r.Rerun = "ops", &agent.Rerun{Of: agent.TurnID(of), FromStep: step}
	return r
}

func TestRerunBegins(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.live(turn("t1", "s"), cas("1"), cas("2"))
	b.live(turn("t2", "s"), cas("3"), cas("4"))
	b.live(turn("t3", "s"), cas("5"), cas("6"))
	before := b.exportJSON("s")

	steps, last, err := b.StepMessages(t.Context(), "t2", 2)
	require.NoError(t, err)
	require.Equal(t, 2, last, "its last reply has tool calls")
	require.Len(t, steps, 2)
	few := postgres.NewStore(b.pool, postgres.Config{PromptBytes: 10})
	_, _, err = few.StepMessages(t.Context(), "t2", 2)
	requireCode(t, agent.CodeOverflow, err)
	_, _, err = few.StepMessages(t.Context(), "t2", 1)
	require.NoError(t, err)
	r := rerun("again", "branch", "t2", 2)
	r.Input = append(r.Input, steps...)
	p, _, err := b.Prepared(t.Context(), "t2")
	require.NoError(t, err)
	p.Usage, r.Rerun.Prepared = agent.Usage{InputTokens: 7}, &p
	begun := b.begin(r)
	require.Equal(t, "ready true 6", fmt.Sprint(begun.Answer, " ", begun.New, " ", begun.Cursor))
	require.Equal(t, append(b.lines("s")[:3], "4 again user: question again", "5 again assistant: call(c1)", "6 again tool: success(c1)"),
		b.lines("branch"))
	require.False(t, b.begin(r).New, "once")
	require.Equal(t, before, b.exportJSON("s"))

	state, err := b.Turn(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, "t2 2", fmt.Sprint(state.RerunOf, " ", state.FromStep))
	page, err := b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "again t2 2", fmt.Sprint(page.Turns[0].TurnID, " ", page.Turns[0].RerunOf, " ", page.Turns[0].FromStep))
	require.Equal(t, []string{"again"}, b.foundTurns(agent.TurnQuery{Tenant: tenant, RerunOf: "t2"}))
	require.Empty(t, b.foundTurns(agent.TurnQuery{Tenant: tenant, RerunOf: "t1"}))
	require.Empty(t, b.foundTurns(agent.TurnQuery{Tenant: "zeta", RerunOf: "t2"}))
	prepared, ok, err := b.Prepared(t.Context(), "again")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, agent.Prepared{TurnID: "again", Tenant: tenant, Query: "q", Fence: agent.Fence{StreamID: "again"}}, prepared, "the copied preparation costs nothing")
	require.Equal(t, "turn/again", strings.Join(b.holders(tenant, cas("3"))[:1], ""), "content that its input refers to stays")

	requireCode(t, agent.CodeNotFound, beginError(b.Begin(t.Context(), rerun("x", "n", "t9", 0))))
	foreign := rerun("x", "n", "t2", 0)
	foreign.Tenant = "evil"
	requireCode(t, agent.CodeNotFound, beginError(b.Begin(t.Context(), foreign)))
	_, err = b.Begin(t.Context(), rerun("x", "s", "t2", 0))
	requireFault(t, agent.CodeConflict, "session_id", err)
	require.Zero(t, b.count(`sessions WHERE session_id = 'n'`))

	first := b.begin(rerun("first", "branch2", "t1", 0))
	require.Equal(t, "ready 1", fmt.Sprint(first.Answer, " ", first.Cursor), "it begins an empty session")
}

func beginError(_ agent.Begun, err error) error { return err }

func TestErasureOfBranches(t *testing.T) {
	b := newBench(t, postgres.Config{BlobGrace: time.Hour})
	said := func(id, session, user, text string) {
		r := turn(id, session)
		r.UserID, r.Input = user, []agent.Message{agent.UserText(text)}
		b.begin(r)
		b.finish(finish(id, session))
	}
	said("t1", "s", "ann.lee", "of wisteria")
	said("t2", "s", "bob", "of marigold")
	b.fork("s", "", "branch")
	said("t3", "branch", "bob", "of marigold again")
	again := rerun("again", "second", "t1", 0)
	again.Input = []agent.Message{agent.UserText("of wisteria")}
	b.begin(again)
	b.finish(finish("again", "second"))
	b.fork("second", "", "third")

	e := b.erasure(false)
	b.mark(e.ID)
	b.executions(e.ID)
	b.rows(e.ID)
	left, err := b.CheckErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Zero(t, left)
	require.Empty(t, b.mentions("wisteria"), "not in copies, nor in reruns by another user")
	require.Equal(t, []string{"2 t2 user: of marigold", "3 t3 user: of marigold again"}, b.lines("branch"))
	require.Zero(t, b.count(`sessions WHERE session_id IN ('second', 'third')`))
}
