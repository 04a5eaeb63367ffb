package turns_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestRoute: the route of a turn is in an event, as a summary in the history, and counted once.
func TestRoute(t *testing.T) {
	h := newHarness(t)
	rule := agent.RouteDecision{Agent: "analyst", Model: "other", Reason: agent.RouteRuled, Table: "acme/main", Rule: "billing", Revision: 7}
	h.catalog.rule = &rule
	in := turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "r"}
	out, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t1", Message: "hello"}, in)
	require.NoError(t, err)
	require.Equal(t, "rule acme/main#billing: analyst", out.Route)
	require.Equal(t, "scripted-2", out.ModelName, "the route's model")
	events := h.events("t1")
	require.Equal(t, []agent.EventType{agent.EventStatus, agent.EventRoute}, types(events))
	var d agent.RouteDecision
	require.NoError(t, json.Unmarshal(events[1].Route, &d))
	require.Equal(t, rule, d)
	require.Equal(t, []agent.RouteDecision{rule}, h.catalog.routed)

	out, err = h.Begin(t.Context(), agent.TurnRequest{TurnID: "t2", Message: "hello", Model: "default"}, turns.BeginTurnInput{WorkflowID: "turn/t2", RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, "scripted-1", out.ModelName, "the model in the request takes precedence")
}

// TestRouteTurnAndLoadPlan: both return what was recorded with the turn, in any process and even after the catalog has changed.
func TestRouteTurnAndLoadPlan(t *testing.T) {
	h := newHarness(t)
	rule := agent.RouteDecision{Agent: "analyst", Model: "other", Reason: agent.RouteRuled, Table: "acme/main", Rule: "billing", Revision: 7}
	h.catalog.rule = &rule
	h.catalog.change(func(p *agent.Plan) { p.Limits = agent.Limits{ModelCalls: 9, ToolCalls: 9} })
	begun, err := h.BeginTurn(t.Context(), json.RawMessage(`{"message":"hello","limits":{"model_calls":3},"output_schema":{"type":"object"}}`),
		turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "r", CoreVersion: turns.CoreVersion})
	require.NoError(t, err)
	require.Equal(t, turns.CoreVersion, begun.CoreVersion)
	require.Empty(t, begun.LoadPlanResult, "the history does not have it twice")
	h.catalog.change(func(p *agent.Plan) { p.Limits = agent.Limits{ModelCalls: 1} })
	h.catalog.rule = nil
	for name, worker := range map[string]*turns.Turns{"the same process": h.Turns, "another process": h.process()} {
		t.Run(name, func(t *testing.T) {
			route, err := worker.RouteTurn(t.Context(), turns.TurnInput{TurnID: "t1"})
			require.NoError(t, err)
			require.Equal(t, turns.RouteTurnResult{Agent: "analyst", Reason: agent.RouteRuled, Rule: "acme/main#billing"}, route)
			plan, err := worker.LoadPlan(t.Context(), turns.TurnInput{TurnID: "t1"})
			require.NoError(t, err)
			require.Equal(t, agent.Limits{ModelCalls: 3, ToolCalls: 9}, plan.Limits)
			require.Equal(t, "scripted-2", plan.ModelName)
			require.Positive(t, plan.Rules.StructuredTries)
		})
	}
	_, err = h.LoadPlan(t.Context(), turns.TurnInput{TurnID: "unknown"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// TestBeginKeepsTheRecordedPlan: a queued turn begins with the plan that it was recorded with, even if the catalog now has another one or
// the agent is gone.
func TestBeginKeepsTheRecordedPlan(t *testing.T) {
	h := newHarness(t)
	req := agent.TurnRequest{TurnID: "t1", SessionID: "s1", Message: "hello"}
	queued, err := h.Begin(t.Context(), req, turns.BeginTurnInput{WorkflowID: "turn/t1"})
	require.NoError(t, err)
	old := h.catalog.agents["analyst"]
	changed := old
	changed.System, changed.Limits = "You are another.", agent.Limits{ModelCalls: 1}
	for _, step := range []struct { // in this order
		name   string
		change func()
	}{
		{"changed", func() { h.catalog.put(changed) }},
		{"gone", func() { delete(h.catalog.agents, "analyst") }},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.change()
			out, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t1", SessionID: "s1", Message: "hello", Agent: "analyst"},
				turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "r"})
			require.NoError(t, err)
			require.Equal(t, turns.VerdictReady, out.Verdict)
			require.Equal(t, queued.Turn, out.Turn)
			require.Equal(t, 25, out.Limits.ModelCalls)
		})
	}
	h.model.script(says("."))
	h.callModel("t1", 1)
	require.Contains(t, h.model.seen[0].System, old.System)
	_, err = h.Begin(t.Context(), agent.TurnRequest{TurnID: "t2", SessionID: "s2", Message: "hello", Agent: "analyst"}, turns.BeginTurnInput{RunID: "r"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "a new turn is refused")
}

// TestApprovalPolicy: the approval policy in the plan takes precedence over what the tool reports about a call.
func TestApprovalPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		policy     agent.Approve
		effectFree bool
		gate       agent.Gate
		rule       string
	}{
		"harmless":                   {"", true, "", ""},
		"harmful":                    {"", false, agent.GateApproval, "not inherently safe"},
		"harmless, but always asked": {agent.ApproveAlways, true, agent.GateApproval, "always asked"},
		"harmful, and never asked":   {agent.ApproveNever, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.tool.effectFree = c.effectFree
			h.catalog.change(func(p *agent.Plan) { p.Tools[0].Approval = c.policy })
			ref := h.begin(agent.TurnRequest{TurnID: "t1"})
			h.model.script(calls(toolCall("a", `{}`)))
			v := h.callModel(ref.TurnID, 1)
			require.Equal(t, c.gate, v.Calls[0].Gate)
			require.Equal(t, c.rule, v.Calls[0].Rule)
		})
	}
}

// TestToolContext: a tool gets the parameters of its binding, the turn's input and stored content of its tenant.
func TestToolContext(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) {
		p.Tools[0].Parameters, p.Tools[0].SourceNodeName, p.Tools[0].IsFromToolkit = json.RawMessage(`{"depth":3}`), "finder", true
	})
	h.tool.effectFree = true
	ref := h.begin(agent.TurnRequest{TurnID: "t1", Messages: []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{
		agent.Text("look at this"), {Type: agent.BlockImage, ID: "picture", MIMEType: "image/png", Base64: "aGVsbG8="},
	}}}})
	stored, err := h.blobs.Put(t.Context(), "default", strings.NewReader("kept"))
	require.NoError(t, err)
	h.model.script(calls(toolCall("a", `{}`)))
	h.callModel(ref.TurnID, 1)
	h.tool.call = func(ctx context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		require.Equal(t, 3, inv.Parameter("depth", 1))
		require.Equal(t, "x", inv.Parameter("width", "x"))
		data, err := inv.InputData(ctx, 0)
		require.NoError(t, err)
		require.Contains(t, string(data), "look at this")
		_, err = inv.InputData(ctx, 1)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
		for id, want := range map[string]string{"picture": "hello", stored: "kept"} {
			r, err := inv.OpenBinary(ctx, id)
			require.NoError(t, err)
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, want, string(content))
		}
		return agent.ToolResult{Output: json.RawMessage(`1`)}, nil
	}
	h.callTool(turns.CallToolInput{TurnID: ref.TurnID, Step: 1, CallID: "a"})
	for _, e := range h.events("t1") {
		if e.Type == agent.EventToolStart || e.Type == agent.EventToolEnd {
			require.Equal(t, "finder", e.SourceNodeName)
			require.True(t, e.IsFromToolkit)
		}
	}
}

// TestRequestIsRoutedOnce: a request is checked and routed when it is accepted, and not again when its turn is recorded.
func TestRequestIsRoutedOnce(t *testing.T) {
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		o := newInboxHarness(t)
		r, err := o.Submit(t.Context(), agent.Envelope{
			Channel: "http", Principal: keyCaller("*"), Request: helloRequest(func(r *agent.TurnRequest) { r.Mode = mode }),
		})
		require.NoError(t, err)
		if mode == agent.ModeDirect {
			o.waitForResult(r.TurnID)
		}
		o.catalog.mu.Lock()
		require.Equal(t, 1, o.catalog.chosen, "%s", mode)
		o.catalog.mu.Unlock()
	}
}
