package e2e_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// keepsSecret starts a service whose environment has the secret of the scenarios. When it has stopped, the secret is looked for in its
// logs, its database and its content.
func keepsSecret(t *testing.T, change ...func(*app.Config)) *system {
	t.Helper()
	set := turnstonetest.Settings(t, change...)
	said := &logged{}
	t.Cleanup(func() { // after the service has stopped
		requireUnsaid(t, said)
		requireUnstored(t, set)
	})
	return startService(t, turnstone.Config{
		Settings: set, Logger: said.beside(turnstonetest.Logger(t)), Env: []string{keyVariable + "=" + scenarioKey},
	})
}

// requireKept looks for the secret in what a turn has shown and in what Temporal keeps of it.
func (s *system) requireKept(out *agent.AgentStepOutput, events []agent.Event) {
	s.t.Helper()
	s.closed(out.TurnID)
	shown, err := json.Marshal(events)
	require.NoError(s.t, err)
	require.NotContains(s.t, string(shown), scenarioKey, "events")
	require.NotContains(s.t, s.replay("", out.TurnID.WorkflowID(), "").String(), scenarioKey, "history")
	require.NotContains(s.t, string(s.get("/v1/results/"+string(out.TurnID))), scenarioKey, "result")
}

// reach lets the egress client go to servers of the test.
func reach(servers ...*httptest.Server) func(*app.Config) {
	return func(c *app.Config) {
		for _, s := range servers {
			c.Egress.AllowPrivate = append(c.Egress.AllowPrivate, s.Listener.Addr().String())
		}
	}
}

// worksFor applies an agent "clerk" with a scripted provider and tools, a YAML list, and documents that come before it.
func (s *system) worksFor(provider *turnstonetest.Model, tools string, documents ...string) {
	s.t.Helper()
	all := clerk("You are a clerk.", "m", llmtest.OpenAI{}.BaseURL(provider.URL()), tools)
	for _, d := range documents {
		all = d + "\n---\n" + all
	}
	s.apply(all)
}

// ask runs a turn of the clerk, which has to complete.
func (s *system) ask(session, message string) (*agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	out, events := s.run(agent.TurnRequest{Agent: "clerk", Message: message, SessionID: agent.SessionID(session)})
	require.Equal(s.t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	return out, events
}

// pending waits for the one call of a turn that a person has to decide.
func (s *system) pending(id agent.TurnID) agent.Approval {
	s.t.Helper()
	var pending []agent.Approval
	require.Eventually(s.t, func() bool {
		turn, err := s.client.Turn(s.t.Context(), id)
		require.NoError(s.t, err)
		require.Nil(s.t, turn.Output, "the turn ended and asked nobody: %+v", turn.Output)
		pending = turn.Pending
		return len(pending) == 1
	}, 30*time.Second, 20*time.Millisecond)
	return pending[0]
}

// approve lets the one pending call of a turn run.
func (s *system) approve(id agent.TurnID) {
	s.t.Helper()
	require.NoError(s.t, s.client.Decide(s.t.Context(), id, agent.Decision{
		ApprovalID: s.pending(id).ApprovalID, Decision: agent.DecisionApprove, By: "ops",
	}))
}

// asks is calls under an id of one's own: a turn with several steps has several.
func asks(id, tool, args string) turnstonetest.Reply {
	return func(x *turnstonetest.Exchange) {
		x.Send(llmtest.OpenAI{}.Frames(llmtest.Reply{
			Events: []llmtest.Event{{Call: &llmtest.Fragment{ID: id, Name: tool, Args: args}}},
			Usage:  agent.Usage{InputTokens: 10, OutputTokens: 5}, Finish: agent.FinishToolCalls,
		})...)
	}
}

// offer is what a provider was told of the tools.
type offer struct {
	names []string
	bytes int    // of the part of the request that describes them
	body  string // the request
}

func (o offer) has(tool string) bool { return slices.Contains(o.names, tool) }

// offeredIn reads the n-th request, from 0.
func offeredIn(t testing.TB, m *turnstonetest.Model, n int) offer {
	t.Helper()
	asked := m.Requests()
	require.Greater(t, len(asked), n, "requests to the provider")
	var body struct {
		Tools json.RawMessage `json:"tools"`
	}
	require.NoError(t, json.Unmarshal([]byte(asked[n].Body), &body))
	out := offer{bytes: len(body.Tools), body: asked[n].Body}
	if len(body.Tools) == 0 {
		return out
	}
	var tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	require.NoError(t, json.Unmarshal(body.Tools, &tools))
	for _, tool := range tools {
		out.names = append(out.names, tool.Function.Name)
	}
	return out
}

// toolEnds are the answers of a turn's calls, in their order.
func toolEnds(events []agent.Event) []string {
	var out []string
	for i := range events {
		if events[i].Type == agent.EventToolEnd {
			out = append(out, string(events[i].Output))
		}
	}
	return out
}
