package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// dialects are the wire formats of the providers that do not speak OpenAI's.
var dialects = map[string]llmtest.Dialect{
	"anthropic": llmtest.Anthropic{}, "langchain-anthropic": llmtest.Anthropic{}, "langchain-ollama": llmtest.Ollama{},
	"googleai": llmtest.Gemini{}, "vertex": llmtest.Gemini{},
}

// Every provider that there is streams over HTTP in its own wire format, configured or by a document, and a tool call arrives where the
// provider can make one.
func TestEveryProviderStreams(t *testing.T) {
	t.Parallel()
	for _, kind := range providers(nil) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			dialect := dialects[kind.Name]
			if dialect == nil {
				dialect = llmtest.OpenAI{}
			}
			said := llmtest.TextReply("Hello there.", 4)
			said.Events = append(said.Events, llmtest.Event{Call: &llmtest.Fragment{ID: "c1", Name: "now", Args: "{}"}})
			said.Finish = agent.FinishToolCalls
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", dialect.ContentType())
				for _, frame := range dialect.Frames(said) {
					_, _ = w.Write([]byte(frame))
					_ = http.NewResponseController(w).Flush()
				}
			}))
			defer server.Close()
			configured := kind
			configured.Config = llm.Config{APIKey: "k", BaseURL: dialect.BaseURL(server.URL)}
			models, err := llm.Open(llm.Settings{Providers: []llm.Provider{configured}, Kinds: providers(nil), Outbound: server.Client()})
			require.NoError(t, err)
			model, err := models.Model(t.Context(), agent.PlanModel{Provider: kind.Name, Model: "m"})
			require.NoError(t, err)
			pieces := 0
			reply, err := model.Generate(t.Context(), agent.ModelRequest{
				Model: "m", Messages: []agent.Message{agent.UserText("Hi")}, Tools: []agent.ToolSpec{{Name: "now"}},
			}, func(d agent.Delta) error { pieces += min(1, len(d.Text)); return nil })
			require.NoError(t, err)
			require.GreaterOrEqual(t, pieces, 3)
			require.Positive(t, reply.Usage.InputTokens)
			if kind.Name == "langchain-ollama" { // it drops calls: docs/adr/0002
				require.Equal(t, "Hello there.", agent.Normalize(reply.Blocks))
				return
			}
			require.Equal(t, []agent.ToolCall{{ID: "c1", Name: "now", Args: []byte("{}")}}, agent.ToolCalls(reply.Blocks))
			if !strings.HasPrefix(kind.Name, "langchain-") { // their clients send fragments of calls as text
				require.Equal(t, "Hello there.", agent.Normalize(reply.Blocks))
			}
		})
	}
}
