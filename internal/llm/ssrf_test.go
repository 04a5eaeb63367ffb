package llm_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/bedrock"
	"github.com/turnstone-run/turnstone/internal/llm/gemini"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// A base URL in a document cannot reach a private address, and no configured key is sent to it.
func TestAttacks(t *testing.T) {
	t.Parallel()
	reply := func(d llmtest.Dialect) string { return strings.Join(d.Frames(llmtest.TextReply("hi", 1)), "") }
	for name, tt := range map[string]struct {
		provider, good, kind string
		embeds               bool
	}{
		"openai":           {"openai", reply(llmtest.OpenAI{}), "text/event-stream", false},
		"openai embedder":  {"openai", `{"data":[{"index":0,"embedding":[1,2]}]}`, "application/json", true},
		"anthropic":        {"anthropic", reply(llmtest.Anthropic{}), "text/event-stream", false},
		"ollama":           {"ollama", reply(llmtest.OpenAI{}), "text/event-stream", false},
		"ollama embedder":  {"ollama", `{"embeddings":[[1,2]]}`, "application/json", true},
		"mistral":          {"mistral", reply(llmtest.OpenAI{}), "text/event-stream", false},
		"googleai":         {"googleai", reply(llmtest.Gemini{}), "text/event-stream", false},
		"vertex":           {"vertex", reply(llmtest.Gemini{}), "text/event-stream", false},
		"bedrock":          {"bedrock", reply(llmtest.Bedrock{}), "application/vnd.amazon.eventstream", false},
		"langchain-openai": {"langchain-openai", reply(llmtest.OpenAI{}), "text/event-stream", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			egresstest.Exercise(t, egresstest.Harness{
				Good: tt.good, GoodType: tt.kind, Config: egress.Config{MaxRedirects: -1}, Fetch: func(ctx context.Context, c *egress.Client, url string) error {
					key := llm.Config{APIKey: configuredKey, BaseURL: local, Ambient: true}
					google := llm.Provider{Name: "googleai", Config: key, Open: gemini.New, DocumentAddress: true}
					amazon := llm.Provider{Name: "bedrock", Config: key, Open: bedrock.New, DocumentAddress: true}
					vertex := llm.Provider{Name: "vertex", Config: key, Open: gemini.NewVertex, DocumentAddress: true}
					m, err := llm.Open(llm.Settings{
						Providers: []llm.Provider{llm.OpenAI(key), llm.Anthropic(key), llm.LangChainOpenAI(key), google, vertex, amazon},
						Secrets:   environmentSecrets(t, "A=of-the-tenant"), Outbound: &http.Client{Transport: noKeyTransport{egressTransport{c}}},
					})
					require.NoError(t, err)
					pm := agent.PlanModel{Profile: "p", Provider: tt.provider, Model: "m", BaseURL: url}
					if slices.Contains([]string{"mistral", "googleai", "vertex", "bedrock"}, tt.provider) { // these require a key
						pm.Auth = bearer("env:A")
					}
					if url == "" { // the configured address, which documents may use
						return agent.Invalid("base_url", "is empty")
					}
					if !tt.embeds {
						return generate(ctx, m, pm)
					}
					e, err := m.Embedder(ctx, pm)
					if err != nil {
						return err
					}
					_, err = e.Embed(ctx, []string{"a"})
					return err
				},
			})
		})
	}
}

// noKeyTransport panics if the configured key is sent.
type noKeyTransport struct{ egressTransport }

func (n noKeyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, values := range req.Header {
		if strings.Contains(strings.Join(values, " "), configuredKey) {
			panic("the configured key is sent to a document's address")
		}
	}
	return n.egressTransport.RoundTrip(req)
}
