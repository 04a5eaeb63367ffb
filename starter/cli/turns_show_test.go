package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestShowTurn(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip", "pay"))
	model := func(n string) agent.EventMeta { return agent.EventMeta{Producer: "model/" + n} }
	tool := agent.EventMeta{Producer: "tool/1/c1"}
	usage := &agent.Usage{InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}
	b.rt.Emit(
		"turn-1", gatewaytest.Status(agent.StatusRunning),
		agent.Event{Type: agent.EventRoute, Route: json.RawMessage(`{"agent":"analyst","reason":"rule","table":"acme/desk","rule":"trader"}`)},
		agent.Event{Type: agent.EventUsage, Meta: model("1"), Usage: usage, Model: "large"},
		agent.Event{Type: agent.EventToolStart, Meta: tool, ToolCallID: "c1", ToolName: "look", Input: json.RawMessage(`{"q":"\u202ex"}`)},
		agent.Event{Type: agent.EventToolEnd, Meta: tool, ToolCallID: "c1", ToolName: "look", Failed: true},
		agent.Event{Type: agent.EventUsage, Meta: model("2"), Usage: usage, Model: "large"},
		agent.Event{Type: agent.EventToolStart, Meta: agent.EventMeta{Producer: "tool/2/c2"}, ToolCallID: "c2", ToolName: "sum"},
		agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "turn-1.2.c3", ToolName: "pay", Args: json.RawMessage(`{"to":"ann"}`)}},
		agent.Event{Type: agent.EventInputRequested, Approval: &agent.Approval{
			ApprovalID: "turn-1.2.c'4", TurnID: "turn-1", ToolName: "pick", Kind: agent.WaitClientTool,
		}},
		gatewaytest.Status(agent.StatusWaiting),
	)
	b.show(0, "turns", "show", "turn-1")
	golden(t, "turns_show", strings.ReplaceAll(b.screen.String(), b.server, "http://127.0.0.1:8080"))
	r := answer[turnReport](b, "turns", "show", "turn-1")
	require.Equal(t, []any{"waiting", "starter approvals decide turn-1.2.c3 approve --by NAME", 4, int64(220), agent.RouteRuled},
		[]any{r.Status, r.Pending[0].Command, len(r.Steps), r.Usage.InputTokens + r.Usage.OutputTokens, r.Route.Reason})

	b.rt.Finish("turn-1", agent.TurnFailed, "")
	b.show(0, "turns", "show", "turn-1")
	golden(t, "turns_show_failed", b.screen.String())
	require.Equal(t, "the provider said no", answer[turnReport](b, "turns", "show", "turn-1").Output.Error.Message)
	b.rt.Expire(3)
	require.Contains(t, b.show(0, "turns", "show", "turn-1"), "have expired")
	b.refuses("", map[string]string{`"a/b" is no turn id`: "turns show a/b", "there is no turn": "turns show none"})
}

// A model call begins when the call before it ended, and the usage of each attempt counts.
func TestTurnReportTimes(t *testing.T) {
	at := func(second int) agent.EventMeta {
		return agent.EventMeta{Producer: "model/1", Time: time.Date(2026, 11, 1, 12, 0, second, 0, time.UTC)}
	}
	var r turnReport
	for _, e := range []agent.Event{
		{Type: agent.EventStatus, Meta: at(1)},
		{Type: agent.EventUsage, Meta: at(3), Usage: &agent.Usage{InputTokens: 1}},
		{Type: agent.EventUsage, Meta: at(7), Usage: &agent.Usage{InputTokens: 2}},
	} {
		r.addEvent(&e)
	}
	require.Equal(t, "2s 4s", formatDuration(r.Steps[0].StartedAt, r.Steps[0].EndedAt)+" "+formatDuration(r.Steps[1].StartedAt, r.Steps[1].EndedAt))
	require.Equal(t, int64(3), r.Usage.InputTokens)
}
