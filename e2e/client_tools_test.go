//go:build unix

package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/turnstone-run/turnstone/agent"
	turnstonev1 "github.com/turnstone-run/turnstone/proto/turnstone/v1"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// addTool is a tool of the caller's.
func addTool() []agent.ClientTool {
	return []agent.ClientTool{{
		Name: "add", Description: "adds two numbers",
		Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
	}}
}

// adds is a model that has the caller add two numbers and says what comes back.
func adds(x *turnstonetest.Exchange) {
	switch {
	case !strings.Contains(x.Body, `"role":"tool"`):
		turnstonetest.Call("add", `{"a":2,"b":3}`)(x)
	case strings.Contains(x.Body, "overflow"):
		turnstonetest.Say("I cannot add")(x)
	case strings.Contains(x.Body, "no result was provided in time"):
		turnstonetest.Say("nobody answered")(x)
	case strings.Contains(x.Body, "5"):
		turnstonetest.Say("the sum is 5")(x)
	}
}

// TestClientTools: a tool that a request brings makes the turn wait, and every door answers it, of a direct turn as of a durable one.
func TestClientTools(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, adds)
	s := start(t, provider.Use)
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	over := func(id agent.TurnID, r agent.ProvidedResult, name string) error {
		handle, err := s.Temporal().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: id.WorkflowID(), UpdateName: name, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(t.Context(), nil)
		}
		return err
	}
	for _, c := range []struct {
		name    string
		history string
		mode    agent.Mode
		result  agent.ProvidedResult
		provide func(t *testing.T, id agent.TurnID, r agent.ProvidedResult)
		want    string
	}{
		{"http", "client_tool", agent.ModeDurable, result(`5`), func(t *testing.T, id agent.TurnID, r agent.ProvidedResult) {
			require.ErrorContains(t, s.client.Provide(t.Context(), id, agent.ProvidedResult{ToolCallID: "other", Result: r.Result}), "nothing waits")
			require.NoError(t, s.client.Provide(t.Context(), id, r))
			require.NoError(t, s.client.Provide(t.Context(), id, r), "the same again is accepted")
			require.ErrorContains(t, s.client.Provide(t.Context(), id, result(`6`)), "result already")
		}, "the sum is 5"},
		{"grpc, direct", "client_tool_of_direct_turn", agent.ModeDirect, result(`{"sum":5}`), func(t *testing.T, id agent.TurnID, r agent.ProvidedResult) {
			_, err := turnstonev1.NewAgentRuntimeClient(conn).Provide(t.Context(), &turnstonev1.ProvideRequest{
				TurnId: string(id), ToolCallId: string(r.ToolCallID), Result: string(r.Result),
			})
			require.NoError(t, err)
		}, "the sum is 5"},
		{"websocket, an error", "", agent.ModeDurable, agent.ProvidedResult{ToolCallID: "call_1", Error: "overflow"}, func(t *testing.T, id agent.TurnID, r agent.ProvidedResult) {
			ws, _, err := websocket.Dial(t.Context(), "ws://"+s.HTTPAddr()+"/v1/ws", nil)
			require.NoError(t, err)
			defer ws.CloseNow()
			require.NoError(t, wsjson.Write(t.Context(), ws, map[string]any{"type": "provide", "id": "a", "turn_id": id, "provided": r}))
			var frame map[string]any
			require.NoError(t, wsjson.Read(t.Context(), ws, &frame))
			require.Equal(t, "ok", frame["type"], "%v", frame)
		}, "I cannot add"},
		{"update", "client_tool_by_update", agent.ModeDurable, result(`5`), func(t *testing.T, id agent.TurnID, r agent.ProvidedResult) {
			require.ErrorContains(t, over(id, agent.ProvidedResult{ToolCallID: "call_1"}, workflows.UpdateProvide), "give result or error")
			require.NoError(t, over(id, r, workflows.UpdateProvide))
		}, "the sum is 5"},
		{"signal", "", agent.ModeDurable, result(`5`), func(t *testing.T, id agent.TurnID, r agent.ProvidedResult) {
			require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id.WorkflowID(), "", workflows.UpdateProvide, r))
		}, "the sum is 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "add 2 and 3", Mode: c.mode, ClientTools: addTool()})
			require.NoError(t, err)
			p := s.awaitClientCall(receipt.TurnID)
			require.Equal(t, "add", p.ToolName)
			require.JSONEq(t, `{"a":2,"b":3}`, string(p.Args))
			require.WithinDuration(t, time.Now().Add(agent.DefaultClientToolWait*time.Second), *p.ExpiresAt, time.Minute)
			require.ErrorContains(t, s.client.Decide(t.Context(), receipt.TurnID, agent.Decision{
				ApprovalID: p.ApprovalID, Decision: agent.DecisionApprove, By: "ops",
			}), "waits for a result")
			c.provide(t, receipt.TurnID, c.result)
			out, events := s.sound(c.history, receipt)
			require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
			require.Equal(t, c.want, out.Output)
			require.Len(t, out.ToolCalls, 1)
			require.Equal(t, 1, count(events, agent.EventInputRequested))
			require.Equal(t, 1, count(events, agent.EventInputResolved))
			require.Equal(t, 1, count(events, agent.EventToolEnd))
		})
	}
}

// result is what a caller provides for the call of the script.
func result(body string) agent.ProvidedResult {
	return agent.ProvidedResult{ToolCallID: "call_1", Result: json.RawMessage(body)}
}

// awaitClientCall waits until a turn waits for a result, as its state says.
func (s *system) awaitClientCall(id agent.TurnID) (p agent.Approval) {
	s.t.Helper()
	s.awaitEvent(id, agent.EventInputRequested)
	var state struct {
		State   string           `json:"state"`
		Pending []agent.Approval `json:"pending"`
	}
	require.NoError(s.t, json.Unmarshal(s.get("/v1/turns/"+string(id)), &state))
	require.Equal(s.t, "waiting", state.State)
	require.Len(s.t, state.Pending, 1)
	require.Equal(s.t, agent.WaitClientTool, state.Pending[0].Kind)
	return state.Pending[0]
}

// TestClientToolOfABinding: a person approves the call of a tool that a binding declares, with other arguments, which the caller gets.
func TestClientToolOfABinding(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, adds)
	s := start(t, provider.Use)
	s.apply(`
kind: ToolBinding
name: calculator
approval: always
client_side:
  - name: add
    parameters: {type: object, properties: {a: {type: number}, b: {type: number}}}
---
kind: AgentInstance
name: adder
node_id: agent
node_version: "1"
parameters: {system_message: You add.}
tools: [calculator]
`)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "adder", Message: "add 2 and 3"})
	require.NoError(t, err)
	s.awaitEvent(receipt.TurnID, agent.EventApprovalRequested)
	asked := s.pending(receipt.TurnID)
	require.ErrorContains(t, s.client.Provide(t.Context(), receipt.TurnID, result(`5`)), "nothing waits", "it is not approved yet")
	require.NoError(t, s.client.Decide(t.Context(), receipt.TurnID, agent.Decision{
		ApprovalID: asked.ApprovalID, Decision: agent.DecisionEdit, Args: json.RawMessage(`{"a":1,"b":4}`), By: "ops",
	}))
	require.JSONEq(t, `{"a":1,"b":4}`, string(s.awaitClientCall(receipt.TurnID).Args))
	require.NoError(t, s.client.Provide(t.Context(), receipt.TurnID, result(`5`)))
	out, _ := s.sound("client_tool_approved", receipt)
	require.Equal(t, "the sum is 5", out.Output)
}

// TestClientToolExpires: nobody provides a result. The model is told so, and the turn goes on.
func TestClientToolExpires(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, adds)
	s := start(t, provider.Use)
	tools := addTool()
	tools[0].ExpiresSec = 1
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "add 2 and 3", ClientTools: tools})
	require.NoError(t, err)
	out, _ := s.sound("client_tool_expired", receipt)
	require.Equal(t, "nobody answered", out.Output)
}

// TestClientToolSurvivesRestart: the service ends while a direct turn waits, and the one that comes after it takes the result.
func TestClientToolSurvivesRestart(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, adds)
	set := turnstonetest.Settings(t, provider.Use)
	first := startWith(t, set)
	receipt, err := first.client.Start(t.Context(), agent.TurnRequest{Message: "add 2 and 3", Mode: agent.ModeDirect, ClientTools: addTool()})
	require.NoError(t, err)
	first.awaitClientCall(receipt.TurnID)
	require.NoError(t, first.Stop(t.Context()))

	second := startWith(t, set)
	require.NoError(t, second.client.Provide(t.Context(), receipt.TurnID, result(`5`)))
	out, _ := second.sound("", receipt)
	require.Equal(t, "the sum is 5", out.Output)
}

// TestClientToolsOfClients: the client libraries of OpenAI's format run their tools, each in the way that it comes with: two requests with a call
// between them are one turn.
func TestClientToolsOfClients(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, adds)
	s := start(t, provider.Use)
	runClientScript(t, "tools.mjs", "BASE_URL=http://"+s.HTTPAddr()+"/v1", "MODEL=analyst")
	const clients, more = 8, 2 // of the script: a turn whose answer came twice, and one that begins with the whole conversation
	require.Equal(t, clients+more, s.number(`SELECT count(*) FROM turns`))
	require.Equal(t, clients+1, s.number(`SELECT count(*) FROM approvals WHERE kind = 'client_tool' AND decision = 'provide'`))
}
