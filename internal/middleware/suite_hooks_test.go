package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// exerciseEmpty runs each hook on zero values: the functions of the invocation are nil.
func exerciseEmpty(t *testing.T, m agent.Middleware) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // waits cost no time
		ctx := t.Context()
		_, err := m.BeforeModel(ctx, agent.Invocation{}, &agent.ModelRequest{})
		require.NoError(t, err)
		_, err = m.AfterModel(ctx, agent.Invocation{}, &agent.ModelReply{})
		require.NoError(t, err)

		failed := agent.Errorf(agent.CodeDenied, "call", "no")
		for _, want := range []error{nil, failed} {
			asked := 0
			model := m.WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
				asked++
				return agent.ModelReply{}, want
			})
			_, err = model(ctx, agent.Invocation{}, agent.ModelRequest{}, func(agent.Delta) error { return nil })
			require.Equal(t, want == nil, err == nil, "an error that no middleware retries: %v", err)
			require.Positive(t, asked)

			called := 0
			tool := m.WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
				called++
				return agent.ToolResult{}, want
			})
			result, err := tool(ctx, agent.Invocation{}, agent.ToolCall{})
			require.Equal(t, want == nil, err == nil && result.Failure == nil, "the call failed, as an error or as data")
			require.Positive(t, called)
		}
	})
	if g, ok := m.(agent.Gater); ok {
		for _, args := range []string{"", "null", "[]", "{", `"x"`, `{"a":1}`, strings.Repeat(`{"a":`, 20_000), `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, "\xff"} {
			for _, before := range []agent.GateVerdict{{}, {Gate: agent.GateApproval, Rule: "r"}} {
				v, err := g.Gate(agent.GatedCall{Args: []byte(args)}, before)
				require.NoError(t, err, "%.40s", args)
				require.Contains(t, []agent.Gate{"", agent.GateNone, agent.GateApproval}, v.Gate)
				require.LessOrEqual(t, len(v.Description), 4<<10)
				require.LessOrEqual(t, len(v.Rule), 500)
			}
			v, err := g.Gate(agent.GatedCall{Args: []byte(args), Tool: agent.PlanTool{Approval: agent.ApproveAlways}}, agent.GateVerdict{})
			require.NoError(t, err)
			require.Equal(t, agent.GateApproval, v.Gate, "no middleware lifts approval always")
		}
	}
}

// exerciseStable builds the middleware twice and expects the same bytes for the same request, so that a provider's cache works for all
// processes.
func exerciseStable(t *testing.T, build func() agent.Middleware) {
	t.Helper()
	var made [2]string
	for i := range made {
		req := longRequest()
		_, err := build().BeforeModel(t.Context(), fullInvocation(), &req)
		require.NoError(t, err)
		raw, err := json.Marshal(req)
		require.NoError(t, err)
		made[i] = string(raw)
	}
	require.JSONEq(t, made[0], made[1])
	require.Equal(t, made[0], made[1])
}

// exerciseShared serves several calls at once with messages, tools and blocks that they share; the race detector watches.
func exerciseShared(t *testing.T, m agent.Middleware) {
	t.Helper()
	req, reply, call := longRequest(), toolReply(), agent.ToolCall{ID: "1", Name: "read", Args: json.RawMessage(`{"city":"Oslo"}`)}
	model := m.WrapModel(func(_ context.Context, _ agent.Invocation, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		return reply, emit(agent.Delta{Text: "it rains"})
	})
	tool := m.WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: json.RawMessage(`"rain"`)}, nil
	})
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			mine, answer := req, reply // the slices within are shared
			_, before := m.BeforeModel(t.Context(), fullInvocation(), &mine)
			_, during := model(t.Context(), fullInvocation(), mine, func(agent.Delta) error { return nil })
			_, after := m.AfterModel(t.Context(), fullInvocation(), &answer)
			_, called := tool(t.Context(), fullInvocation(), call)
			var gated error
			if g, ok := m.(agent.Gater); ok {
				_, gated = g.Gate(agent.GatedCall{Tool: agent.PlanTool{Spec: agent.ToolSpec{Name: "read"}}, Args: call.Args}, agent.GateVerdict{})
			}
			errs[i] = errors.Join(before, during, after, called, gated)
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, longRequest(), req, "messages and tools may be shared")
	require.Equal(t, toolReply(), reply, "blocks may be shared")
}

func fullInvocation() agent.Invocation {
	return agent.Invocation{
		Tenant: "t", TurnID: "turn", SessionID: "s", Step: 1, Repeatable: true,
		Model: agent.PlanModel{Profile: "p", Provider: "anthropic", Model: "m", ContextTokens: 1_000},
		Ask: func(context.Context, agent.ModelRequest) (agent.ModelReply, error) {
			return agent.ModelReply{Blocks: []agent.Block{agent.Text("they talked about rain")}}, nil
		},
		Note:     func(context.Context, string) (json.RawMessage, error) { return nil, nil },
		SetNote:  func(context.Context, string, json.RawMessage) error { return nil },
		Progress: func(string) {},
	}
}

// longRequest returns a conversation long enough for everything that looks at length.
func longRequest() agent.ModelRequest {
	long := json.RawMessage(`"` + strings.Repeat("rain ", 400) + `"`)
	req := agent.ModelRequest{
		Profile: "p", Model: "m", System: "You are a forecaster.",
		Tools: []agent.ToolSpec{{Name: "read", Description: "reads"}, {Name: "write_todos", Description: "writes"}},
	}
	for range 12 {
		req.Messages = append(
			req.Messages, agent.UserText("joe@example.com asks: what is the weather?"),
			agent.Message{Role: agent.RoleAssistant, Blocks: toolReply().Blocks},
			agent.Message{Role: agent.RoleTool, Blocks: []agent.Block{
				{Type: agent.BlockToolResult, ToolCallID: "1", Name: "read", Status: agent.ResultSuccess, Output: slices.Clone(long)},
				{Type: agent.BlockToolResult, ToolCallID: "2", Name: "write_todos", Status: agent.ResultSuccess, Output: json.RawMessage(`"ok"`)},
				{Type: agent.BlockToolResult, ToolCallID: "3", Name: "write_todos", Status: agent.ResultSuccess, Output: json.RawMessage(`"ok"`)},
			}},
		)
	}
	return req
}

func toolReply() agent.ModelReply {
	return agent.ModelReply{FinishReason: agent.FinishToolCalls, Blocks: []agent.Block{
		agent.Text("it rains, writes joe@example.com"),
		{Type: agent.BlockToolCall, ID: "1", Name: "read", Args: json.RawMessage(`{"city":"Oslo"}`)},
		{Type: agent.BlockToolCall, ID: "2", Name: "write_todos", Args: json.RawMessage(`{"todos":[]}`)},
		{Type: agent.BlockToolCall, ID: "3", Name: "write_todos", Args: json.RawMessage(`{"todos":[]}`)},
	}}
}
