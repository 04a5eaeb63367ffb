package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/middleware"
)

// dialects are the wire formats of the providers that do not speak OpenAI's.
var dialects = map[string]llmtest.Dialect{
	"anthropic": llmtest.Anthropic{}, "langchain-anthropic": llmtest.Anthropic{}, "langchain-ollama": llmtest.Ollama{},
	"googleai": llmtest.Gemini{}, "vertex": llmtest.Gemini{}, "bedrock": llmtest.Bedrock{},
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

// A profile's max_retries is its own: one that leaves it out has the default, and a profile of a document has that of llm.
func TestRetriesOfProfiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "turnstone.yaml"), []byte(`
llm: {provider: offline, max_retries: 1}
models: [{name: none, provider: offline, max_retries: 0}, {name: usual, provider: offline}]`), 0o600))
	cfg, err := Load(Sources{Dir: dir})
	require.NoError(t, err)
	all, _ := middlewares(cfg, nil)
	set, err := middleware.NewSet(all...)
	require.NoError(t, err)
	asked := map[string]int{}
	for _, options := range []string{`{"initial_delay":0}`, `{"initial_delay":0,"max_retries":3}`} {
		chain, err := set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "model_retry", Options: json.RawMessage(options)}}})
		require.NoError(t, err)
		call := chain[0].WrapModel(func(_ context.Context, _ agent.Invocation, req agent.ModelRequest, _ func(agent.Delta) error) (agent.ModelReply, error) {
			asked[req.Profile]++
			return agent.ModelReply{}, agent.Errorf(agent.CodeUnavailable, "", "away")
		})
		for _, profile := range []string{"default", "none", "usual", "document"} {
			_, err := call(t.Context(), agent.Invocation{}, agent.ModelRequest{Profile: profile}, nil)
			require.ErrorContains(t, err, "away")
		}
	}
	require.Equal(t, map[string]int{"default": 2 + 4, "none": 1 + 4, "usual": 3 + 4, "document": 2 + 4}, asked, "an option of the agent is preferred")
}

// The configurations that docs/reference/models.md shows are sound, and lead each provider to the address and with the key that they name.
func TestExamplesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/models.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```yaml\n")
	require.Len(t, blocks, 4)
	reached := map[string]string{}
	for _, block := range blocks[1:] {
		text, _, _ := strings.Cut(block, "```")
		if strings.HasPrefix(text, "kind: ") { // a document of the catalog
			documents, faults := manifest.Parse([]agent.ManifestFile{{Name: "price.yaml", Data: []byte(text)}})
			require.Empty(t, faults)
			require.Len(t, documents, 1)
			continue
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "turnstone.yaml"), []byte(text), 0o600))
		var env []string
		for _, name := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(text, -1) {
			env = append(env, name[1]+"=key-of-"+name[1])
		}
		cfg, err := Load(Sources{Env: env, Dir: dir})
		require.NoError(t, err)
		require.NoError(t, CheckProviders(cfg, nil))
		for _, m := range append(cfg.Models, Model{Name: "default", LLM: cfg.LLM}) {
			if m.Provider == ProviderOffline || m.APIKey == "" { // the machine's credentials
				continue
			}
			at := slices.IndexFunc(providers(nil), func(p llm.Provider) bool { return p.Name == m.Provider })
			require.GreaterOrEqual(t, at, 0, m.Provider)
			model, err := providers(nil)[at].Open(llm.Config{
				APIKey: m.APIKey.Reveal(), BaseURL: m.BaseURL, HTTPClient: &http.Client{Transport: recording(func(req *http.Request) {
					reached[m.Name] = req.URL.Host + req.URL.Path + " " + strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ") + req.Header.Get("X-Goog-Api-Key")
				})},
			})
			require.NoError(t, err)
			_, err = model.Generate(t.Context(), agent.ModelRequest{Model: m.Model, Messages: []agent.Message{agent.UserText("Hi")}}, nil)
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		}
	}
	require.Equal(t, map[string]string{
		"default":    "generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent key-of-GEMINI_API_KEY",
		"mistral":    "api.mistral.ai/v1/chat/completions key-of-MISTRAL_API_KEY",
		"cloudflare": "api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1/chat/completions key-of-CLOUDFLARE_API_TOKEN",
		"watsonx":    "us-south.ml.cloud.ibm.com/ml/gateway/v1/chat/completions key-of-IAM_TOKEN",
		"azure":      "RESOURCE.openai.azure.com/openai/v1/chat/completions key-of-AZURE_KEY",
		"openrouter": "openrouter.ai/api/v1/chat/completions key-of-OPENROUTER_KEY",
		"groq":       "api.groq.com/openai/v1/chat/completions key-of-GROQ_KEY",
		"together":   "api.together.xyz/v1/chat/completions key-of-TOGETHER_KEY",
		"deepseek":   "api.deepseek.com/v1/chat/completions key-of-DEEPSEEK_KEY",
		"vllm":       "127.0.0.1:8000/v1/chat/completions none",
		"lm-studio":  "127.0.0.1:1234/v1/chat/completions none",
	}, reached)
}

// recording is a network that nothing answers on.
type recording func(req *http.Request)

func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	r(req)
	return nil, errors.New("no network")
}
