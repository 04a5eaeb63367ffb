package app_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

// MCP servers are sections of a list; what their environment holds is shown to nobody.
func TestMCPServers(t *testing.T) {
	cfg, err := app.Load(sources(t, `
tools:
  mcp:
    servers:
      - name: files
        command: npx
        args: [-y, server]
        env: ["TOKEN=${SECRET_WORD}"]
      - {name: other, command: serve, dir: /srv}
`, []string{"SECRET_WORD=hunter2"}))
	require.NoError(t, err)
	require.Equal(t, []app.MCPServer{
		{Name: "files", Command: "npx", Args: []string{"-y", "server"}, Env: []string{"TOKEN=hunter2"}}, {Name: "other", Command: "serve", Dir: "/srv"},
	}, cfg.Tools.MCP.Servers)
	var out bytes.Buffer
	require.NoError(t, cfg.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
	require.Contains(t, out.String(), "TOKEN=[redacted]")
	require.Contains(t, out.String(), "command: \"serve\"")
	require.Equal(t, []string{"TOKEN=hunter2"}, cfg.Tools.MCP.Servers[0].Env, "showing it changes nothing")
}

func TestFaultsOfTools(t *testing.T) {
	for text, says := range map[string]string{
		"tools: {mcp: {servers: [{name: 'a b', command: x}]}}":                     "tools.mcp.servers[0].name",
		"tools: {mcp: {servers: [{name: a}]}}":                                     "tools.mcp.servers[0].command",
		"tools: {mcp: {servers: [{name: a, command: x}, {name: a, command: y}]}}":  `"a" is taken`,
		"tools: {mcp: {servers: [{name: a, command: x, env: [NAME]}]}}":            "tools.mcp.servers[0].env[0]",
		"tools: {mcp: {servers: [{name: a, comand: x}]}}":                          "tools.mcp.servers[0].comand",
		"tools: {mcp: {servers: {name: a}}}":                                       "want a list",
		"tools: {pipeline: {promote_after: -1}}":                                   "tools.pipeline.promote_after",
		"tools: {openapi: {max_response_bytes: 1GiB}}":                             "tools.openapi.max_response_bytes",
		"tools: {research: {pubmed_url: 'ftp://x'}}":                               "tools.research.pubmed_url",
		"tools: {research: {contact: nobody}}":                                     "tools.research.contact",
		"tools: {research: {web_provider: altavista}}":                             "tools.research.web_provider",
		"tools: {research: {web_provider: searxng}}":                               "tools.research.web_url",
		"tools: {research: {trials_rate: 0.0001}}":                                 "tools.research.trials_rate",
		"tools: {research: {max_wait: 10m}}":                                       "tools.research.max_wait",
		"tools: {research: {source_timeout: 0s}}":                                  "tools.research.source_timeout",
		"tools: {kubernetes: {enabled: true, deadline: 9m}}":                       "tools.kubernetes.deadline",
		"workflows: {orchestrator_url: 'http://u:p@x'}":                            "workflows.orchestrator_url",
		"workflows: {smtp: {addr: nowhere, from: a@b}}":                            "workflows.smtp.addr",
		"workflows: {smtp: {addr: 'mail:25'}}":                                     "workflows.smtp.from",
		"workflows: {smtp: {addr: 'mail:25', from: a@b, tls: maybe}}":              "workflows.smtp.tls",
		"workflows: {smtp: {addr: 'mail:25', from: a@b, allow_to: ['everybody']}}": "workflows.smtp.allow_to[0]",
		"workflows: {smtp: {addr: 'mail:25', from: a@b, to: ['you']}}":             "workflows.smtp.to[0]",
	} {
		_, err := app.Load(sources(t, text, nil))
		require.ErrorContains(t, err, says, text)
	}
}

func TestResearchSettings(t *testing.T) {
	cfg, err := app.Load(sources(t, "tools: {research: {pubmed_rate: 0.5, web_rate: 2, max_wait: 30s}}", []string{"TURNSTONE_TOOLS_RESEARCH_SOURCE_TIMEOUT=1m"}))
	require.NoError(t, err)
	r := cfg.Tools.Research
	require.Equal(t, []any{0.5, 2.0, 0.0, 30 * time.Second, time.Minute}, []any{r.PubMedRate, r.WebRate, r.TrialsRate, r.MaxWait, r.SourceTimeout})
}
