package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// rowsOf is the data that a turn's result keeps.
func (s *system) rowsOf(out *agent.AgentStepOutput) string {
	s.t.Helper()
	var result struct {
		Data json.RawMessage `json:"data"`
	}
	require.NoError(s.t, json.Unmarshal(s.get("/v1/results/"+string(out.TurnID)), &result))
	require.NotEmpty(s.t, result.Data)
	return string(result.Data)
}

// TestPipelineBecomesATool: two turns use a pipeline of the same shape, and the third one's model is offered it as a tool of its own, with
// parameters for what varied.
func TestPipelineBecomesATool(t *testing.T) {
	t.Parallel()
	fetch := func(origin string) string {
		return fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":"%s/flights","params":{"origin":%q,"dest":"LAX"}},`+
			`{"step":"table_sort","field":"price","order":"asc"},{"step":"top_k","k":3}]}`, turnstonetest.FlightsURL(t), origin)
	}
	promoted := make(chan string, 1)
	provider := turnstonetest.NewModel(t,
		turnstonetest.Call("execute_pipeline", fetch("NYC")), turnstonetest.Say("done"),
		turnstonetest.Call("execute_pipeline", fetch("BER")), turnstonetest.Say("done"),
		func(x *turnstonetest.Exchange) { turnstonetest.Call(<-promoted, `{"origin":"NYC"}`)(x) }, turnstonetest.Say("done"),
		turnstonetest.Say("nothing to do"),
	)
	s := start(t, provider.Use, nothingRemembered)
	turn := func(tenant string) (*agent.AgentStepOutput, []agent.Event) {
		out, events := s.run(agent.TurnRequest{Message: "cheap flights", Context: agent.InvocationContext{Tenant: tenant}})
		require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
		return out, events
	}
	first, _ := turn("")
	all, err := s.client.Composites(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "once is no habit")
	second, _ := turn("")
	require.NotEqual(t, s.rowsOf(first), s.rowsOf(second))
	all, err = s.client.Composites(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	made := all[0]
	require.True(t, made.Enabled)
	require.EqualValues(t, 2, made.Uses)
	require.False(t, offeredIn(t, provider, 3).has(made.Name), "a turn keeps the tools that it began with")

	promoted <- made.Name
	third, events := turn("")
	require.True(t, offeredIn(t, provider, 4).has(made.Name), "%v", offeredIn(t, provider, 4).names)
	require.Contains(t, provider.Requests()[4].Body, `"origin"`)
	require.Len(t, third.ToolCalls, 1)
	require.Equal(t, made.Name, third.ToolCalls[0].Tool)
	require.Equal(t, "success", third.ToolCalls[0].Status, toolOutput(events))
	require.Zero(t, count(events, agent.EventApprovalRequested), "it only reads")
	require.JSONEq(t, s.rowsOf(first), s.rowsOf(third), "what the pipeline answers")
	s.closed(third.TurnID)
	s.replay("", third.TurnID.WorkflowID(), "")

	// A change is seen by turns that begin a moment later.
	sees := func(tenant, tool string) bool {
		turn(tenant)
		return offeredIn(t, provider, len(provider.Requests())-1).has(tool)
	}
	other, err := client.New(client.Config{Server: "http://" + s.HTTPAddr(), Tenant: "other"})
	require.NoError(t, err)
	theirs, err := other.Composites(t.Context())
	require.NoError(t, err)
	require.Empty(t, theirs)
	require.False(t, sees("other", made.Name), "a composite is its tenant's")
	name, off := "cheap_flights", false
	_, err = other.ChangeComposite(t.Context(), made.Name, agent.CompositeChange{Name: &name})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = s.client.ChangeComposite(t.Context(), made.Name, agent.CompositeChange{Name: &name})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return sees("", name) }, 20*time.Second, 200*time.Millisecond)
	require.False(t, offeredIn(t, provider, len(provider.Requests())-1).has(made.Name), "the old name is gone")
	_, err = s.client.ChangeComposite(t.Context(), name, agent.CompositeChange{Enabled: &off})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !sees("", name) }, 20*time.Second, 200*time.Millisecond)
}
