package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// analystPlan has everything that a diagram can show.
func analystPlan() agent.Plan {
	return agent.Plan{
		Schema: agent.PlanSchema, Tenant: "acme", Agent: "analyst", InstanceID: "acme/analyst@1", Node: "agent@1", System: "Answers.",
		Models: []agent.PlanModel{
			{Profile: "big", Provider: "openai", Model: "gpt-4.1"}, {Profile: "offline", Provider: "offline", Model: "turnstone-offline"},
		},
		Tools: []agent.PlanTool{
			{Spec: agent.ToolSpec{Name: "execute_pipeline"}, Toolkit: "pipeline", Binding: "pipes", Node: "pipeline@1"},
			{Spec: agent.ToolSpec{Name: "send_mail"}, Toolkit: "mail", Binding: "mail", Node: "mail@2", Approval: agent.ApproveAlways},
			{Spec: agent.ToolSpec{Name: "search", InherentlySafe: true}, Toolkit: "pipeline", Binding: "pipes", Node: "pipeline@1"},
			{Spec: agent.ToolSpec{Name: "pick_file", ClientSide: true}, Toolkit: "client", Approval: agent.ApproveNever},
		},
		Middleware:   []agent.PlanMiddleware{{Name: "pii"}, {Name: "model_retry"}},
		Limits:       agent.Limits{ModelCalls: 10, CostUSD: 0.5, WallTimeSec: 60, ToolCalls: 5, Tokens: 1000},
		RateLimits:   agent.RateLimits{RequestsPerMinute: 30, TokensPerMinute: 1000, ConcurrentTurns: 2},
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Prepare:      []agent.PlanStep{{Kind: "retrieve", Collection: "handbook", TopK: 4}},
		Delegates:    []string{"clerk"},
	}
}

func TestFlowchart(t *testing.T) {
	p := analystPlan()
	golden(t, "plan_mermaid", flowchart(&p))
	require.Equal(t, flowchart(&p), flowchart(&p))
	golden(t, "plan_mermaid_empty", flowchart(&agent.Plan{Agent: "bare"}))
}

// chartLine matches the lines of a flowchart, with LABEL in place of labels.
var chartLine = regexp.MustCompile(`^(flowchart TD|  end|  subgraph \w+ \[LABEL\]|  (?:  )?\w+(\(\[LABEL\]\)|\[/LABEL/\]|\[\[LABEL\]\]|\{\{LABEL\}\}|>LABEL\]|\[LABEL\])|` +
	`  (?:  )?\w+ (-->|<-->|-\.->|-\.-) \w+)$`)

var quoted = regexp.MustCompile(`"([\p{L}\p{Nd} .\-/,:_@·✋]|#[0-9]+;|<br/>)*"`)

func requireSound(t *testing.T, chart string) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSuffix(chart, "\n"), "\n") {
		require.Regexp(t, chartLine, quoted.ReplaceAllString(text, "LABEL"))
	}
}

func FuzzFlowchart(f *testing.F) {
	for _, seed := range []string{
		"x", "end", `a"] --> b["`, "a\nend\nclick b href", "<script>", "#quot;", "`**x**`", "1. one", "- two", "%%{init: {}}%%", "A---oB", "🎉", "\x1b[2J",
		`\`, "[/x/]", "subgraph", strings.Repeat("x", 1000), "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p := analystPlan()
		p.Agent, p.Node, p.Delegates = name, name, []string{name}
		p.Models[0] = agent.PlanModel{Profile: name, Provider: name, Model: name}
		p.Tools[0] = agent.PlanTool{Spec: agent.ToolSpec{Name: name}, Toolkit: name, Binding: name, Node: name}
		p.Middleware[0].Name = name
		p.Prepare[0] = agent.PlanStep{Kind: name, Collection: name}
		requireSound(t, flowchart(&p))
	})
}

func TestFlowchartIsBounded(t *testing.T) {
	p := agent.Plan{Agent: "large"}
	for i := range 1000 {
		name := fmt.Sprintf("name%d", i)
		p.Models = append(p.Models, agent.PlanModel{Profile: name})
		p.Middleware = append(p.Middleware, agent.PlanMiddleware{Name: name})
		p.Prepare = append(p.Prepare, agent.PlanStep{Kind: "retrieve", Collection: name})
		p.Delegates = append(p.Delegates, name)
		for range 50 {
			p.Tools = append(p.Tools, agent.PlanTool{Spec: agent.ToolSpec{Name: name, InherentlySafe: true}, Binding: name})
		}
	}
	chart := flowchart(&p)
	requireSound(t, chart)
	require.Less(t, len(chart), 50_000)
	require.Less(t, strings.Count(chart, "-"), 1500, "three for each of 500 edges")
	for _, want := range []string{
		"and 981 more models", "and 981 more", "and 981 more steps", "and 981 more agents", "and 980 more toolkits", "and 31 more tools",
	} {
		require.Contains(t, chart, `"`+want+`"`)
	}
}
