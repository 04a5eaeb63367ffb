package activities_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
)

// bosses makes the harness's agent one that may ask itself for help, which a catalog would not allow and suits a test.
func bosses(t *testing.T, change ...func(*activities.Config)) *harness {
	t.Helper()
	kits, err := tool.NewRegistry(delegate.With(delegate.Config{Containers: noContainers{}}))
	require.NoError(t, err)
	h := newHarness(t, append(change, func(c *activities.Config) { c.Tools = kits })...)
	p := h.catalog.plan
	p.Delegates = []string{"analyst"}
	p.Tools = []agent.PlanTool{{Spec: delegate.New().Tools()[0].Spec(), Toolkit: "delegate"}}
	h.catalog.put(p)
	return h
}

// noContainers is a cluster that nothing is run on.
type noContainers struct{}

func (noContainers) Run(context.Context, agent.Container) (agent.ContainerResult, error) {
	return agent.ContainerResult{}, agent.Errorf(agent.CodeUnavailable, "run container", "away")
}

// delegates begins a turn that asks for help, and returns the verdict on its call.
func (h *harness) delegates(args string, metadata ...map[string]any) agent.CallVerdict {
	h.t.Helper()
	about := agent.InvocationContext{Tenant: "acme", UserID: "u"}
	if len(metadata) > 0 {
		about.Metadata = metadata[0]
	}
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1", Context: about})
	h.model.script(calls(agent.Block{Type: agent.BlockToolCall, ID: "a", Name: "delegate_to_agent", Args: json.RawMessage(args)}))
	v, err := h.CallModel(h.t.Context(), activities.CallModelInput{TurnID: "t1", Step: 1})
	require.NoError(h.t, err)
	require.Len(h.t, v.Calls, 1)
	return v.Calls[0]
}

func TestChildTurn(t *testing.T) {
	h := bosses(t)
	call := h.delegates(`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"},"config":{"limits":{"tool_calls":7,"tokens":50}}}`)
	require.True(t, call.Child)
	require.Empty(t, call.Gate, "the child has gates of its own")
	in := activities.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a", Limits: agent.Limits{ToolCalls: 3, Tokens: 1000}}
	var child agent.TurnID
	for range 2 {
		out, err := h.BeginChild(t.Context(), in)
		require.NoError(t, err)
		require.NotEmpty(t, out.Child)
		require.Equal(t, "acme", out.Tenant)
		child = out.Child
	}
	begun, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: child, Context: agent.InvocationContext{Tenant: "acme"}},
		activities.BeginTurnInput{WorkflowID: child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, activities.VerdictReady, begun.Verdict)
	require.Equal(t, agent.Limits{ModelCalls: 25, ToolCalls: 3, Tokens: 50}, begun.Limits, "of plan, parent and request the strictest")
	require.Equal(t, agent.SessionID(child), begun.Turn.SessionID)

	h.model.script(says("nine"))
	_, err = h.CallModel(t.Context(), activities.CallModelInput{TurnID: child, Step: 1})
	require.NoError(t, err)
	require.Equal(t, []agent.Message{agent.UserText("count the stars")}, h.model.seen[1].Messages)
	_, err = h.StoreTurn(t.Context(), activities.StoreTurnInput{
		TurnID: child, Status: agent.TurnCompleted, Stop: agent.StopEndTurn, Usage: agent.Usage{InputTokens: 100, OutputTokens: 10},
	})
	require.NoError(t, err)

	for range 2 {
		v, err := h.StoreChild(t.Context(), activities.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: child})
		require.NoError(t, err)
		require.False(t, v.Failed)
		require.Equal(t, int64(100), v.Usage.InputTokens)
	}
	var result struct{ Agent, Output, Status string }
	require.NoError(t, json.Unmarshal(h.result().Result.Output, &result))
	require.Equal(t, []string{"analyst", "nine", "completed"}, []string{result.Agent, result.Output, result.Status})
	events := h.events("t1")
	require.Equal(t, 1, count(events, agent.EventToolEnd))
	for _, e := range events {
		if e.Type == agent.EventToolStart {
			require.Equal(t, child.WorkflowID(), e.Ref, "who wants to watch finds the child")
		}
	}
}

func TestChildThatCannotBe(t *testing.T) {
	h := bosses(t)
	call := h.delegates(`{"agent_type":"langchain_agent","inputs":{"message":"x"},"config":{"agent":"stranger"}}`)
	require.False(t, call.Child)
	_, err := h.CallTool(t.Context(), activities.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.NoError(t, err)
	require.Contains(t, string(h.result().Result.Output), "analyst", "it says which agents there are")
}

func TestChildThatEndsBadly(t *testing.T) {
	h := bosses(t)
	h.delegates(`{"agent_type":"langchain_agent","inputs":{"message":"x"}}`)
	out, err := h.BeginChild(t.Context(), activities.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.NoError(t, err)
	v, err := h.StoreChild(t.Context(), activities.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: out.Child})
	require.NoError(t, err)
	require.True(t, v.Failed, "its workflow ended without a word")
	require.Contains(t, string(h.result().Result.Output), "terminated")
	state, err := h.store.Turn(t.Context(), out.Child)
	require.NoError(t, err)
	require.Equal(t, agent.TurnFailed, state.Output.Status)
}

func TestPauseOfAChild(t *testing.T) {
	h := bosses(t)
	h.delegates(`{"agent_type":"langchain_agent","inputs":{"message":"x"}}`)
	out, err := h.BeginChild(t.Context(), activities.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.NoError(t, err)
	_, err = h.Begin(t.Context(), agent.TurnRequest{TurnID: out.Child, Context: agent.InvocationContext{Tenant: "acme"}},
		activities.BeginTurnInput{WorkflowID: out.Child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	h.model.script(calls(agent.Block{
		Type: agent.BlockToolCall, ID: "c", Name: "delegate_to_agent", Args: json.RawMessage(`{"agent_type":"code_interpreter","inputs":{"code":"1"}}`),
	}))
	v, err := h.CallModel(t.Context(), activities.CallModelInput{TurnID: out.Child, Step: 1})
	require.NoError(t, err)
	require.Equal(t, agent.GateApproval, v.Calls[0].Gate)
	asked, err := h.RequestApproval(t.Context(), activities.RequestApprovalInput{
		TurnID: out.Child, Step: 1, Calls: []activities.ApprovalCall{{ID: "c", Rule: "r"}},
	})
	require.NoError(t, err)
	id := asked.Pending[0].ApprovalID
	for _, watched := range []agent.TurnID{out.Child, "t1"} {
		events := h.events(watched)
		require.Equal(t, 1, count(events, agent.EventApprovalRequested), watched)
		require.Equal(t, agent.StatusWaiting, events[len(events)-1].Status)
		pending, err := h.store.PendingBelow(t.Context(), watched)
		require.NoError(t, err)
		require.Len(t, pending, 1)
	}

	d := agent.Decision{ApprovalID: id, Decision: agent.DecisionApprove, By: "ops"}
	r, err := h.Decide(t.Context(), activities.DecideInput{TurnID: "t1", Decision: d})
	require.NoError(t, err)
	require.True(t, r.Elsewhere, "the parent's core has nothing to do with it")
	require.Equal(t, []string{out.Child.WorkflowID() + " approve"}, h.runs.decided)
	r, err = h.Decide(t.Context(), activities.DecideInput{TurnID: out.Child, Decision: d})
	require.NoError(t, err)
	require.True(t, r.Verdict.Run)
	require.Equal(t, 1, count(h.events("t1"), agent.EventApprovalResolved))

	// Who has nothing to do with either is told as if there were none.
	h.begin(agent.TurnRequest{TurnID: "t9", Context: agent.InvocationContext{Tenant: "acme"}})
	r, err = h.Decide(t.Context(), activities.DecideInput{TurnID: "t9", Decision: d})
	require.NoError(t, err)
	require.Equal(t, string(agent.CodeNotFound), r.Refusal.Type)
}
