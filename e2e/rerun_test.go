package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// twoModels are an agent's models at one provider. Asked to count, both call the tool once; then the weak one fails and the strong one answers, in
// another way if the prompt asks for it.
func twoModels(x *turnstonetest.Exchange) {
	switch {
	case strings.Contains(x.Body, "and now?"):
		turnstonetest.Say("you are on")(x)
	case !strings.Contains(x.Body, "count the rows"), strings.Contains(x.Body, "hello again"):
		turnstonetest.Say("good morning")(x)
	case !strings.Contains(x.Body, `"role":"tool"`):
		turnstonetest.Call("execute_pipeline", `{"session_id":"s","pipeline":[{"step":"http_request","url":"`+x.Request.Header.Get("Rows")+`","method":"GET"}]}`)(x)
	case strings.Contains(x.Body, `"model":"weak"`):
		turnstonetest.Refuse(http.StatusBadRequest, "")(x)
	case strings.Contains(x.Body, "Be brief."):
		turnstonetest.Say("one")(x)
	default:
		turnstonetest.Say("there is one row")(x)
	}
}

// rerun runs a turn again to its end.
func (s *system) rerun(id agent.TurnID, r agent.RerunRequest) (*agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	receipt, err := s.client.Rerun(s.t.Context(), id, r)
	require.NoError(s.t, err)
	return s.follow(s.t.Context(), receipt.TurnID)
}

// TestRerun: a turn that failed runs again with another model, and from its second step without another tool call; a session is forked and goes
// on. A draft answers with another model and prompt. The original stays as it was, byte for byte, and its deletion leaves the branches.
func TestRerun(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	rows := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = w.Write([]byte(`[{"row":1}]`))
	}))
	t.Cleanup(rows.Close)
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		x.Request.Header.Set("Rows", rows.URL)
		twoModels(x)
	})
	s := start(t, nothingRemembered)
	profiles, base := "", llmtest.OpenAI{}.BaseURL(provider.URL())
	for _, name := range []string{"weak", "strong"} {
		profiles += fmt.Sprintf("kind: ModelProfile\nname: %s\nprovider: openai\nmodel: %s\nbase_url: %s\n---\n", name, name, base)
	}
	s.apply(profiles + `
kind: AgentInstance
name: clerk
node_id: agent
node_version: "1"
parameters: {system_message: You are a clerk.}
models: [weak, strong]
tools: [pipeline]
`)
	ask := func(session, message string) *agent.AgentStepOutput {
		out, _ := s.run(agent.TurnRequest{Agent: "clerk", Message: message, SessionID: agent.SessionID(session)})
		return out
	}
	first := ask("original", "hello")
	require.Equal(t, "good morning", first.Output)
	failed := ask("original", "count the rows")
	require.Equal(t, agent.TurnFailed, failed.Status)
	require.EqualValues(t, 1, fetched.Load())
	require.Equal(t, "good morning", ask("original", "hello again").Output)
	before := s.get("/v1/sessions/original/export")

	whole, _ := s.rerun(failed.TurnID, agent.RerunRequest{Model: "strong"})
	require.Equal(t, "there is one row", whole.Output, "%+v", whole.Error)
	require.EqualValues(t, 2, fetched.Load(), "all of it ran again")

	rest, events := s.rerun(failed.TurnID, agent.RerunRequest{Model: "strong", FromStep: 2, Prompt: "Be brief.", SessionID: "branch"})
	require.Equal(t, "one", rest.Output, "%+v", rest.Error)
	require.EqualValues(t, 2, fetched.Load(), "the tool was not called again")
	require.Zero(t, count(events, agent.EventToolStart))
	require.Empty(t, rest.ToolCalls)
	require.EqualValues(t, 10, rest.Usage.InputTokens, "one model call")
	last := provider.Requests()[len(provider.Requests())-1].Body
	require.Contains(t, last, "good morning", "it knows what was said before")
	require.NotContains(t, last, "hello again", "and nothing of what came later")
	require.NotContains(t, last, "You are a clerk.")
	require.Contains(t, string(s.get("/v1/turns/"+string(rest.TurnID))), fmt.Sprintf(`"rerun_of":%q,"from_step":2`, failed.TurnID))
	require.Contains(t, string(s.get("/v1/sessions?limit=1")), `"forked_from":"original"`)
	receipt, err := s.client.Try(t.Context(), `
kind: AgentInstance
name: clerk
node_id: agent
node_version: "1"
parameters: {system_message: Be brief.}
models: [strong]
tools: [pipeline]
`, agent.TurnRequest{Message: "count the rows"})
	require.NoError(t, err)
	tried, _ := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, "one", tried.Output, "%+v", tried.Error)
	require.Contains(t, string(s.get("/v1/turns/"+string(tried.TurnID))), `"draft":true`)
	for _, out := range []*agent.AgentStepOutput{whole, rest, tried} {
		s.closed(out.TurnID)
		s.replay("", out.TurnID.WorkflowID(), "")
	}
	require.Equal(t, "you are on", ask("branch", "and now?").Output, "with the agent's own prompt")
	direct, _ := s.rerun(failed.TurnID, agent.RerunRequest{Model: "strong", FromStep: 2, Mode: agent.ModeDirect})
	require.Equal(t, "there is one row", direct.Output, "%+v", direct.Error)

	forked, err := s.client.Fork(t.Context(), agent.Fork{From: "original", TurnID: first.TurnID, SessionID: "fork"})
	require.NoError(t, err)
	require.Equal(t, 2, forked.Messages)
	require.Equal(t, "you are on", ask("fork", "and now?").Output)
	last = provider.Requests()[len(provider.Requests())-1].Body
	require.Contains(t, last, "good morning")
	require.NotContains(t, last, "count the rows")
	require.Equal(t, string(before), string(s.get("/v1/sessions/original/export")))

	_, err = s.client.DeleteSession(t.Context(), "original")
	require.NoError(t, err)
	page, err := s.client.Messages(t.Context(), "fork", 0, 10)
	require.NoError(t, err)
	require.Len(t, page.Messages, 4)
}
