package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// newDelegatingHarness returns a harness whose agent may delegate to itself, which a catalog would not allow.
func newDelegatingHarness(t *testing.T, change ...func(*turns.Config)) *harness {
	t.Helper()
	kits, err := tool.NewRegistry(delegate.New(delegate.Config{Containers: noContainers{}}))
	require.NoError(t, err)
	h := newHarness(t, append(change, func(c *turns.Config) { c.Tools = kits })...)
	h.catalog.change(func(p *agent.Plan) {
		p.Delegates = []string{"analyst"}
		p.Tools = []agent.PlanTool{{Spec: delegate.New(delegate.Config{}).Tools()[0].Spec(), Toolkit: "delegate"}}
	})
	return h
}

// noContainers is a cluster that runs no containers.
type noContainers struct{ delegate.Containers }

func (noContainers) Run(context.Context, agent.Container) (agent.ContainerResult, error) {
	return agent.ContainerResult{}, agent.Errorf(agent.CodeUnavailable, "run container", "away")
}

// beginDelegation begins a turn whose reply delegates to an agent, and returns the verdict on that call.
func (h *harness) beginDelegation(args string, metadata ...map[string]any) agent.CallVerdict {
	h.t.Helper()
	about := agent.InvocationContext{Tenant: "acme", UserID: "u"}
	if len(metadata) > 0 {
		about.Metadata = metadata[0]
	}
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1", Context: about})
	h.model.script(calls(agent.Block{Type: agent.BlockToolCall, ID: "a", Name: "delegate_to_agent", Args: json.RawMessage(args)}))
	v := h.callModel("t1", 1)
	require.Len(h.t, v.Calls, 1)
	return v.Calls[0]
}

func TestChildTurn(t *testing.T) {
	h := newDelegatingHarness(t)
	call := h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"},"config":{"limits":{"tool_calls":7,"tokens":50}}}`)
	require.True(t, call.Child)
	require.Empty(t, call.Gate, "the child turn has its own approvals")
	in := turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a", Limits: agent.Limits{ToolCalls: 3, Tokens: 1000}}
	var child agent.TurnID
	for range 2 {
		out := h.beginChild(in)
		require.NotEmpty(t, out.Child)
		require.Equal(t, "acme", out.Tenant)
		child = out.Child
	}
	begun, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: child, Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, turns.VerdictReady, begun.Verdict)
	require.Equal(t, agent.Limits{ModelCalls: 25, ToolCalls: 3, Tokens: 50}, begun.Limits, "the strictest limits of plan, parent and call")
	require.Equal(t, agent.SessionID(child), begun.Turn.SessionID)

	h.model.script(says("nine"))
	h.callModel(child, 1)
	require.Equal(t, []agent.Message{agent.UserText("count the stars")}, h.model.seen[1].Messages)
	_, err = h.StoreTurn(t.Context(), turns.StoreTurnInput{
		TurnID: child, Status: agent.TurnCompleted, Stop: agent.StopEndTurn, Usage: agent.Usage{InputTokens: 100, OutputTokens: 10},
	})
	require.NoError(t, err)

	for range 2 {
		v, err := h.StoreChild(t.Context(), turns.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: child})
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
			require.Equal(t, child.WorkflowID(), e.Ref, "the event refers to the child turn")
		}
	}
}

// The answer of a child turn is a tool result: it goes through the middleware of the parent before it is stored or shown.
func TestMiddlewareSeesTheChildsAnswer(t *testing.T) {
	const pii = `{"pii_type":"email","apply_to_tool_results":true,"strategy":%q}`
	cases := map[string]struct {
		strategy string
		ended    turns.StoreTurnInput
		want     string // in the result
	}{
		"an answer":          {"redact", turns.StoreTurnInput{Status: agent.TurnCompleted, Stop: agent.StopEndTurn}, "[REDACTED_EMAIL]"},
		"an answer, blocked": {"block", turns.StoreTurnInput{Status: agent.TurnCompleted, Stop: agent.StopEndTurn}, "detected"},
		"a failure": {"redact", turns.StoreTurnInput{
			Status: agent.TurnFailed, Stop: agent.StopInternal, Failure: &agent.Failure{Type: "unavailable", Retryable: true, Message: "no joe@example.com"},
		}, "no [REDACTED_EMAIL]"},
		"a failure, blocked": {"block", turns.StoreTurnInput{
			Status: agent.TurnFailed, Stop: agent.StopInternal, Failure: &agent.Failure{Type: "invalid", Message: "no joe@example.com"},
		}, "detected"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := &observerNotes{}
			h := newDelegatingHarness(t, func(cfg *turns.Config) { cfg.Observer = n })
			h.addPII(fmt.Sprintf(pii, c.strategy))
			h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"who"}}`)
			child := h.runChild(says(`{"mail":"joe@example.com"}`))
			c.ended.TurnID = child
			h.storeTurn(c.ended)
			v, err := h.StoreChild(t.Context(), turns.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: child})
			require.NoError(t, err)
			require.Equal(t, c.want != "[REDACTED_EMAIL]", v.Failed)
			step := h.result()
			require.Contains(t, string(step.Result.Output), c.want)
			require.NotContains(t, string(step.Result.Output), "attempts", "a child turn that has ended is not started again")
			shown, err := json.Marshal([]any{step, h.events("t1"), v})
			require.NoError(t, err)
			require.NotContains(t, string(shown), "joe@")
			require.NotContains(t, strings.Join(n.take(), ""), "joe@")
		})
	}
}

// The stream of the parent shows approvals of a child turn after the parent's middleware; the child's own stream shows them unchanged.
func TestMiddlewareSeesTheChildsApprovals(t *testing.T) {
	for strategy, want := range map[string]string{"redact": `"args":{"to":"[REDACTED_EMAIL]"}`, "block": "detected 1 instance(s) of email"} {
		t.Run(strategy, func(t *testing.T) {
			h := newDelegatingHarness(t)
			h.addPII(fmt.Sprintf(`{"pii_type":"email","apply_to_tool_results":true,"strategy":%q}`, strategy))
			h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"who"}}`)
			child := h.runChild(calls(agent.Block{Type: agent.BlockToolCall, ID: "c", Name: "delegate_to_agent", Args: json.RawMessage(`{"to":"joe@example.com"}`)}))
			_, err := h.RequestApproval(t.Context(), turns.RequestApprovalInput{TurnID: child, Step: 1, Calls: []turns.ApprovalCall{{ID: "c", Rule: "r"}}})
			require.NoError(t, err)
			for id, words := range map[agent.TurnID]string{child: "joe@example.com", "t1": want} {
				events := h.events(id)
				asked := slices.IndexFunc(events, func(e agent.Event) bool { return e.Type == agent.EventApprovalRequested })
				require.GreaterOrEqual(t, asked, 0)
				shown, err := json.Marshal(events[asked])
				require.NoError(t, err)
				require.Contains(t, string(shown), words)
				require.Equal(t, id == child, strings.Contains(string(shown), "joe@"))
			}
		})
	}
}

// addPII adds the middleware pii to the harness's agent, and tool_retry around it.
func (h *harness) addPII(options string) {
	h.t.Helper()
	h.catalog.change(func(p *agent.Plan) {
		p.Middleware = []agent.PlanMiddleware{
			{Name: "tool_retry", Options: json.RawMessage(`{"tools":["delegate_to_agent"]}`)}, {Name: "pii", Options: json.RawMessage(options)},
		}
	})
}

// runChild begins the child turn of a delegated call, and makes one model call in it.
func (h *harness) runChild(reply modelStep) agent.TurnID {
	h.t.Helper()
	out := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	_, err := h.Begin(h.t.Context(), agent.TurnRequest{TurnID: out.Child, Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: out.Child.WorkflowID(), RunID: "r"})
	require.NoError(h.t, err)
	h.model.script(reply)
	h.callModel(out.Child, 1)
	return out.Child
}

func TestChildThatCannotBe(t *testing.T) {
	h := newDelegatingHarness(t)
	call := h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"x"},"config":{"agent":"stranger"}}`)
	require.False(t, call.Child)
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	require.Contains(t, string(h.result().Result.Output), "analyst", "the error names the agents")
}

func TestChildThatEndsBadly(t *testing.T) {
	h := newDelegatingHarness(t)
	h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"x"}}`)
	out := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	v, err := h.StoreChild(t.Context(), turns.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: out.Child})
	require.NoError(t, err)
	require.True(t, v.Failed, "its workflow ended without a result")
	require.Contains(t, string(h.result().Result.Output), "terminated")
	state := h.turn(out.Child)
	require.Equal(t, agent.TurnFailed, state.Output.Status)
}

func TestPauseOfAChild(t *testing.T) {
	h := newDelegatingHarness(t)
	h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"x"}}`)
	out := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: out.Child, Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: out.Child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	h.model.script(calls(agent.Block{
		Type: agent.BlockToolCall, ID: "c", Name: "delegate_to_agent", Args: json.RawMessage(`{"agent_type":"code_interpreter","inputs":{"code":"1"}}`),
	}))
	v := h.callModel(out.Child, 1)
	require.Equal(t, agent.GateApproval, v.Calls[0].Gate)
	asked, err := h.RequestApproval(t.Context(), turns.RequestApprovalInput{
		TurnID: out.Child, Step: 1, Calls: []turns.ApprovalCall{{ID: "c", Rule: "r"}},
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
	r := h.decide("t1", d)
	require.True(t, r.Elsewhere, "the verdict is not for the parent's core")
	require.Equal(t, []string{out.Child.WorkflowID() + " approve"}, h.runs.decided)
	r = h.decide(out.Child, d)
	require.True(t, r.Verdict.Run)
	require.Equal(t, 1, count(h.events("t1"), agent.EventApprovalResolved))

	// An unrelated turn gets the same error as for an unknown approval.
	h.begin(agent.TurnRequest{TurnID: "t9", Context: agent.InvocationContext{Tenant: "acme"}})
	r = h.decide("t9", d)
	require.Equal(t, string(agent.CodeNotFound), r.Refusal.Type)
}

// TestCancelReachesChildren: cancelling a turn ends the model calls of its child turns within a second, and also cancels a child that
// begins later.
func TestCancelReachesChildren(t *testing.T) {
	h := newDelegatingHarness(t, func(c *turns.Config) { c.ModelCalls = agent.ModelCallsLocal })
	h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"}}`)
	begin := turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"}
	out := h.beginChild(begin)
	plan, err := h.LoadPlan(t.Context(), turns.TurnInput{TurnID: out.Child})
	require.NoError(t, err)
	require.True(t, plan.LocalCalls, "the child's stream is marked as cancelled")
	grandchild := agent.TurnID("grandchild")
	_, err = h.Begin(t.Context(), agent.TurnRequest{TurnID: grandchild, Message: "help", Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: grandchild.WorkflowID(), Parent: out.Child})
	require.NoError(t, err)

	for _, id := range []agent.TurnID{out.Child, grandchild} {
		tail, err := h.log.Tail(t.Context(), string(id))
		require.NoError(t, err)
		require.False(t, tail.Cancelled)
	}
	stopped := make(chan struct{})
	h.model.script(func(ctx context.Context, _ agent.ModelRequest, _ func(agent.Delta) error) (agent.ModelReply, error) {
		defer close(stopped)
		if err := h.MarkCancelled(context.WithoutCancel(ctx), "t1"); err != nil {
			return agent.ModelReply{}, err
		}
		select {
		case <-ctx.Done():
			return agent.ModelReply{}, context.Cause(ctx)
		case <-time.After(10 * time.Second):
			return agent.ModelReply{}, errors.New("nobody cancelled")
		}
	})
	began := time.Now()
	v := h.callModel(out.Child, 1)
	require.True(t, v.Cancelled)
	<-stopped
	require.Less(t, time.Since(began), 2*time.Second)
	tail, err := h.log.Tail(t.Context(), string(grandchild))
	require.NoError(t, err)
	require.True(t, tail.Cancelled)

	// A child that begins after its parent was cancelled.
	h.begin(agent.TurnRequest{TurnID: "t2", SessionID: "s2", Context: agent.InvocationContext{Tenant: "acme"}})
	h.model.script(calls(agent.Block{Type: agent.BlockToolCall, ID: "a", Name: "delegate_to_agent", Args: json.RawMessage(
		`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"}}`)}))
	h.callModel("t2", 1)
	require.NoError(t, h.MarkCancelled(t.Context(), "t2"))
	begin.TurnID = "t2"
	late := h.beginChild(begin)
	tail, err = h.log.Tail(t.Context(), string(late.Child))
	require.NoError(t, err)
	require.True(t, tail.Cancelled)
}
