package turns_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestToolsThatTheCallerMayUse: tools that the caller may not use are not offered and do not run, in any process, and tool searches do not
// find them.
func TestToolsThatTheCallerMayUse(t *testing.T) {
	h := newSourceHarness(t, "ping", "pong")
	var told []string
	h.tool.call = func(ctx context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		tools, err := inv.Toolset(ctx)
		told = nil
		for i := range tools {
			told = append(told, tools[i].Spec.Name)
		}
		return agent.ToolResult{Output: json.RawMessage(`{}`)}, err
	}
	h.begin(agent.TurnRequest{TurnID: "t1", Limits: &agent.Limits{Tools: []string{"po*", "lookup"}}})
	h.model.script(calls(call("a", "ping"), call("b", "pong")), says("done"))
	v := h.callModel("t1", 1)
	require.Equal(t, []string{"lookup", "pong"}, offeredNames(h.model.seen[0]))
	require.Equal(t, agent.GateNone, gateName(v.Calls[0].Gate), "a call that does not run needs no approval")
	for _, process := range []*turns.Turns{h.Turns, h.process()} {
		h.Turns = process
		for id, refused := range map[agent.CallID]bool{"a": true, "b": false} {
			verdict := h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: id})
			require.Equal(t, refused, verdict.Failed)
		}
	}
	require.Equal(t, 1, h.tool.count)
	require.Equal(t, []string{"lookup", "pong"}, told)
	h.callModel("t1", 2)
	answers := h.model.seen[1].Messages[2].Blocks
	require.Contains(t, string(answers[0].Output), "ping: not granted in toolkit")
	require.Equal(t, []string{"lookup", "pong"}, offeredNames(h.model.seen[1]))

	h.begin(agent.TurnRequest{TurnID: "t2"})
	h.model.script(says("hello"))
	h.callModel("t2", 1)
	require.Equal(t, []string{"lookup", "ping", "pong"}, offeredNames(h.model.seen[2]), "the shared plan is not changed")
}

// TestNoTools: an empty list allows no tools.
func TestNoTools(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", Limits: &agent.Limits{Tools: []string{}}})
	h.Turns = h.process()
	h.model.script(says("hello"))
	h.callModel("t1", 1)
	require.Empty(t, h.model.seen[0].Tools)
}

// TestChildrenHaveNoMoreTools: a child turn has no tools that its parent lacks, and the history does not list them.
func TestChildrenHaveNoMoreTools(t *testing.T) {
	h := newDelegatingHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1", Limits: &agent.Limits{Tools: []string{"delegate_*", "look"}}})
	h.model.script(calls(agent.Block{
		Type: agent.BlockToolCall, ID: "a", Name: "delegate_to_agent",
		Args: json.RawMessage(`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"}}`),
	}))
	v := h.callModel("t1", 1)
	require.True(t, v.Calls[0].Child)
	out := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	child := h.turn(out.Child)
	require.Equal(t, []string{"delegate_*", "look"}, child.Record.Limits.Tools)
	begun, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: out.Child}, turns.BeginTurnInput{WorkflowID: out.Child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	raw, err := json.Marshal(begun)
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"tools"`)
}

// TestJoiningChangesNoFacts: a request that joins a turn, with other rights, does not change what the turn may do.
func TestJoiningChangesNoFacts(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s", Limits: &agent.Limits{Tools: []string{}}})
	for _, direct := range []bool{false, true} { // which names a run of its own
		in := turns.BeginTurnInput{WorkflowID: "turn/t1", Direct: direct}
		if direct {
			in.RunID = "t1"
		}
		_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t1", SessionID: "s", Message: "hello"}, in)
		if direct {
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "a workflow runs it")
		} else {
			require.NoError(t, err)
		}
	}
	h.model.script(says("hello"))
	h.callModel("t1", 1)
	require.Empty(t, h.model.seen[0].Tools)
}
