package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// apply applies YAML documents through the HTTP door.
func (s *system) apply(yaml string) agent.ApplyResult {
	s.t.Helper()
	out, err := s.client.Apply(s.t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "test.yaml", Data: []byte(yaml)}}, By: "test"})
	require.NoError(s.t, err)
	return out
}

// clerk is an agent with a prompt, a model at a provider, and tools.
func clerk(prompt, model, baseURL, tools string) string {
	return fmt.Sprintf(`
kind: ModelProfile
name: clerk-model
provider: openai
model: %s
base_url: %s
---
kind: AgentInstance
name: clerk
node_id: agent
node_version: "1"
parameters: {system_message: %q}
models: [clerk-model]
tools: %s
`, model, baseURL, prompt, tools)
}

// TestRunningTurnKeepsItsPlan changes prompt, tools and model of an agent while a turn of it waits for its model, and replays the
// history: the turn ends with what it began with, the next one has it all new.
func TestRunningTurnKeepsItsPlan(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	fetch := `{"session_id":"s","pipeline":[{"step":"http_request","url":"` + turnstonetest.FlightsURL(t) + `/flights","method":"GET",` +
		`"params":{"origin":"NYC","dest":"LAX"}}]}`
	provider := turnstonetest.NewModel(t,
		func(x *turnstonetest.Exchange) {
			close(asked)
			if x.Await(release) {
				turnstonetest.Call("execute_pipeline", fetch)(x)
			}
		},
		turnstonetest.Say("done with the old plan"),
		turnstonetest.Say("done with the new plan"),
	)
	base := llmtest.OpenAI{}.BaseURL(provider.URL())
	s := start(t)
	s.apply(clerk("You are the old clerk.", "model-old", base, "[pipeline]"))
	first, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "fetch", SessionID: "pinned"})
	require.NoError(t, err)
	<-asked
	s.apply(clerk("You are the new clerk.", "model-new", base, "[]"))
	second, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "again", SessionID: "after"})
	require.NoError(t, err)
	_ = second
	close(release)

	out, events := s.follow(t.Context(), first.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, "success", out.ToolCalls[0].Status, "the tool that the new plan does not have: %s", toolOutput(events))
	require.Equal(t, 1, count(events, agent.EventRoute))
	_, _ = s.follow(t.Context(), second.TurnID)

	byPrompt := map[string][]string{}
	for _, r := range provider.Requests() {
		switch {
		case strings.Contains(r.Body, "You are the old clerk."):
			byPrompt["old"] = append(byPrompt["old"], r.Body)
		case strings.Contains(r.Body, "You are the new clerk."):
			byPrompt["new"] = append(byPrompt["new"], r.Body)
		}
	}
	require.Len(t, byPrompt["old"], 2, "both steps of the first turn")
	require.Len(t, byPrompt["new"], 1)
	for _, body := range byPrompt["old"] {
		require.Contains(t, body, `"model-old"`)
		require.Contains(t, body, `"execute_pipeline"`)
	}
	require.Contains(t, byPrompt["new"][0], `"model-new"`)
	require.NotContains(t, byPrompt["new"][0], `"tools"`)
	for _, id := range []agent.TurnID{first.TurnID, second.TurnID} {
		s.closed(id)
		s.replay("", id.WorkflowID(), "")
	}
}

// TestQueuedTurnKeepsItsPlan: a turn that was accepted keeps its agent, though the agent is gone when its turn comes.
func TestQueuedTurnKeepsItsPlan(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		if x.Await(release) {
			turnstonetest.Say("first")(x)
		}
	}, turnstonetest.Say("second"))
	s := start(t)
	s.apply(clerk("You are a clerk.", "m", llmtest.OpenAI{}.BaseURL(provider.URL()), "[]"))
	first, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "one", SessionID: "queue"})
	require.NoError(t, err)
	s.awaitEvent(first.TurnID, agent.EventRoute)
	second, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "two", SessionID: "queue"})
	require.NoError(t, err)
	_, err = s.client.Apply(t.Context(), agent.ApplyRequest{Delete: []agent.DocumentKey{
		{Kind: agent.KindAgent, Tenant: agent.DefaultTenant, Name: "clerk"}, {Kind: agent.KindModel, Tenant: agent.DefaultTenant, Name: "clerk-model"},
	}})
	require.NoError(t, err)
	close(release)
	for id, text := range map[agent.TurnID]string{first.TurnID: "first", second.TurnID: "second"} {
		out, _ := s.follow(t.Context(), id)
		require.Equal(t, text, out.Output, "%+v", out.Error)
		require.Equal(t, "clerk", out.Agent)
	}
	again, err := s.client.Start(t.Context(), agent.TurnRequest{TurnID: second.TurnID, Agent: "clerk", Message: "two", SessionID: "queue"})
	require.NoError(t, err)
	require.Equal(t, second.TurnID, again.TurnID, "the same request again is the same turn")
	_, err = s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "three"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.ErrorContains(t, err, `agent: there is no agent "clerk"`)
}

// TestRoutedTurn: rules choose the agent and its model, and the decision is in the event, in history, and explained by a dry run.
func TestRoutedTurn(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Say("at your service"))
	s := start(t)
	s.apply(clerk("You are a clerk.", "m", llmtest.OpenAI{}.BaseURL(provider.URL()), "[]") + `
---
kind: RouteTable
name: main
rules:
  - {name: billing, priority: 5, when: {page: ["/billing*"], expression: "percent(session) >= 0 && flags.beta == true"}, agent: clerk, model: clerk-model}
`)
	req := agent.TurnRequest{Message: "hello", SessionID: "routed", Context: agent.InvocationContext{
		UIPage: "/billing/42", Flags: map[string]any{"beta": true},
	}}
	out, events := s.run(req)
	require.Equal(t, "clerk", out.Agent)
	require.Equal(t, "at your service", out.Output)
	var d agent.RouteDecision
	for _, e := range events {
		if e.Type == agent.EventRoute {
			require.NoError(t, json.Unmarshal(e.Route, &d))
		}
	}
	require.Equal(t, agent.RouteDecision{
		Agent: "clerk", Model: "clerk-model", Reason: agent.RouteRuled, Table: "default/main", Rule: "billing", Revision: 1,
	}, d)
	s.closed(out.TurnID)
	recorded := false
	for _, e := range s.replay("", out.TurnID.WorkflowID(), "").GetEvents() {
		for _, payloads := range e.GetMarkerRecordedEventAttributes().GetDetails() {
			for _, p := range payloads.GetPayloads() {
				recorded = recorded || strings.Contains(string(p.GetData()), `"rule":"default/main#billing"`)
			}
		}
	}
	require.True(t, recorded, "the decision is in history")
	dry, err := s.client.Route(t.Context(), agent.RouteContext{InvocationContext: agent.InvocationContext{UIPage: "/home"}})
	require.NoError(t, err)
	require.Equal(t, "analyst", dry.Agent)
	require.Len(t, dry.Rules, 1)
	require.Contains(t, dry.Rules[0].Reason, "/home")

	_, err = s.client.Apply(t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "bad.yaml", Data: []byte(
		"kind: RouteTable\nname: main\nrules:\n  - {name: x, agent: clerk, when: {expression: 'nobody == 1'}}\n")}}})
	require.ErrorContains(t, err, "bad.yaml:4")
	require.ErrorContains(t, err, "rules[0].when.expression")

	named, _ := s.run(agent.TurnRequest{Agent: "analyst", Message: "say 2 words", Context: req.Context})
	require.Equal(t, "analyst", named.Agent)
	require.Contains(t, string(s.get("/metrics")), "routing_mismatch_total 1\n")
	require.Contains(t, string(s.get("/metrics")), `registry_nodes_total{type="agent"} 2`)
	require.Contains(t, string(s.get("/metrics")), "registry_reload_duration_seconds_count")
	require.Contains(t, string(s.get("/metrics")), `registry_plan_lookups_total{tier="memory"}`)
}

// TestFolder: an agent is one file, without a restart; a broken edit leaves the last good state and says why.
func TestFolder(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Say("hello from a file"))
	dir := t.TempDir()
	s := start(t, func(c *app.Config) { c.Catalog.Folder = dir })
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	good := clerk("You are a clerk.", "m", llmtest.OpenAI{}.BaseURL(provider.URL()), "[]")
	write("clerk.yaml", good)
	require.Eventually(t, func() bool {
		_, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "hello"})
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)

	write("clerk.yaml", strings.Replace(good, "name: clerk\n", "name: clerk\nmood: cheerful\n", 1))
	require.Eventually(t, func() bool {
		status, err := s.client.CatalogStatus(t.Context())
		require.NoError(t, err)
		for _, source := range status.Sources {
			if source.Name == agent.SourceFolder && !source.OK {
				require.Equal(t, "clerk.yaml", source.Faults[0].File)
				require.Equal(t, "mood", source.Faults[0].Path)
				return true
			}
		}
		return false
	}, 10*time.Second, 20*time.Millisecond)
	require.Contains(t, string(s.get("/health")), "clerk.yaml:", "said, and no reason to call the server ill")
	out, _ := s.run(agent.TurnRequest{Agent: "clerk", Message: "hello"})
	require.Equal(t, "hello from a file", out.Output, "%+v", out.Error)

	write("clerk.yaml", strings.Replace(good, "models: [clerk-model]", "models: [clerk-model, shared]", 1))
	require.Eventually(t, func() bool { return strings.Contains(string(s.get("/health")), `no model profile`) }, 10*time.Second, 20*time.Millisecond)
	s.apply("kind: ModelProfile\ntenant: '*'\nname: shared\nprovider: offline\nmodel: m\n") // what it lacked comes through the API
	require.Eventually(t, func() bool {
		page, err := s.client.ListAgents(t.Context(), agent.AgentQuery{Tenant: agent.DefaultTenant})
		require.NoError(t, err)
		return slices.ContainsFunc(page.Agents, func(a agent.AgentInfo) bool { return a.Name == "clerk" && len(a.Models) == 2 })
	}, 10*time.Second, 20*time.Millisecond)

	require.NoError(t, os.Remove(filepath.Join(dir, "clerk.yaml")))
	require.Eventually(t, func() bool {
		_, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "hello"})
		return agent.CodeOf(err) == agent.CodeNotFound
	}, 10*time.Second, 20*time.Millisecond)
}

// toolOutput is what the first finished tool answered.
func toolOutput(events []agent.Event) string {
	for _, e := range events {
		if e.Type == agent.EventToolEnd {
			return string(e.Output)
		}
	}
	return ""
}

// TestSecretsStayOut: what pii redacts is in no event, no history, no stored result and no transcript, though the provider cuts it up.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Say("Write to ann@example.com , or call; the card is 4111 1111 1111 1111 today."))
	s := start(t)
	s.apply(clerk("You are a clerk.", "m", llmtest.OpenAI{}.BaseURL(provider.URL()), "[]") + `
middleware:
  - {name: model_retry}
  - {name: pii, options: {pii_type: email, apply_to_output: true}}
  - {name: pii, options: {pii_type: credit_card, strategy: mask, apply_to_output: true}}
`)
	out, events := s.run(agent.TurnRequest{Agent: "clerk", Message: "who? I am bob@example.org", SessionID: "secrets"})
	require.Equal(t, "Write to [REDACTED_EMAIL] , or call; the card is **** **** **** 1111 today.", out.Output)
	require.Contains(t, provider.Requests()[0].Body, "[REDACTED_EMAIL]", "nor does the provider see the user's")
	s.closed(out.TurnID)
	seen, err := json.Marshal(events)
	require.NoError(t, err)
	history := s.replay("", out.TurnID.WorkflowID(), "").String() // JSON would have payloads in base64
	stored := s.get("/v1/results/" + string(out.TurnID))
	for where, text := range map[string]string{"events": string(seen), "history": history, "result": string(stored)} {
		require.NotContains(t, text, "ann@example", where)
		require.NotContains(t, text, "4111 1111", where)
	}
}
