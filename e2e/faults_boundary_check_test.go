//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// survived checks what holds of a turn of [world] whenever its worker was killed.
func (b *bench) survived(w *world, c *boundary, receipt agent.Receipt, viewer func() []agent.Event) {
	t := b.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, events := b.follow(ctx, receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, worldAnswer, out.Output)
	require.Equal(t, worldIntro+worldAnswer, streamtest.Shown(events), "text is shown once")
	require.Equal(t, kept(events), kept(viewer()), "who stayed saw what there is to see")
	b.resumes(ctx, receipt.TurnID, events)
	shownOnce(b, events, len(w.calls))

	closed := b.closed(receipt.TurnID)
	require.Equal(t, out.Status, closed.Status)
	require.Equal(t, out.ResultRef, closed.ResultRef)
	b.replay("", receipt.TurnID.WorkflowID(), "")
	b.keptOnce(out, events, len(w.calls))
	b.answered(ctx, receipt, len(w.calls))
	b.effects(w, c, out)
	for _, e := range kept(events) {
		if e.Type == agent.EventToolEnd {
			i := slices.IndexFunc(out.ToolCalls, func(n agent.ToolCallNote) bool { return n.ID == e.ToolCallID })
			require.Equal(t, out.ToolCalls[i].Status == agent.ResultError, e.Failed, "%s: what was shown is what is stored", e.ToolName)
		}
	}

	next, err := b.client.Start(ctx, agent.TurnRequest{Message: thanks, SessionID: receipt.SessionID})
	require.NoError(t, err)
	after, _ := b.follow(ctx, next.TurnID)
	require.Equal(t, worldNext, after.Output, "the session is free")
	b.effects(w, c, out) // nobody had a late call in hand
}

// resumes follows a turn from behind each of its events.
func (b *bench) resumes(ctx context.Context, id agent.TurnID, events []agent.Event) {
	b.t.Helper()
	for after := range events {
		rest := make([]agent.Event, 0, len(events))
		for e, err := range b.client.Follow(ctx, id, events[after].Meta.EventIndex) {
			require.NoError(b.t, err)
			rest = append(rest, e)
		}
		require.Equal(b.t, events[after+1:], rest, "resumed behind event %d", after+1)
	}
}

// shownOnce checks that everything is in the stream once, what was taken back left out, and that a person was asked first.
func shownOnce(b *bench, events []agent.Event, calls int) {
	b.t.Helper()
	left := kept(events)
	for kind, want := range map[agent.EventType]int{
		agent.EventApprovalRequested: 1, agent.EventApprovalResolved: 1, agent.EventUsage: 2, agent.EventToolStart: calls, agent.EventToolEnd: calls,
	} {
		require.Equal(b.t, want, count(left, kind), "%s: %v", kind, kinds(left))
	}
	first := func(kind agent.EventType) int {
		return slices.IndexFunc(events, func(e agent.Event) bool { return e.Type == kind })
	}
	require.Less(b.t, first(agent.EventApprovalRequested), first(agent.EventApprovalResolved), "%v", kinds(events))
	require.Less(b.t, first(agent.EventApprovalResolved), first(agent.EventToolStart), "no tool ran before a person agreed: %v", kinds(events))
}

// keptOnce checks what is stored of a turn against what was shown of it.
func (b *bench) keptOnce(out *agent.AgentStepOutput, events []agent.Event, calls int) {
	b.t.Helper()
	var result struct {
		Output string `json:"output"`
	}
	require.NoError(b.t, json.Unmarshal(b.get("/v1/results/"+out.ResultRef[len("artifact://"):]), &result))
	require.Equal(b.t, out.Output, result.Output)
	conn := b.connect()
	for sql, want := range map[string]int{
		"SELECT max(event_index) FROM events WHERE stream_id = $1":                          int(lastIndex(events)),
		"SELECT sum(coalesce(cardinality(tokens) / 2, 1)) FROM events WHERE stream_id = $1": len(events),
		"SELECT count(*) FROM agent_results WHERE turn_id = $1":                             1,
		"SELECT count(*) FROM tool_calls WHERE turn_id = $1":                                calls,
		"SELECT count(*) FROM tool_calls WHERE turn_id = $1 AND status = 'unfinished'":      0,
		"SELECT count(*) FROM approvals WHERE turn_id = $1":                                 1,
		"SELECT count(*) FROM approvals WHERE turn_id = $1 AND decision = 'approve'":        1,
		"SELECT count(*) FROM messages WHERE turn_id = $1 AND role = 'user'":                1,
		"SELECT count(*) FROM messages WHERE turn_id = $1 AND role = 'assistant'":           2,
		"SELECT count(DISTINCT step) FROM usage_ledger WHERE turn_id = $1":                  2,
		"SELECT count(*) FROM turns WHERE turn_id = $1 AND state IN ('queued', 'running')":  0,
	} {
		var n int
		require.NoError(b.t, conn.QueryRow(b.t.Context(), sql, string(out.TurnID)).Scan(&n), sql)
		require.Equal(b.t, want, n, sql)
	}
}

// answered checks that every call in a session's transcript has one result, right behind it, and that there are so many.
func (b *bench) answered(ctx context.Context, receipt agent.Receipt, calls int) {
	b.t.Helper()
	page, err := b.client.Messages(ctx, receipt.SessionID, 0, 100)
	require.NoError(b.t, err)
	var open []string
	for _, m := range page.Messages {
		if m.Role != agent.RoleTool {
			require.Empty(b.t, open, "calls without a result before message %d", m.Position)
		}
		for i := range m.Blocks {
			switch block := &m.Blocks[i]; block.Type {
			case agent.BlockToolCall:
				open = append(open, block.ID)
				calls--
			case agent.BlockToolResult:
				at := slices.Index(open, string(block.ToolCallID))
				require.GreaterOrEqual(b.t, at, 0, "a result of no call: %s", block.ToolCallID)
				open = slices.Delete(open, at, at+1)
			default:
			}
		}
	}
	require.Empty(b.t, open)
	require.Zero(b.t, calls, "calls in the transcript")
}

// effects checks what the first tool of a turn has done to the world, and that the model was told what became of it.
func (b *bench) effects(w *world, c *boundary, out *agent.AgentStepOutput) {
	b.t.Helper()
	asked, effects, prompt := w.seen()
	pay := out.ToolCalls[slices.IndexFunc(out.ToolCalls, func(n agent.ToolCallNote) bool { return n.ID == callID(0) })]
	unknown := pay.Status == agent.ResultError
	for _, m := range []moment{firstAsked, secondAsked, entered("pay"), entered("reserve"), entered("look")} {
		most := 1
		if m == c.again {
			most = 2
		}
		require.LessOrEqual(b.t, asked[m], most, "asked for again: %s", m)
	}
	if c.either {
		require.LessOrEqual(b.t, effects["pay"], 1, "it takes effect once")
		require.True(b.t, unknown || effects["pay"] == 1, "what is said to be done is done")
	} else {
		require.Equal(b.t, c.effects, effects["pay"], "effects")
		require.Equal(b.t, c.unknown, unknown, "%+v", pay)
	}
	if unknown {
		require.Contains(b.t, prompt, "outcome_unknown", "the model is told")
	} else {
		require.NotContains(b.t, prompt, "outcome_unknown")
	}
	for i := range out.ToolCalls {
		if note := &out.ToolCalls[i]; note.ID != pay.ID {
			require.Equal(b.t, agent.ResultSuccess, note.Status, "%+v", note)
		}
	}
}
