package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func (b *bench) prompt(q agent.PromptQuery) []string {
	b.t.Helper()
	q.Tenant, q.SessionID = tenant, "s"
	messages, _, err := b.Prompt(b.t.Context(), q)
	require.NoError(b.t, err)
	lines := make([]string, len(messages))
	for i, m := range messages {
		lines[i] = render(m)
	}
	return lines
}

func TestPrompt(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("hello"))))
	b.finish(finish("t1", "s"))
	cursor := b.ready("t2", "s").Cursor
	require.EqualValues(t, 3, cursor)
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t2", 1, 1, agent.Text("let me see"), call("c2"), call("c1"))))
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t2", 1, "c1", 1)))
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t2", 1, "c2", 1)))
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t2", 2, 1, call("c3"))))

	past := []string{"user: question t1", "assistant: hello"}
	own := []string{"user: question t2"}
	first := []string{"assistant: let me see call(c2) call(c1)", "tool: success(c2) success(c1)"}
	second := []string{"assistant: call(c3)", "tool: error(c3)"}
	join := func(parts ...[]string) []string {
		var all []string
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	q := agent.PromptQuery{TurnID: "t2", Cursor: cursor, History: agent.HistoryLoad}
	for step, want := range map[int][]string{1: join(past, own), 2: join(past, own, first), 3: join(past, own, first, second)} {
		q.Step = step
		require.Equal(t, want, b.prompt(q), "step %d", step)
	}
	q.History = agent.HistoryFresh
	require.Equal(t, join(own, first), b.prompt(agent.PromptQuery{TurnID: "t2", Cursor: cursor, History: agent.HistoryFresh, Step: 2}))

	_, stored, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t2", Tenant: tenant, SessionID: "s", Cursor: cursor, Step: 2})
	require.NoError(t, err)
	require.Equal(t, []agent.Block{call("c3")}, stored.Blocks)
	_, stored, err = b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t2", Tenant: tenant, SessionID: "s", Cursor: cursor, Step: 3})
	require.NoError(t, err)
	require.Nil(t, stored)

	foreign, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t2", Tenant: "evil", SessionID: "s", Cursor: cursor, Step: 3})
	require.NoError(t, err)
	require.Empty(t, foreign)

	// The messages of waiting turns are not in the prompt.
	b.begin(turn("t3", "s"))
	require.Equal(t, join(past, own), b.prompt(agent.PromptQuery{TurnID: "t2", Cursor: cursor, Step: 1}))

	// Nor are messages after the cursor, if a turn that was passed over makes a late call.
	b.finish(finish("t2", "s"))
	b.ready("t3", "s")
	late := b.prompt(agent.PromptQuery{TurnID: "t2", Cursor: cursor, Step: 1})
	require.Equal(t, join(past, own), late)
}

// TestEditedCallIsShownAsItRan: in its own turn and in later ones, the model sees an edited call with the arguments that it ran with.
func TestEditedCallIsShownAsItRan(t *testing.T) {
	b := newBench(t, postgres.Config{})
	cursor := b.ready("t1", "s").Cursor
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("c1"), call("c2"))))
	b.ask(approval("a1"))
	edited := json.RawMessage(`{"q":"edited"}`)
	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, Args: edited, By: "ops"})
	require.NoError(t, err)
	ran := toolStep("t1", 1, "c1", 1)
	ran.Args = edited
	require.NoError(t, b.SaveToolStep(t.Context(), ran))
	require.NoError(t, b.SaveToolStep(t.Context(), toolStep("t1", 1, "c2", 1)))

	args := func(reply agent.Message) (all []string) {
		for _, c := range agent.ToolCalls(reply.Blocks) {
			all = append(all, string(c.Args))
		}
		return all
	}
	want := []string{string(edited), string(call("c2").Args)}
	q := agent.PromptQuery{TurnID: "t1", Tenant: tenant, SessionID: "s", Cursor: cursor, Step: 2}
	for _, store := range []*postgres.Store{b.Store, postgres.NewStore(b.pool, postgres.Config{})} { // from memory, and from the database
		messages, _, err := store.Prompt(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, args(messages[1]))
	}
	b.finish(finish("t1", "s"))
	page, err := b.Messages(t.Context(), tenant, "s", 1, 1)
	require.NoError(t, err)
	require.Equal(t, want, args(page[0].Message))
}

func TestPromptIsBounded(t *testing.T) {
	const turns = 12
	text := strings.Repeat("x", 1000)
	b := newBench(t, postgres.Config{})
	for i := range turns {
		id := fmt.Sprintf("t%02d", i)
		b.ready(id, "s")
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 1, 1, call("c1"))))
		require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "c1", 1)))
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 2, 1, agent.Text(text))))
		b.finish(finish(id, "s"))
	}
	b.ready("now", "s")
	for step := 1; step <= 3; step++ {
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep("now", step, 1, call("c1"))))
		require.NoError(t, b.SaveToolStep(t.Context(), toolStep("now", step, "c1", 1)))
	}
	const cursor = 4*turns + 1
	tests := map[string]struct {
		cfg  postgres.Config
		step int
		want int // messages
	}{
		"everything fits":         {postgres.Config{}, 1, 4*turns + 1},
		"two exchanges":           {postgres.Config{PromptMessages: 9}, 1, 9},
		"no half exchange":        {postgres.Config{PromptMessages: 12}, 1, 9},
		"steps come first":        {postgres.Config{PromptMessages: 9}, 4, 7},
		"bytes":                   {postgres.Config{PromptBytes: 2800}, 1, 9},
		"only the newest steps":   {postgres.Config{PromptMessages: 6}, 4, 5},
		"input and the last step": {postgres.Config{PromptMessages: 1}, 4, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := &bench{Store: postgres.NewStore(b.pool, test.cfg), t: t, pool: b.pool}
			got := b.prompt(agent.PromptQuery{TurnID: "now", Cursor: cursor, Step: test.step})
			require.Len(t, got, test.want, "%s", strings.Join(got, "\n"))
			require.True(t, strings.HasPrefix(got[0], "user:"), got[0])
			require.Contains(t, got, "user: question now")
		})
	}
}

func TestPromptOfLongSessionReadsOnlyItsWindow(t *testing.T) {
	b := newBench(t, postgres.Config{PromptBytes: 64 << 10})
	long := turn("long", "s")
	long.Input = nil
	for range 3000 {
		long.Input = append(long.Input, agent.UserText(strings.Repeat("y", 200)))
	}
	b.begin(long)
	b.finish(finish("long", "s"))
	cursor := b.ready("now", "s").Cursor
	got := b.prompt(agent.PromptQuery{TurnID: "now", Cursor: cursor, Step: 1})
	require.Greater(t, len(got), 200)
	require.Less(t, len(got), 330)

	page, err := b.Messages(t.Context(), tenant, "s", 0, 5000)
	require.NoError(t, err)
	require.Less(t, len(page), 330, "pages are bounded in bytes")
	rest, err := b.Messages(t.Context(), tenant, "s", page[len(page)-1].Position, 1)
	require.NoError(t, err)
	require.Len(t, rest, 1)
	require.Equal(t, page[len(page)-1].Position+1, rest[0].Position)
	_, err = b.Messages(t.Context(), "evil", "s", 0, 10)
	requireCode(t, agent.CodeNotFound, err)
}

// TestTranscriptIsReadOnce: a process reads the transcript before a turn once, and the steps of the turn each time, because another
// process may have stored some.
func TestTranscriptIsReadOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	other := &bench{Store: postgres.NewStore(b.pool, postgres.Config{}), t: t, pool: b.pool}
	q := agent.PromptQuery{TurnID: "t1", Cursor: b.ready("t1", "s").Cursor, Step: 2, Aside: "(data)"}
	require.Equal(t, []string{"user: question t1 (data)"}, b.prompt(q))

	b.exec(`UPDATE messages SET blocks = '[{"type":"text","text":"changed"}]' WHERE tenant = 'acme'`)
	require.NoError(t, other.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("said"))))
	q.Aside = ""
	require.Equal(t, []string{"user: question t1", "assistant: said"}, b.prompt(q))
	require.Equal(t, []string{"user: changed", "assistant: said"}, other.prompt(q))

	messages, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t1", Tenant: tenant, SessionID: "s", Cursor: q.Cursor, Step: 1})
	require.NoError(t, err)
	messages[0].Blocks[0] = agent.Text("cleaned by middleware")
	require.Equal(t, []string{"user: question t1", "assistant: said"}, b.prompt(q))

	b.finish(finish("t1", "s"))
	q.Step = 1
	require.Equal(t, []string{"user: changed"}, b.prompt(q), "the cache drops the turn when it ends")
}

// TestFirstTurnOfSessionReadsNothing: the process that recorded the first turn of a session has its input cached, and knows that it has no steps.
func TestFirstTurnOfSessionReadsNothing(t *testing.T) {
	b := newBench(t, postgres.Config{})
	q := agent.PromptQuery{TurnID: "t1", Cursor: b.ready("t1", "s").Cursor, History: agent.HistoryLoad, Step: 1, Aside: "(data)"}
	b.exec(`UPDATE messages SET blocks = '[{"type":"text","text":"changed"}]' WHERE tenant = 'acme'`)
	require.Equal(t, []string{"user: question t1 (data)"}, b.prompt(q))
	b.finish(finish("t1", "s"))

	q = agent.PromptQuery{TurnID: "t2", Cursor: b.ready("t2", "s").Cursor, History: agent.HistoryLoad, Step: 1}
	require.Equal(t, []string{"user: changed", "user: question t2"}, b.prompt(q), "a later turn has more than its input")
}

func TestPromptAside(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.finish(finish("t1", "s"))
	r := turn("t2", "s")
	r.Input = []agent.Message{agent.UserText("first"), agent.UserText("second")}
	cursor := b.begin(r).Cursor
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t2", 1, 1, call("c1"))))
	q := agent.PromptQuery{TurnID: "t2", Cursor: cursor, Step: 2, Aside: "(you have data)"}
	for _, q.History = range []agent.History{agent.HistoryLoad, agent.HistoryFresh} {
		lines := b.prompt(q)
		require.Equal(t, []string{"user: first", "user: second (you have data)", "assistant: call(c1)", "tool: error(c1)"}, lines[len(lines)-4:])
	}
	q.Aside = ""
	require.Contains(t, b.prompt(q), "user: second")
	require.NotContains(t, strings.Join(b.transcript("s"), "\n"), "data", "it is not stored")

	// It counts against the bound of the prompt.
	small := &bench{Store: postgres.NewStore(b.pool, postgres.Config{PromptBytes: 600}), t: t, pool: b.pool}
	q.History, q.Step = agent.HistoryLoad, 1
	require.Equal(t, []string{"user: question t1", "user: first", "user: second"}, small.prompt(q))
	q.Aside = strings.Repeat("x", 500)
	require.Equal(t, []string{"user: first", "user: second " + q.Aside}, small.prompt(q))

	// In a turn that begins with the results of client-side tools, it comes after the last user message.
	r = turn("t3", "other")
	r.Input = []agent.Message{
		agent.UserText("look"),
		{Role: agent.RoleAssistant, Blocks: []agent.Block{call("x")}},
		{Role: agent.RoleTool, Blocks: []agent.Block{toolStep("t3", 1, "x", 1).Result}},
	}
	cursor = b.begin(r).Cursor
	messages, _, err := b.Prompt(t.Context(), agent.PromptQuery{TurnID: "t3", Tenant: tenant, SessionID: "other", Cursor: cursor, Step: 1, Aside: "(data)"})
	require.NoError(t, err)
	require.Equal(t, "user: look (data)", render(messages[0]))
	require.Equal(t, "tool: success(x)", render(messages[2]))
	messages, _, err = b.Prompt(t.Context(), agent.PromptQuery{TurnID: "none", Tenant: tenant, SessionID: "other", Cursor: cursor, Step: 1, Aside: "(data)"})
	require.NoError(t, err)
	require.Equal(t, "user: look", render(messages[0]), "another turn's input is left alone")
}
