package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestAgentsAndNodes(t *testing.T) {
	b := setup(t)
	b.catalog.AgentList = []agent.AgentInfo{
		{
			Name: "analyst", Tenant: "default", Default: true, Description: "Answers questions\nabout data.\x1b[2J", Models: []string{"offline", "big"},
			Tools: []agent.ToolInfo{{Name: "execute_pipeline"}, {Name: "send_mail"}}, Labels: map[string]string{"team": "finance"},
			Limits: agent.Limits{ModelCalls: 10}, RateLimits: agent.RateLimits{RequestsPerMinute: 30}, NodeID: "agent",
		},
		{Name: "clerk", Tenant: agent.SharedTenant, Fault: "there is no model \"big\"", NodeID: "clerk"},
		{Name: "theirs", Tenant: "acme", Description: strings.Repeat("long ", 100)},
	}
	b.catalog.NodeList = []agent.NodeInfo{
		{
			NodeID: "mail", Version: "2", Type: agent.NodeToolkit, Source: "builtin", Tools: []agent.ToolInfo{{Name: "send_mail"}},
			Description: "Sends mail.", Labels: map[string]string{"a": "b"},
		},
		{NodeID: "agent", Version: "1", Type: agent.NodeAgent, Source: "api"},
	}
	b.succeeds("", "agents", "agents list", "agents list --all-tenants", "agents list --tool send_mail --label team=finance", "agents list --node clerk",
		"agents --tenant acme", "agents list --limit 1", "agents list --label team=none", "nodes", "nodes list --type toolkit", "nodes list --node agent",
		"nodes list --label a=b")
	golden(t, "agents", b.screen.String())

	agents := answer[[]agent.AgentInfo](b, "agents", "list")
	require.Len(t, agents, 2)
	require.JSONEq(t, `[]`, b.show(0, "nodes", "list", "--node", "nope", "-o", "json"))
}

func TestListsFollowPages(t *testing.T) {
	b := setup(t)
	for range 2*pageSize + 1 {
		b.catalog.AgentList = append(b.catalog.AgentList, agent.AgentInfo{Name: "a"})
	}
	require.Equal(t, 2*pageSize+2, strings.Count(b.show(0, "agents", "list", "--limit", "0"), "\n"))
	out := b.show(0, "agents", "list", "--limit", "1500")
	require.Equal(t, 1502, strings.Count(out, "\n"))
	require.Contains(t, out, "there are more; see --limit")
	require.NotContains(t, b.show(0, "agents", "list", "--limit", "2001"), "there are more")
}

func TestRoute(t *testing.T) {
	b := setup(t)
	var got agent.RouteContext
	b.catalog.Decide = func(r agent.RouteContext) (agent.RouteDecision, error) {
		got = r
		if r.Agent != "" {
			return agent.RouteDecision{Agent: r.Agent, Reason: agent.RouteNamed, Mismatch: true, Expected: "trader"}, nil
		}
		return agent.RouteDecision{
			Agent: "trader", Model: "big", Reason: agent.RouteRuled, Table: "default/desk", Rule: "gold", Revision: 7,
			Rules: []agent.RuleVerdict{
				{Table: "default/desk", Rule: "night", Priority: 20, Agent: "owl", Reason: "channel is \"cli\", not telegram"},
				{Table: "default/desk", Rule: "gold", Priority: 10, Agent: "trader", Model: "big", Matched: true, Chosen: true, Reason: "all of it holds"},
				{Table: "*/base", Rule: "any", Agent: "analyst", Matched: true, Reason: "an earlier rule decided\x1b[2J"},
			},
		}, nil
	}
	golden(t, "route", b.show(0, "route", "--dry-run", "--role", "trader", "--page", "/portfolio", "--session", "s1", "--user", "ann",
		"--flag", "beta=true", "--flag", "name=plain text", "--flag", `quoted="true"`, "--metadata", `account={"tier":"gold","n":12345678901234567890}`,
		"--metadata", "url=http://x/?a=b", "--metadata", "none=")+b.show(0, "route", "-a", "analyst"))
	require.Equal(t, "analyst", got.Agent)
	_ = b.show(0, "route", "--flag", "n=12345678901234567", "--metadata", "m=[1]", "--channel", "http", "--tenant", "acme")
	require.Equal(t, "http", got.Channel)
	require.Equal(t, "acme", got.Tenant)
	require.Equal(t, []any{json.Number("1")}, numbers(t, got.Metadata["m"]))

	d := answer[agent.RouteDecision](b, "route")
	require.Equal(t, "cli", got.Channel)
	require.Len(t, d.Rules, 3)
	b.catalog.Decide = nil
	require.Contains(t, b.show(exitUsage, "route"), "there is no default agent")
	for _, args := range []string{"--flag x", "--metadata =x", "--flag a=1 --flag a=2", "extra"} {
		require.NotEmpty(t, b.show(exitUsage, append([]string{"route"}, strings.Fields(args)...)...))
	}
}

// numbers returns v with its numbers as [json.Number].
func numbers(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return jsonOrText(string(text))
}

func TestValues(t *testing.T) {
	got, err := parseValues("--flag", []string{"a=true", "b=1.50", "c=x=y", `d={"k":[null]}`, "e=", "f=1 2", "g=01", `h="q"`})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": true, "b": json.Number("1.50"), "c": "x=y", "d": map[string]any{"k": []any{nil}}, "e": "", "f": "1 2", "g": "01", "h": "q",
	}, got)
}

func TestPlanShow(t *testing.T) {
	b := setup(t)
	p := analystPlan()
	p.System = "steer \u009b2J"
	body, err := json.Marshal(p)
	require.NoError(t, err)
	sum := sha256.Sum256(body)
	hash := "sha256:" + hex.EncodeToString(sum[:])
	b.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "acme", PlanHash: hash}, {Name: "broken", Tenant: "acme", PlanHash: strings.ToUpper(hash)}}
	b.catalog.Plans = map[string][]byte{hash: body, "sha256:" + strings.Repeat("0", 64): body, strings.ToUpper(hash): body}

	require.Equal(t, string(body), b.show(0, "plan", "show", hash, "-o", "json"), "the canonical bytes, nothing else")
	require.Equal(t, string(body), b.show(0, "plan", "show", "analyst", "--tenant", "acme", "-o", "json"))
	require.Equal(t, flowchart(&p), b.show(0, "plan", "show", hash, "--mermaid"))
	pretty := b.show(0, "plan", "show", hash)
	require.Contains(t, pretty, "\n  \"agent\": \"analyst\",\n")
	require.NotContains(t, pretty, "\u009b", "no control characters")

	require.Contains(t, b.show(exitUsage, "plan", "show", "nobody"), `there is no agent "nobody"`)
	require.Contains(t, b.show(exitUsage, "plan", "show", "sha256:12"), "no plan")
	require.Contains(t, b.show(exitUsage, "plan", "show", "a/b"), "is no name")
	require.Contains(t, b.show(exitUsage, "plan", "show", hash, "--mermaid", "-o", "json"), "--mermaid")
	require.Contains(t, b.show(exitFailed, "plan", "show", "sha256:"+strings.Repeat("0", 64)), "its hash is")
	require.Contains(t, b.show(exitFailed, "plan", "show", "broken", "--tenant", "acme"), "its hash is")
}
