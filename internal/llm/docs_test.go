package llm_test

import (
	"fmt"
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

// docs/reference/models.md has tables of what each client makes of a request and of a reply. The test measures them over the wire formats.
func TestTablesOfTheDocs(t *testing.T) {
	var names []string
	var requests, replies [][]llmtest.Row
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
			if p.provider.OwnURL == openai.BaseURL { // the client treats this address specially
				cfg.HTTPClient, cfg.BaseURL = llmtest.Redirect(cfg.BaseURL), p.provider.OwnURL
			}
			return p.provider.Open(cfg)
		}}
		names = append(names, p.provider.Name)
		requests, replies = append(requests, llmtest.RequestRows(h)), append(replies, llmtest.ReplyRows(h))

		p.provider.Config.APIKey = "k"
		p.provider.Config.BaseURL = p.provider.OwnURL
		if p.provider.OwnURL == "" {
			p.provider.Config.BaseURL = local
		}
		m, err := llm.New(p.provider)
		require.NoError(t, err)
		c, err := m.Capabilities(agent.PlanModel{Provider: p.provider.Name})
		require.NoError(t, err)
		require.False(t, c.InvokesTools, "no built-in provider runs tools itself")
		capabilities += fmt.Sprintf("| %s | %s | %s | %s |\n", p.provider.Name, yesOrDash(c.OutputSchema), yesOrDash(c.PromptCache), yesOrDash(p.provider.Embed != nil))
	}
	page, err := os.ReadFile("../../docs/reference/models.md")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"capabilities": capabilities,
		"requests":     markdownTable("in a request", names, requests),
		"replies":      markdownTable("in a reply", names, replies),
	} {
		_, table, _ := strings.Cut(string(page), "<!-- "+name+" -->\n")
		got, _, _ := strings.Cut(table, "<!-- end -->")
		require.Equal(t, want, got, "docs/reference/models.md, table %s: want\n%s", name, want)
	}
}

// markdownTable renders columns as a table. All columns have the same rows.
func markdownTable(head string, names []string, columns [][]llmtest.Row) string {
	var b strings.Builder
	b.WriteString("| " + head + " | " + strings.Join(names, " | ") + " |\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for i := range columns[0] {
		b.WriteString("| " + columns[0][i].Name + " |")
		for _, column := range columns {
			b.WriteString(" " + column[i].Outcome + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func yesOrDash(b bool) string {
	if b {
		return "yes"
	}
	return "–"
}
