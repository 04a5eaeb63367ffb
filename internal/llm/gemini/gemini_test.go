package gemini_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/gemini"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// gaps: in this protocol arguments are always a JSON object.
var gaps = map[string]string{"reply block/invalid tool call": "invalid_tool_call"}

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.Gemini{}, Open: gemini.New, Requests: "testdata/requests", Gaps: gaps})
}

// A call is sent back with its signature, because a model that thinks requires it, and with large numbers unchanged. Vertex takes no ids, and a token
// instead of a key.
func TestCallsAreSentBack(t *testing.T) {
	t.Parallel()
	const args = `{"n":9007199254740993}`
	for name, open := range map[string]func(gemini.Config) (agent.Model, error){"googleai": gemini.New, "vertex": gemini.NewVertex} {
		var bodies []string
		var keys []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies, keys = append(bodies, string(body)), append(keys, r.Header.Get("X-Goog-Api-Key")+r.Header.Get("Authorization"))
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"now","args":`+args+`},"thoughtSignature":"c2ln"}]},`+
				`"finishReason":"STOP"}]}`+"\n\n")
		}))
		m, err := open(gemini.Config{APIKey: "k", BaseURL: server.URL})
		require.NoError(t, err)
		req := agent.ModelRequest{Model: "gemini-3-pro", Messages: []agent.Message{agent.UserText("When?")}, Tools: []agent.ToolSpec{{Name: "now"}}}
		reply, err := m.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, agent.FinishToolCalls, reply.FinishReason)
		require.Equal(t, args, string(reply.Blocks[0].Args))
		req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: reply.Blocks})
		_, err = m.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		server.Close()
		require.Contains(t, bodies[1], `"args":`+args)
		require.Contains(t, bodies[1], `"thoughtSignature":"c2ln"`)
		require.Equal(t, name == "googleai", strings.Contains(bodies[1], `"id":"c1"`))
		require.Equal(t, map[string]string{"googleai": "k", "vertex": "Bearer k"}[name], keys[0])
	}
}

// Without Ambient, a key is required.
func TestKeyIsRequired(t *testing.T) {
	t.Parallel()
	_, err := gemini.New(gemini.Config{Ambient: true})
	require.ErrorContains(t, err, "api_key: is empty")
	_, err = gemini.NewVertex(gemini.Config{BaseURL: "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google"})
	require.ErrorContains(t, err, "api_key: is empty")
	_, err = gemini.NewVertex(gemini.Config{APIKey: "k"})
	require.ErrorContains(t, err, "base_url: is empty: want https://LOCATION-aiplatform")
}
