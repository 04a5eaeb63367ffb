package turns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// redact returns a middleware that removes a word from tool results.
func redact(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, c agent.ToolCall) (agent.ToolResult, error) {
		r, err := next(ctx, inv, c)
		r.Output = bytes.ReplaceAll(r.Output, []byte("secret"), []byte("***"))
		return r, err
	}
}

// TestProvide: a provided result is stored once, a turn that was not told finds it, and its step has the result after the middleware.
func TestProvide(t *testing.T) {
	h := newHarness(t, withMiddleware(&testMiddleware{wrap: redact}))
	h.begin(agent.TurnRequest{TurnID: "t1", ClientTools: []agent.ClientTool{{Name: "pick"}}})
	h.model.script(calls(agent.Block{Type: agent.BlockToolCall, ID: "a", Name: "pick", Args: json.RawMessage(`{"n":1}`)}))
	v := h.callModel("t1", 1)
	require.Equal(t, []agent.CallVerdict{{ID: "a", Name: "pick", Summary: "pick", Local: true, Client: true}}, v.Calls)
	ask := turns.RequestApprovalInput{TurnID: "t1", Step: 1, Kind: agent.WaitClientTool, Calls: []turns.ApprovalCall{{ID: "a"}}}
	var out turns.RequestApprovalResult
	for range 2 { // the activity may be cut off and repeated
		var err error
		out, err = h.RequestApproval(t.Context(), ask)
		require.NoError(t, err)
	}
	require.Len(t, out.Pending, 1)
	require.Equal(t, agent.WaitClientTool, out.Pending[0].Kind)
	require.InDelta(t, agent.DefaultClientToolWait*1000, out.ExpiresInMS, 60_000)
	wait := out.Pending[0].ApprovalID

	provide := func(r agent.ProvidedResult) turns.DecideResult {
		out, err := h.Provide(t.Context(), turns.ProvideInput{TurnID: "t1", Provided: r})
		require.NoError(t, err)
		return out
	}
	require.ErrorContains(t, provide(agent.ProvidedResult{ToolCallID: "b", Result: json.RawMessage(`1`)}).Refusal.AsError(), "nothing waits")
	require.ErrorContains(t, provide(agent.ProvidedResult{ToolCallID: "a"}).Refusal.AsError(), "give result or error")
	require.ErrorContains(t, provide(agent.ProvidedResult{ToolCallID: "a", Result: json.RawMessage(`{`)}).Refusal.AsError(), "not JSON")

	want := agent.DecisionVerdict{ApprovalID: wait, CallID: "a", Decision: agent.DecisionProvide, Run: true, Client: true}
	given := agent.ProvidedResult{ToolCallID: "a", Result: json.RawMessage(`{"word":"secret"}`)}
	for _, r := range []agent.ProvidedResult{given, given, {ToolCallID: agent.CallID(wait)}} {
		require.Equal(t, &want, provide(r).Verdict)
	}
	other := provide(agent.ProvidedResult{ToolCallID: "a", Error: "no"})
	require.ErrorContains(t, other.Refusal.AsError(), "has its result already")
	require.Equal(t, &want, other.Stands)
	found, err := h.LookForDecisions(t.Context(), turns.LookForDecisionsInput{TurnID: "t1", Step: 1, Approvals: []string{wait}})
	require.NoError(t, err)
	require.Equal(t, []agent.DecisionVerdict{want}, found.Verdicts)

	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	step, _, err := h.store.ToolStep(t.Context(), agent.StepKey{TurnID: "t1", Step: 1, CallID: "a"})
	require.NoError(t, err)
	require.NotNil(t, step)
	require.JSONEq(t, `{"word":"***"}`, string(step.Result.Output))
	events, err := json.Marshal(h.events("t1"))
	require.NoError(t, err)
	require.NotContains(t, string(events), "secret", "viewers do not get text that middleware removes")
}

// TestClientToolsOfARequest: client-side tools with a name or schema that the agent cannot use are refused before the turn is recorded.
func TestClientToolsOfARequest(t *testing.T) {
	h := newHarness(t)
	for name, c := range map[string]struct {
		tool agent.ClientTool
		want string
	}{
		"a name of the agent's": {agent.ClientTool{Name: "lookup"}, "client_tools[0].name"},
		"no name":               {agent.ClientTool{Name: "a b"}, "client_tools[0].name"},
		"no schema":             {agent.ClientTool{Name: "f", Parameters: json.RawMessage(`{"type":7}`)}, "client_tools[0].parameters"},
		"for ever":              {agent.ClientTool{Name: "f", ExpiresSec: agent.MaxClientToolWait + 1}, "client_tools[0].expires_sec"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Check(t.Context(), &agent.TurnRequest{Message: "hello", ClientTools: []agent.ClientTool{c.tool}})
			require.ErrorContains(t, err, c.want)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
}
