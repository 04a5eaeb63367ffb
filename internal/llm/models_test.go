package llm_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
)

// finder is the port turns.Models.
type finder interface {
	Model(ctx context.Context, m agent.PlanModel) (agent.Model, error)
}

var _ finder = (*llm.Models)(nil)

const local = "http://127.0.0.1:1/v1"

func TestModelsFindsEveryProvider(t *testing.T) {
	keyed := llm.Config{APIKey: "k", BaseURL: local}
	m, err := llm.New(llm.OpenAI(keyed), llm.Anthropic(keyed), llm.Ollama(llm.Config{}), llm.Offline(llm.Config{BaseURL: local}),
		llm.Compatible("vllm", llm.Config{BaseURL: local}), llm.LangChainOpenAI(keyed), llm.LangChainAnthropic(keyed),
		llm.LangChainOllama(llm.Config{}))
	require.NoError(t, err)
	for _, name := range []string{
		"openai", "anthropic", "ollama", "offline", "vllm", "langchain-openai", "langchain-anthropic", "langchain-ollama",
	} {
		model, err := m.Model(t.Context(), agent.PlanModel{Provider: name, Model: "x"})
		require.NoError(t, err, name)
		require.NotNil(t, model)
	}
	_, err = m.Model(t.Context(), agent.PlanModel{Provider: "acme"})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, `unknown model provider "acme": configured are anthropic, langchain-anthropic`)
	require.ErrorContains(t, err, "may name anthropic, cloudflare, cohere, ernie, huggingface, langchain-anthropic, langchain-ollama, "+
		"langchain-openai, llamafile, maritaca, mistral, offline, ollama, openai, watsonx")
}

func TestModelsRefusesBadProviders(t *testing.T) {
	for text, provider := range map[string]llm.Provider{
		`"openai": api_key: is empty`:                            llm.OpenAI(llm.Config{}),
		`"anthropic": api_key: is empty`:                         llm.Anthropic(llm.Config{}),
		`"offline": base_url: is empty`:                          llm.Offline(llm.Config{}),
		`"ollama": base_url: want an absolute http or https URL`: llm.Ollama(llm.Config{BaseURL: "localhost"}),
		`"" is given twice, or without a name`:                   {},
	} {
		_, err := llm.New(provider)
		require.ErrorContains(t, err, text)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	_, err := llm.New(llm.Ollama(llm.Config{}), llm.Ollama(llm.Config{}))
	require.ErrorContains(t, err, `"ollama" is given twice`)
}

func TestModelsOpensOncePerTimeout(t *testing.T) {
	var mu sync.Mutex
	timeouts := map[string]int{}
	p := llm.Offline(llm.Config{BaseURL: local})
	open := p.Open
	p.Open = func(cfg llm.Config) (agent.Model, error) {
		mu.Lock()
		defer mu.Unlock()
		timeouts[cfg.Timeout.String()]++
		return open(cfg)
	}
	m, err := llm.New(p)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			_, err := m.Model(t.Context(), agent.PlanModel{Provider: "offline", Model: "any", TimeoutSec: i % 2 * 7})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[string]int{"2m0s": 1, "7s": 1}, timeouts)
}

// selfish is a model that runs tools by itself.
type selfish struct{ nothing }

func (selfish) Capabilities() agent.Capabilities { return agent.Capabilities{InvokesTools: true} }

// broken is a transport that fails the test that uses it.
type broken struct{ t *testing.T }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) {
	b.t.Error("a request was made")
	return nil, http.ErrUseLastResponse
}

func TestCapabilitiesAreKnownWithoutAConnection(t *testing.T) {
	silent := &http.Client{Transport: broken{t}}
	custom := llm.Provider{Name: "custom", Open: func(llm.Config) (agent.Model, error) { return selfish{}, nil }}
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{
		llm.OpenAI(llm.Config{APIKey: "k", HTTPClient: silent}), llm.Compatible("vllm", llm.Config{BaseURL: local, HTTPClient: silent}),
		llm.LangChainOpenAI(llm.Config{HTTPClient: silent}), llm.LangChainAnthropic(llm.Config{HTTPClient: silent}),
		llm.LangChainOllama(llm.Config{HTTPClient: silent}), custom,
	}})
	require.NoError(t, err)
	full := agent.Capabilities{OutputSchema: true, PromptCache: true}
	none := agent.Capabilities{}
	for _, tt := range []struct {
		model agent.PlanModel
		want  agent.Capabilities
	}{
		{agent.PlanModel{Provider: "openai"}, full},
		{agent.PlanModel{Provider: "openai", Auth: bearer("env:NOT_THERE")}, full},
		{agent.PlanModel{Provider: "openai", BaseURL: "https://corp.openai.azure.com/openai/v1"}, full},
		{agent.PlanModel{Provider: "openai", BaseURL: "https://vllm.example.org/v1"}, none},
		{agent.PlanModel{Provider: "anthropic"}, full}, // not configured: no key is needed to say so
		{agent.PlanModel{Provider: "anthropic", BaseURL: "https://proxy.example.org"}, full},
		{agent.PlanModel{Provider: "ollama"}, none},
		{agent.PlanModel{Provider: "offline"}, none},
		{agent.PlanModel{Provider: "vllm"}, none},
		{agent.PlanModel{Provider: "langchain-openai"}, none},
		{agent.PlanModel{Provider: "langchain-anthropic"}, none},
		{agent.PlanModel{Provider: "langchain-ollama"}, none},
		{agent.PlanModel{Provider: "custom"}, agent.Capabilities{InvokesTools: true}},
	} {
		got, err := m.Capabilities(tt.model)
		require.NoError(t, err, "%+v", tt.model)
		require.Equal(t, tt.want, got, "%+v", tt.model)
	}
	_, err = m.Capabilities(agent.PlanModel{Provider: "acme"})
	require.ErrorContains(t, err, `unknown model provider "acme"`)
	_, err = m.Capabilities(agent.PlanModel{Profile: "p", Provider: "ollama", BaseURL: "nowhere"})
	require.ErrorContains(t, err, `model profile "p": provider "ollama": base_url`)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// What a model says of itself is what the catalog was told.
func TestCapabilitiesAreTheModels(t *testing.T) {
	m, err := llm.New(llm.OpenAI(llm.Config{APIKey: "k"}), llm.Anthropic(llm.Config{APIKey: "k"}), llm.Ollama(llm.Config{}))
	require.NoError(t, err)
	for _, name := range []string{"openai", "anthropic", "ollama"} {
		pm := agent.PlanModel{Provider: name}
		want, err := m.Capabilities(pm)
		require.NoError(t, err)
		model, err := m.Model(context.Background(), pm)
		require.NoError(t, err)
		require.Equal(t, want, model.(agent.Capable).Capabilities())
	}
}
