package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// foundTurns returns the ids of the turns on all pages of a size.
func (b *bench) foundTurns(q agent.TurnQuery) (ids []string) {
	b.t.Helper()
	for {
		page, err := b.FindTurns(b.t.Context(), q)
		require.NoError(b.t, err)
		for _, found := range page.Turns {
			ids = append(ids, string(found.TurnID))
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
	}
}

// foundSessions is [bench.foundTurns] for sessions.
func (b *bench) foundSessions(q agent.SessionQuery) (ids []string) {
	b.t.Helper()
	for {
		page, err := b.FindSessions(b.t.Context(), q)
		require.NoError(b.t, err)
		for _, found := range page.Sessions {
			ids = append(ids, string(found.SessionID))
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
	}
}

// someTurns stores seven turns of two sessions, a minute after one another from noon on, and one of another tenant:
// a1, a2, a4 and a6 in the session a, b3 and b5 in b, and c7, which waits behind a6. Two began at the same time: a1 and a2.
func someTurns(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, postgres.Config{})
	store := func(id, session string, minute int, change func(r *agent.TurnRecord)) {
		r := turn(id, session)
		if change != nil {
			change(&r)
		}
		b.begin(r)
		b.exec(`UPDATE turns SET created_at = $2 WHERE turn_id = $1`, id, noon.Add(time.Duration(minute)*time.Minute))
	}
	store("a1", "a", 1, func(r *agent.TurnRecord) {
		r.Input = []agent.Message{agent.UserText("Flights to LAX,\n50% off_peak <b>")}
	})
	b.finish(finish("a1", "a"))
	store("a2", "a", 1, func(r *agent.TurnRecord) { r.Channel, r.UserID = "cli", "u2" })
	failed := finish("a2", "a")
	failed.Output.Status, failed.Output.StopReason = agent.TurnFailed, "error"
	failed.Output.Error = &agent.Failure{Type: "unavailable", Message: "no"}
	failed.Output.Model = "large"
	b.finish(failed)
	store("b3", "b", 3, func(r *agent.TurnRecord) { r.Agent, r.Mode, r.Parent = "clerk", agent.ModeDirect, "a2" })
	b.finish(finish("b3", "b"))
	store("a4", "a", 4, nil)
	b.finish(finish("a4", "a"))
	store("b5", "b", 5, func(r *agent.TurnRecord) { r.UserID = "u2" })
	store("a6", "a", 6, nil)
	store("c7", "a", 7, nil)
	theirs := turn("theirs", "a")
	theirs.Tenant, theirs.Context.Tenant = "zeta", "zeta"
	b.begin(theirs)
	return b
}

func TestFindTurns(t *testing.T) {
	b := someTurns(t)
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	for name, c := range map[string]struct {
		q    agent.TurnQuery
		want string
	}{
		"all":                    {agent.TurnQuery{}, "c7 a6 b5 a4 b3 a2 a1"},
		"queued":                 {agent.TurnQuery{Status: []string{"queued"}}, "c7"},
		"live":                   {agent.TurnQuery{Status: []string{"running", "queued"}}, "c7 a6 b5"},
		"live or failed":         {agent.TurnQuery{Status: []string{"running", "failed"}}, "a6 b5 a2"},
		"cancelled":              {agent.TurnQuery{Status: []string{"cancelled"}}, ""},
		"of an agent":            {agent.TurnQuery{Agent: "clerk"}, "b3"},
		"of a user":              {agent.TurnQuery{UserID: "u2"}, "b5 a2"},
		"of a channel":           {agent.TurnQuery{Channel: "cli"}, "a2"},
		"of a session":           {agent.TurnQuery{SessionID: "b"}, "b5 b3"},
		"since":                  {agent.TurnQuery{Since: at(5)}, "c7 a6 b5"},
		"until":                  {agent.TurnQuery{Until: at(3)}, "a2 a1"},
		"between":                {agent.TurnQuery{Since: at(1), Until: at(4)}, "b3 a2 a1"},
		"with a text":            {agent.TurnQuery{Text: "QUESTION A"}, "a6 a4 a2"},
		"no pattern":             {agent.TurnQuery{Text: "50% off_peak <B>"}, "a1"},
		"a wildcard is a letter": {agent.TurnQuery{Text: "off%peak"}, ""},
		"all at once": {
			agent.TurnQuery{Status: []string{"running", "completed"}, Agent: "analyst", UserID: "u1", Channel: "http", SessionID: "a", Since: at(2), Text: "a"},
			"a6 a4",
		},
		"nothing of others":            {agent.TurnQuery{Text: "theirs"}, ""},
		"not in the id of a name":      {agent.TurnQuery{UserID: "u"}, ""},
		"a byte that no text can hold": {agent.TurnQuery{Text: "quest\x00ion b5"}, "b5"},
	} {
		for _, c.q.Limit = range []int{0, 1, 2, 3, 7} {
			c.q.Tenant = tenant
			require.Equal(t, c.want, strings.Join(b.foundTurns(c.q), " "), "%s, pages of %d", name, c.q.Limit)
		}
	}
	require.Equal(t, []string{"theirs"}, b.foundTurns(agent.TurnQuery{Tenant: "zeta"}))
	require.Empty(t, b.foundTurns(agent.TurnQuery{Tenant: agent.AnyTenant}))
}

func TestFoundTurn(t *testing.T) {
	b := someTurns(t)
	page, err := b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, Until: noon.Add(4 * time.Minute)})
	require.NoError(t, err)
	require.Len(t, page.Turns, 3)
	for i := range page.Turns {
		require.WithinDuration(t, time.Now(), *page.Turns[i].FinishedAt, time.Hour)
		page.Turns[i].FinishedAt = nil
	}
	usage := &agent.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25}
	require.Equal(t, []agent.TurnSummary{
		{
			TurnID: "b3", SessionID: "b", Agent: "clerk", UserID: "u1", Channel: "http", ParentID: "a2", Status: "completed", StopReason: agent.StopEndTurn,
			Mode: agent.ModeDirect, Model: "small", StartedAt: noon.Add(3 * time.Minute), Usage: usage, Summary: "question b3",
		},
		{
			TurnID: "a2", SessionID: "a", Agent: "analyst", UserID: "u2", Channel: "cli", Status: "failed", StopReason: "error", ErrorType: "unavailable",
			Model: "large", StartedAt: noon.Add(time.Minute), Usage: usage, Summary: "question a2",
		},
		{
			TurnID: "a1", SessionID: "a", Agent: "analyst", UserID: "u1", Channel: "http", Status: "completed", StopReason: agent.StopEndTurn,
			Model: "small", StartedAt: noon.Add(time.Minute), Usage: usage, Summary: "Flights to LAX,\n50% off_peak <b>",
		},
	}, page.Turns)
	page, err = b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, agent.TurnSummary{
		TurnID: "c7", SessionID: "a", Agent: "analyst", UserID: "u1", Channel: "http", Status: "queued", Model: "small",
		StartedAt: noon.Add(7 * time.Minute), Summary: "question c7",
	}, page.Turns[0])
}

// A turn is shown and filtered as waiting while an approval of it or of its child turns can be decided.
func TestFindTurnsThatWait(t *testing.T) {
	b := newBench(t, postgres.Config{})
	below := func(id, parent string) {
		r := turn(id, id)
		r.Parent = agent.TurnID(parent)
		b.begin(r)
	}
	ask := func(id string, a agent.Approval) {
		a.TurnID = agent.TurnID(id)
		b.ask(a)
	}
	for _, id := range []string{"approval", "provided", "decided", "expired", "ended", "top", "works"} {
		b.begin(turn(id, id))
	}
	below("middle", "top")
	below("bottom", "middle")
	b.begin(turn("queued", "bottom"))
	client := approval("c")
	client.Kind = agent.WaitClientTool
	ask("provided", client)
	for _, id := range []string{"approval", "decided", "bottom", "ended"} {
		ask(id, approval("a-"+id))
	}
	ask("expired", expiring("e", -time.Minute, agent.ExpiryEnd))
	_, err := b.ResolveApproval(t.Context(), "decided", agent.Decision{ApprovalID: "a-decided", Decision: agent.DecisionApprove})
	require.NoError(t, err)
	b.finish(finish("ended", "ended"))

	want := []string{"approval", "bottom", "middle", "provided", "top"}
	for _, limit := range []int{0, 1, 2} {
		require.ElementsMatch(t, want, b.foundTurns(agent.TurnQuery{Tenant: tenant, Status: []string{"waiting"}, Limit: limit}), "pages of %d", limit)
	}
	require.ElementsMatch(t, []string{"decided", "expired", "works"}, b.foundTurns(agent.TurnQuery{Tenant: tenant, Status: []string{"running"}}))
	require.ElementsMatch(t, append(want, "ended", "queued"),
		b.foundTurns(agent.TurnQuery{Tenant: tenant, Status: []string{"waiting", "completed", "queued"}}))
	require.Empty(t, b.foundTurns(agent.TurnQuery{Tenant: "zeta", Status: []string{"waiting"}}))

	turns, err := b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant})
	require.NoError(t, err)
	for _, s := range turns.Turns {
		require.Equal(t, slices.Contains(want, string(s.TurnID)), s.Status == agent.StateWaiting, s.TurnID)
	}
	sessions, err := b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Len(t, sessions.Sessions, 9)
	for _, s := range sessions.Sessions {
		require.Equal(t, slices.Contains(want, string(s.LastTurnID)), s.Status == agent.StateWaiting, s.SessionID)
	}
}

// New turns do not change the later pages, and invalid tokens are refused.
func TestFindPages(t *testing.T) {
	b := someTurns(t)
	q := agent.TurnQuery{Tenant: tenant, Limit: 3}
	page, err := b.FindTurns(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, page.Turns, 3)
	b.begin(turn("new", "b"))
	q.After = page.Next
	require.Equal(t, []string{"a4", "b3", "a2", "a1"}, b.foundTurns(q))

	sessions, err := b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, agent.SessionID("b"), sessions.Sessions[0].SessionID)
	b.begin(turn("newer", "b"))
	require.Equal(t, []string{"a"}, b.foundSessions(agent.SessionQuery{Tenant: tenant, Limit: 1, After: sessions.Next}), "b is not repeated")

	for _, token := range []string{"%", "bm90aGluZw", "eyJzIjotMSwiciI6ImEifQ"} {
		_, err = b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, After: token})
		requireFault(t, agent.CodeInvalid, "after", err)
		_, err = b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant, After: token})
		requireFault(t, agent.CodeInvalid, "after", err)
	}
}

func TestFindSessions(t *testing.T) {
	b := someTurns(t)
	require.NoError(t, b.SetTitle(t.Context(), tenant, "b", "My trip 50%", "ann"))
	require.NoError(t, b.SetTitle(t.Context(), "zeta", "a", "My trip 50%", "ann"))
	for _, unknown := range [][2]string{{tenant, "none"}, {"zeta", "b"}} {
		requireCode(t, agent.CodeNotFound, b.SetTitle(t.Context(), unknown[0], agent.SessionID(unknown[1]), "x", "ann"))
	}
	for name, c := range map[string]struct {
		q    agent.SessionQuery
		want string
	}{
		"all":                         {agent.SessionQuery{}, "a b"},
		"since":                       {agent.SessionQuery{Since: noon.Add(6 * time.Minute)}, "a"},
		"until":                       {agent.SessionQuery{Until: noon.Add(6 * time.Minute)}, "b"},
		"of the user of a newest one": {agent.SessionQuery{UserID: "u2"}, "b"},
		"of an agent":                 {agent.SessionQuery{Agent: "analyst"}, "a b"},
		"of a former agent":           {agent.SessionQuery{Agent: "clerk"}, ""},
		"of a channel":                {agent.SessionQuery{Channel: "cli"}, ""},
		"with a text":                 {agent.SessionQuery{Text: "lax"}, "a"},
		"with a later text":           {agent.SessionQuery{Text: "question a4"}, ""},
		"with a title":                {agent.SessionQuery{Text: "TRIP 50%"}, "b"},
		"with a title's old message":  {agent.SessionQuery{Text: "question b3"}, "b"},
		"in a state":                  {agent.SessionQuery{Status: []string{"queued", "failed"}}, "a"},
		"in a former state":           {agent.SessionQuery{Status: []string{"completed"}}, ""},
		"of an id":                    {agent.SessionQuery{SessionID: "b"}, "b"},
	} {
		for _, c.q.Limit = range []int{0, 1} {
			c.q.Tenant = tenant
			require.Equal(t, c.want, strings.Join(b.foundSessions(c.q), " "), "%s, pages of %d", name, c.q.Limit)
		}
	}
	require.Equal(t, []string{"a"}, b.foundSessions(agent.SessionQuery{Tenant: "zeta"}))
	page, err := b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant, Limit: 1})
	require.NoError(t, err)
	s := page.Sessions[0]
	require.WithinDuration(t, time.Now(), s.CreatedAt, time.Hour)
	s.CreatedAt = time.Time{}
	require.Equal(t, agent.SessionSummary{
		SessionID: "a", Summary: "Flights to LAX,\n50% off_peak <b>", Turns: 5, Agent: "analyst", UserID: "u1", Channel: "http", Status: "queued",
		LastTurnID: "c7", ActiveAt: noon.Add(7 * time.Minute),
	}, s)
	page, err = b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant, SessionID: "b"})
	require.NoError(t, err)
	require.Equal(t, "My trip 50%", page.Sessions[0].Title)
}

// A session whose newest turn was erased is found by the turn before.
func TestFindSessionWithoutItsNewestTurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, id := range []string{"t1", "t2"} {
		b.ready(id, "s")
		b.finish(finish(id, "s"))
	}
	for _, table := range []string{"messages", "agent_results", "turns"} {
		b.exec(`DELETE FROM ` + table + ` WHERE turn_id = 't2'`)
	}
	page, err := b.FindSessions(t.Context(), agent.SessionQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	require.Equal(t, agent.TurnID("t1"), page.Sessions[0].LastTurnID)
}

func TestSummary(t *testing.T) {
	b := newBench(t, postgres.Config{})
	args := json.RawMessage(`{"q":"\ud800","n":1e999999}`)
	for i, c := range []struct {
		input []agent.Message
		want  string
	}{
		{[]agent.Message{agent.UserText(strings.Repeat("é", 600))}, strings.Repeat("é", 500)},
		{[]agent.Message{agent.UserText("a\x00b")}, "a\ufffdb"},
		{[]agent.Message{agent.UserText(`a\u0000b "c"`)}, `a\ufffdb "c"`},
		{[]agent.Message{{Role: agent.RoleSystem, Blocks: []agent.Block{agent.Text("be kind")}}, agent.UserText("hello"), agent.UserText("again")}, "hello"},
		{[]agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage, URL: "https://x"}, agent.Text("look")}}}, "look"},
		{[]agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage, URL: "https://x"}}}}, ""},
		{[]agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{agent.Text("odd"), {Type: agent.BlockToolCall, ID: "c", Name: "x", Args: args}}}}, ""},
		{nil, ""},
	} {
		r := turn(fmt.Sprintf("t%d", i), fmt.Sprintf("s%d", i))
		r.Input = c.input
		b.begin(r)
		page, err := b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, SessionID: r.SessionID})
		require.NoError(t, err)
		require.Equal(t, c.want, page.Turns[0].Summary, "%d", i)
	}
	var odd []string
	for _, input := range []string{`null`, `{}`, `[1]`, `[{"role":"user","blocks":7}]`, `[{"role":"user","blocks":[{"type":"text"}]}]`} {
		var summary string
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT turnstone_summary($1::json)`, input).Scan(&summary), input)
		if summary != "" {
			odd = append(odd, input)
		}
	}
	require.Empty(t, odd)

	// An output with NUL does not break the list.
	f := finish("t0", "s0")
	f.Output.Structured = json.RawMessage(`{"x":"\ud800"}`)
	b.finish(f)
	page, err := b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, SessionID: "s0"})
	require.NoError(t, err)
	require.Equal(t, "completed", page.Turns[0].Status)
	require.Nil(t, page.Turns[0].Usage)

	b.exec(`UPDATE turns SET input = '[]' WHERE turn_id = 't0'`) // as retention does
	page, err = b.FindTurns(t.Context(), agent.TurnQuery{Tenant: tenant, SessionID: "s0"})
	require.NoError(t, err)
	require.Empty(t, page.Turns[0].Summary)
}

// A query examines 10,000 turns of its tenant, and later pages find older ones.
func TestFindLooksAtABoundedNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.fillTurns()
	old := turn("old", "old")
	old.Input = []agent.Message{agent.UserText("once upon a time")}
	b.begin(old)
	b.exec(`UPDATE turns SET created_at = created_at - interval '1 year' WHERE turn_id = 'old'`)
	for text, want := range map[string]int{"once upon": 0, "day 0,": 1} {
		q := agent.TurnQuery{Tenant: tenant, Text: text}
		page, err := b.FindTurns(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Turns, want, text)
		require.NotEmpty(t, page.Next)
		require.Len(t, b.foundTurns(q), 1, text)
	}
	require.Equal(t, []string{"old"}, b.foundSessions(agent.SessionQuery{Tenant: tenant, Text: "once upon"}))
	require.Len(t, b.foundSessions(agent.SessionQuery{Tenant: tenant, Limit: 200}), 1001)
	for name, sql := range postgres.FindStatements(tenant) {
		plan := b.explain(sql)
		require.NotContains(t, plan, "Seq Scan", "%s: %s", name, plan)
		require.Contains(t, plan, "turns_newest", "%s: %s", name, plan)
	}
}
