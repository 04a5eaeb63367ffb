package llm_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/bedrock"
	"github.com/turnstone-run/turnstone/internal/llm/gemini"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// The tables of docs/reference/models.md are what the clients do, tried out over their wire formats.
func TestTablesOfTheDocs(t *testing.T) {
	var names []string
	var takes, says [][]llmtest.Row
	capabilities := "| provider | enforces output schemas | obeys prompt caching | embeddings |\n|---|---|---|---|\n"
	for _, p := range []struct {
		provider llm.Provider
		dialect  llmtest.Dialect
	}{
		{llm.OpenAI(llm.Config{}), llmtest.OpenAI{}},
		{llm.Anthropic(llm.Config{}), llmtest.Anthropic{}},
		{llm.Ollama(llm.Config{}), llmtest.OpenAI{}},
		{llm.Compatible("compatible", llm.Config{}), llmtest.OpenAI{}},
		{llm.Provider{Name: "googleai", Open: gemini.New, OwnURL: gemini.BaseURL}, llmtest.Gemini{}},
		{llm.Provider{Name: "bedrock", Open: bedrock.New}, llmtest.Bedrock{}},
		{llm.LangChainOpenAI(llm.Config{}), llmtest.OpenAI{}},
		{llm.LangChainAnthropic(llm.Config{}), llmtest.Anthropic{}},
		{llm.LangChainOllama(llm.Config{}), llmtest.Ollama{}},
	} {
		h := llmtest.Harness{Dialect: p.dialect, Open: func(cfg wire.Config) (agent.Model, error) {
			if p.provider.OwnURL == openai.BaseURL { // its client looks at the host
				cfg.HTTPClient, cfg.BaseURL = detour(cfg.BaseURL), p.provider.OwnURL
			}
			return p.provider.Open(cfg)
		}}
		names = append(names, p.provider.Name)
		takes, says = append(takes, llmtest.Takes(h)), append(says, llmtest.Says(h))

		p.provider.Config.APIKey = "k"
		p.provider.Config.BaseURL = p.provider.OwnURL
		if p.provider.OwnURL == "" {
			p.provider.Config.BaseURL = local
		}
		m, err := llm.New(p.provider)
		require.NoError(t, err)
		c, err := m.Capabilities(agent.PlanModel{Provider: p.provider.Name})
		require.NoError(t, err)
		require.False(t, c.InvokesTools, "no provider of ours runs tools by itself")
		capabilities += fmt.Sprintf("| %s | %s | %s | %s |\n", p.provider.Name, yes(c.OutputSchema), yes(c.PromptCache), yes(p.provider.Embed != nil))
	}
	page, err := os.ReadFile("../../docs/reference/models.md")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"capabilities": capabilities,
		"requests":     llmtest.Markdown("in a request", names, takes),
		"replies":      llmtest.Markdown("in a reply", names, says),
	} {
		_, rest, _ := strings.Cut(string(page), "<!-- "+name+" -->\n")
		got, _, _ := strings.Cut(rest, "<!-- end -->")
		require.Equal(t, want, got, "docs/reference/models.md, table %s: want\n%s", name, want)
	}
}

// detour sends requests to another server than the one they are for.
func detour(to string) *http.Client { return &http.Client{Transport: detouring(to)} }

type detouring string

func (d detouring) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := url.Parse(string(d))
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host, req.Host = u.Scheme, u.Host, ""
	return http.DefaultTransport.RoundTrip(req)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "–"
}
