package llm_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
)

const local = "http://127.0.0.1:1/v1"

func TestModelOfEveryProvider(t *testing.T) {
	keyed := llm.Config{APIKey: "k"}
	m, err := llm.New(llm.OpenAI(keyed), llm.Anthropic(keyed), llm.Ollama(llm.Config{}), llm.Compatible("offline", llm.Config{BaseURL: local}),
		llm.Compatible("vllm", llm.Config{BaseURL: local}), llm.LangChainOpenAI(keyed), llm.LangChainAnthropic(keyed),
		llm.LangChainOllama(llm.Config{}))
	require.NoError(t, err)
	for _, name := range []string{
		"openai", "anthropic", "ollama", "offline", "vllm", "langchain-openai", "langchain-anthropic", "langchain-ollama",
	} {
		pm := agent.PlanModel{Provider: name, Model: "x"}
		model, err := m.Model(t.Context(), pm)
		require.NoError(t, err, name)
		require.NotNil(t, model)
		capabilities, err := m.Capabilities(pm)
		require.NoError(t, err, name)
		if capable, ok := model.(agent.Capable); ok {
			require.Equal(t, capable.Capabilities(), capabilities, name)
		}
	}
	_, err = m.Model(t.Context(), agent.PlanModel{Provider: "acme"})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, `unknown model provider "acme": configured are anthropic, langchain-anthropic`)
	require.ErrorContains(t, err, "may name anthropic, cloudflare, cohere, ernie, huggingface, langchain-anthropic, langchain-ollama, "+
		"langchain-openai, llamafile, maritaca, mistral, offline, ollama, openai, watsonx")
}

func TestOpenRefusesInvalidProviders(t *testing.T) {
	for text, provider := range map[string]llm.Provider{
		`"openai": api_key: is empty`:                            llm.OpenAI(llm.Config{}),
		`"anthropic": api_key: is empty`:                         llm.Anthropic(llm.Config{}),
		`"offline": base_url: is empty`:                          llm.Compatible("offline", llm.Config{}),
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

func TestModelsOpensOneClientForEachTimeout(t *testing.T) {
	var mu sync.Mutex
	timeouts := map[string]int{}
	p := llm.Compatible("offline", llm.Config{BaseURL: local})
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

// toolRunner is a model that runs tools itself.
type toolRunner struct{ failingModel }

func (toolRunner) Capabilities() agent.Capabilities { return agent.Capabilities{InvokesTools: true} }

// noTransport is a transport that fails the test if it is used.
type noTransport struct{ t *testing.T }

func (n noTransport) RoundTrip(*http.Request) (*http.Response, error) {
	n.t.Error("a request was made")
	return nil, http.ErrUseLastResponse
}

func TestCapabilitiesNeedNoConnection(t *testing.T) {
	client := &http.Client{Transport: noTransport{t}}
	custom := llm.Provider{Name: "custom", Open: func(llm.Config) (agent.Model, error) { return toolRunner{}, nil }}
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{
		llm.OpenAI(llm.Config{APIKey: "k", HTTPClient: client}), llm.Compatible("vllm", llm.Config{BaseURL: local, HTTPClient: client}),
		llm.LangChainOpenAI(llm.Config{HTTPClient: client}), llm.LangChainAnthropic(llm.Config{HTTPClient: client}),
		llm.LangChainOllama(llm.Config{HTTPClient: client}), custom,
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
		{agent.PlanModel{Provider: "anthropic"}, full}, // not configured, so without a key
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
