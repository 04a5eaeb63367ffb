package turns_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// beginWithCall begins a turn whose first reply has one tool call.
func beginWithCall(t *testing.T, free bool, change ...func(*turns.Config)) (*harness, turns.CallToolInput) {
	t.Helper()
	h := newHarness(t, change...)
	h.tool.effectFree = free
	ref := h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(calls(toolCall("a", `{"q":1}`)))
	h.callModel(ref.TurnID, 1)
	return h, turns.CallToolInput{TurnID: ref.TurnID, Step: 1, CallID: "a"}
}

func returns(r agent.ToolResult, err error) func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) { return r, err }
}

func (h *harness) result() agent.ToolStep {
	h.t.Helper()
	_, tools, err := h.store.Steps(h.t.Context(), "t1")
	require.NoError(h.t, err)
	require.Len(h.t, tools, 1)
	return tools[0]
}

func TestToolRunsOnce(t *testing.T) {
	h, in := beginWithCall(t, true)
	h.tool.call = func(_ context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		require.JSONEq(t, `{"q":1}`, string(call.Args))
		require.Equal(t, "t1/1/a", inv.IdempotencyKey)
		require.Equal(t, agent.SessionID("s1"), inv.SessionID)
		inv.Report("half way")
		return agent.ToolResult{Output: json.RawMessage(`{"rows":[]}`)}, nil
	}
	for range 2 {
		v := h.callTool(in)
		require.Equal(t, agent.ToolVerdict{ID: "a"}, v)
	}
	require.Equal(t, 1, h.tool.count)
	var kinds []agent.EventType
	for _, e := range h.events("t1") {
		if e.ToolCallID == "a" {
			kinds = append(kinds, e.Type)
		}
	}
	require.Equal(t, []agent.EventType{agent.EventToolStart, agent.EventToolProgress, agent.EventToolEnd}, kinds)
}

func TestFailedToolIsData(t *testing.T) {
	h, in := beginWithCall(t, true)
	h.tool.call = returns(agent.ToolResult{Failure: &agent.Failure{Type: "invalid", Message: "no such column", Step: "table_sort"}}, nil)
	v := h.callTool(in)
	require.True(t, v.Failed)
	require.JSONEq(t, `{"error":{"type":"invalid","message":"no such column","step":"table_sort","retryable":false}}`, string(h.result().Result.Output))
}

func TestUnreachableToolIsRetriedAndThenData(t *testing.T) {
	h, in := beginWithCall(t, true)
	h.tool.call = returns(agent.ToolResult{}, agent.Errorf(agent.CodeUnavailable, "", "no route to host"))
	for range 2 {
		_, err := h.CallTool(t.Context(), in)
		require.ErrorContains(t, err, "no route to host", "Temporal has to retry")
	}
	v, err := h.CallTool(t.Context(), in)
	require.NoError(t, err, "the model gets the error in the end")
	require.True(t, v.Failed)
	require.Equal(t, 3, h.tool.count)
}

func TestSideEffectsAreNotRepeated(t *testing.T) {
	h, in := beginWithCall(t, false)
	ctx, die := context.WithCancel(t.Context())
	h.tool.call = func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		die() // the worker dies after the effect and before the result is stored
		return agent.ToolResult{}, context.Canceled
	}
	_, err := h.CallTool(ctx, in)
	require.Error(t, err)
	v := h.callTool(in)
	require.True(t, v.Failed)
	require.Contains(t, string(h.result().Result.Output), "outcome_unknown")
	require.Equal(t, 1, h.tool.count)
}

func TestLargeOutputGoesToTheBlobStore(t *testing.T) {
	h, in := beginWithCall(t, true)
	rows := `["` + strings.Repeat("x", 40<<10) + `"]`
	h.tool.call = returns(agent.ToolResult{
		Output: json.RawMessage(`{"rows":` + rows + `}`), Data: json.RawMessage(rows), Preview: json.RawMessage(`{"type":"dataset","row_count":1}`),
	}, nil)
	v := h.callTool(in)
	require.True(t, strings.HasPrefix(v.Ref, "cas://sha256:"), v.Ref)
	step := h.result()
	require.JSONEq(t, `{"ref":"`+v.Ref+`","preview":{"type":"dataset","row_count":1}}`, string(step.Result.Output))
	require.JSONEq(t, rows, string(step.Data), "the result has the whole output")
	for _, e := range h.events("t1") {
		require.Less(t, len(e.Output), 1024)
	}
}

func TestCancelledTurnRunsNoTool(t *testing.T) {
	h, in := beginWithCall(t, true)
	require.NoError(t, h.MarkCancelled(t.Context(), "t1"))
	v := h.callTool(in)
	require.True(t, v.Cancelled)
	require.Zero(t, h.tool.count)
}

func TestApproval(t *testing.T) {
	h, in := beginWithCall(t, false)
	h.tool.call = func(_ context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: call.Args}, nil
	}
	out, err := h.RequestApproval(t.Context(), turns.RequestApprovalInput{TurnID: in.TurnID, Step: 1, Calls: []turns.ApprovalCall{{ID: "a", Rule: "r"}}})
	require.NoError(t, err)
	id := out.Pending[0].ApprovalID

	refusals := map[string]agent.Decision{
		"decision":    {ApprovalID: id, Decision: "maybe"},
		"args":        {ApprovalID: id, Decision: agent.DecisionEdit, Args: json.RawMessage(`[1]`)},
		"args given":  {ApprovalID: id, Decision: agent.DecisionApprove, Args: json.RawMessage(`{}`)},
		"message":     {ApprovalID: id, Decision: agent.DecisionRespond},
		"approval_id": {Decision: agent.DecisionApprove},
		"unknown":     {ApprovalID: "nope", Decision: agent.DecisionApprove},
	}
	for name, d := range refusals {
		r, err := h.Decide(t.Context(), turns.DecideInput{TurnID: in.TurnID, Decision: d})
		require.NoError(t, err, name)
		require.Nil(t, r.Verdict, name)
		require.NotEmpty(t, r.Refusal.Message, name)
	}
	edit := agent.Decision{ApprovalID: id, Decision: agent.DecisionEdit, Args: json.RawMessage(`{"q":2}`), By: "ann"}
	r := h.decide(in.TurnID, edit)
	require.True(t, r.Verdict.Run)
	r = h.decide(in.TurnID, agent.Decision{ApprovalID: id, Decision: agent.DecisionReject, By: "bob"})
	require.Equal(t, "conflict", r.Refusal.Type, "a second decision is refused")

	in.Decided = true
	h.callTool(in)
	require.JSONEq(t, `{"q":2}`, string(h.result().Result.Output))
}

func TestRejectedCallIsAnswered(t *testing.T) {
	h, in := beginWithCall(t, false)
	out, err := h.RequestApproval(t.Context(), turns.RequestApprovalInput{TurnID: in.TurnID, Step: 1, Calls: []turns.ApprovalCall{{ID: "a"}}})
	require.NoError(t, err)
	d := agent.Decision{ApprovalID: out.Pending[0].ApprovalID, Decision: agent.DecisionReject, Message: "too dear", By: "ann"}
	for range 2 { // the same decision by the same person is accepted silently
		r := h.decide(in.TurnID, d)
		require.False(t, r.Verdict.Run)
	}
	require.Contains(t, string(h.result().Result.Output), "too dear")
	h.model.script(says("a pity"))
	h.callModel(in.TurnID, 2)
	last := h.model.seen[1].Messages
	require.Equal(t, agent.RoleTool, last[len(last)-1].Role, "the model sees the answer")
}

// TestToolThatNeverAnswersIsStopped: after a timeout the model may repeat a call without effects; otherwise the outcome is unknown.
func TestToolThatNeverAnswersIsStopped(t *testing.T) {
	for free, kind := range map[bool]string{true: string(agent.CodeUnavailable), false: agent.OutcomeUnknown} {
		t.Run(kind, func(t *testing.T) {
			h, in := beginWithCall(t, free, func(c *turns.Config) { c.ToolTimeout = 50 * time.Millisecond })
			h.tool.call = func(ctx context.Context, _ agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
				<-ctx.Done()
				return agent.ToolResult{}, ctx.Err()
			}
			v := h.callTool(in)
			require.True(t, v.Failed)
			require.Contains(t, string(h.result().Result.Output), "took longer than 50ms")
			require.Contains(t, string(h.result().Result.Output), `"type":"`+kind+`"`)
		})
	}
}
