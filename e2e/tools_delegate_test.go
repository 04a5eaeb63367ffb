package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestContainerWithoutACluster: where no cluster is configured, a container is not run: nobody is asked about it, the model gets the manifest
// of its job, and the turn goes on.
func TestContainerWithoutACluster(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t,
		turnstonetest.Call("delegate_to_agent", `{"agent_type":"custom_container","container_image":"registry.example.com/agents/ocr:2.1","inputs":{"page":1}}`),
		turnstonetest.Say("here is its specification"))
	s := start(t)
	s.worksFor(provider, "[]\ndelegates: [analyst]")
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "read the page", SessionID: "containers"})
	require.NoError(t, err)
	out, events := s.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, out.ToolCalls, 1)
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status, toolOutput(events))
	for _, want := range []string{`"dry_run":true`, "no cluster is configured", `"kind":"Job"`, `"image":"registry.example.com/agents/ocr:2.1"`} {
		require.Contains(t, toolOutput(events), want)
	}
	require.Contains(t, provider.Requests()[1].Body, "no cluster is configured", "the model is told why")
}

// TestCancelReachesTheLocalCallOfAChild: a cancel of the turn that asked ends the request of its sub-agent at once, although the sub-agent's model
// call is a local activity, which no signal interrupts. No test runs beside it: at once is two seconds.
func TestCancelReachesTheLocalCallOfAChild(t *testing.T) {
	begun, left := make(chan struct{}), make(chan time.Time, 1)
	helper := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		x.Begin("I am ")
		close(begun)
		x.Hold()
		left <- time.Now()
	})
	provider := turnstonetest.NewModel(t, asks("help", "delegate_to_agent", `{"agent_type":"langchain_agent","inputs":{"message":"find tea"}}`))
	s := start(t, func(c *app.Config) { c.Temporal.ModelCalls = string(agent.ModelCallsLocal) })
	s.worksFor(provider, "[pipeline]\ndelegates: [helper]",
		strings.NewReplacer("clerk", "helper").Replace(clerk("You look.", "m", llmtest.OpenAI{}.BaseURL(helper.URL()), "[pipeline]")))
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "tea?", SessionID: "tea"})
	require.NoError(t, err)
	await(t, begun, "the sub-agent's model begins")
	at := time.Now()
	require.NoError(t, s.client.Cancel(t.Context(), receipt.TurnID, agent.CancelRequest{By: "ops"}))
	require.Less(t, (<-left).Sub(at), 2*time.Second)
	out, events := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnCancelled, out.Status)
	require.Less(t, time.Since(at), 5*time.Second)
	require.True(t, out.Usage.Estimated, "what the sub-agent's request used counts")
	for i := range events {
		if events[i].Type != agent.EventToolStart {
			continue
		}
		for _, e := range s.history(events[i].Ref, "").GetEvents() {
			require.NotEqual(t, "CallModel", e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), "it is a local activity")
		}
	}
}
