package middleware

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func entry(name, options string) agent.PlanMiddleware {
	return agent.PlanMiddleware{Name: name, Options: json.RawMessage(options)}
}

// compile checks the middleware of a plan one after the other, as the compiler of the catalog does.
func compile(t *testing.T, all ...agent.PlanMiddleware) error {
	t.Helper()
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	p := &agent.Plan{
		Models: []agent.PlanModel{{Profile: "a", Provider: "anthropic", ContextTokens: 1000}, {Profile: "b", Provider: "anthropic", ContextTokens: 1000}},
		Tools:  []agent.PlanTool{{Spec: agent.ToolSpec{Name: "read"}}},
	}
	for _, m := range all {
		if err := set.Check(m, p); err != nil {
			return err
		}
		p.Middleware = append(p.Middleware, m)
	}
	return nil
}

func TestRulesOfOrder(t *testing.T) {
	var (
		retry     = entry("model_retry", ``)
		fallback  = entry("model_fallback", `{"models":["b"]}`)
		filter    = entry("pii", `{"pii_type":"email"}`)
		outFilter = entry("pii", `{"pii_type":"email","apply_to_input":false,"apply_to_output":true}`)
		summary   = entry("summarization", `{"trigger":{"messages":30}}`)
		editing   = entry("context_editing", ``)
		careful   = entry("context_editing", `{"edits":[{"type":"clear_tool_uses","clear_at_least":1000}]}`)
		mixed     = entry("context_editing", `{"edits":[{"type":"clear_tool_uses","clear_at_least":1000},{"type":"clear_tool_uses"}]}`)
		caching   = entry("prompt_caching", ``)
		toolRetry = entry("tool_retry", ``)
		readRetry = entry("tool_retry", `{"tools":["read"]}`)
		lockRetry = entry("tool_retry", `{"retry_on":["lock_timeout"]}`)
		toolError = entry("tool_error", ``)
		readError = entry("tool_error", `{"tools":["read"]}`)
		payError  = entry("tool_error", `{"tools":["pay"]}`)
		badError  = entry("tool_error", `{"codes":["invalid"]}`)
		human     = entry("human_in_the_loop", ``)
		todos     = entry("todo", ``)
		limit     = entry("tool_call_limit", `{"run_limit":1}`)
	)
	type list = []agent.PlanMiddleware
	cases := map[string]struct {
		all  list
		rule string // empty: fine
	}{
		"everything in its place": {list{toolError, toolRetry, fallback, retry, filter, filter, summary, careful, todos, human, caching, limit, limit}, ""},
		"retry twice":             {list{retry, retry}, ruleOnce},
		"fallback twice":          {list{fallback, todos, fallback}, ruleOnce},
		"approval twice":          {list{human, human}, ruleOnce},
		"summary twice":           {list{summary, summary}, ruleOnce},
		"caching twice":           {list{caching, caching}, ruleOnce},
		"todo twice":              {list{todos, todos}, ruleOnce},
		"others may come again":   {list{toolError, toolError, toolRetry, toolRetry, filter, filter, editing, editing, limit, limit}, ""},
		"filter, retry":           {list{filter, retry}, ruleRepeatBeforeFilter},
		"filter, fallback":        {list{outFilter, fallback}, ruleRepeatBeforeFilter},
		"summary, filter":         {list{summary, filter}, ruleFilterBeforeAsk},
		"summary, output filter":  {list{summary, outFilter}, ""},
		"editing, summary":        {list{editing, summary}, ruleSummaryBeforeEdit},
		"careful, summary":        {list{careful, summary}, ruleSummaryBeforeEdit},
		"retry, error":            {list{toolRetry, toolError}, ruleErrorBeforeRetry},
		"retry of one, error":     {list{readRetry, toolError}, ruleErrorBeforeRetry},
		"retry, error of one":     {list{toolRetry, readError}, ruleErrorBeforeRetry},
		"of different tools":      {list{readRetry, payError}, ""},
		"of different errors":     {list{toolRetry, badError}, ""},
		"of a type of its own":    {list{lockRetry, toolError}, ""},
		"the second retry":        {list{lockRetry, toolRetry, toolError}, ruleErrorBeforeRetry},
		"fallback, silent retry":  {list{fallback, entry("model_retry", `{"on_failure":"continue"}`)}, ruleFallbackSees},
		"silent retry, fallback":  {list{entry("model_retry", `{"on_failure":"continue"}`), fallback}, ""},
		"editing, caching":        {list{editing, caching}, ruleStablePrefix},
		"caching, editing":        {list{caching, editing}, ruleStablePrefix},
		"caching, one of two":     {list{caching, mixed}, ruleStablePrefix},
		"caching, careful":        {list{caching, careful}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := compile(t, c.all...)
			if c.rule == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			require.ErrorContains(t, err, "name: rule "+c.rule+": ")
		})
	}
}

func TestRulesOfPlan(t *testing.T) {
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	p := &agent.Plan{
		Agent: "x", Models: []agent.PlanModel{{Profile: "a", Provider: "anthropic", ContextTokens: 1000}, {Profile: "b", Provider: "openai"}},
		Tools: []agent.PlanTool{{Spec: agent.ToolSpec{Name: "read"}}},
	}
	cases := []struct{ name, options, want string }{
		{"model_fallback", `{"models":["z"]}`, `options.models[0]: rule known-model: the agent has no model "z"`},
		{"summarization", `{"trigger":{"tokens":1},"model":"z"}`, `options.model: rule known-model: the agent has no model "z"`},
		{"summarization", `{"trigger":{"tokens":1},"model":"b"}`, ``},
		{"summarization", `{"trigger":{"fraction":0.5}}`, `options.trigger: rule known-context: model "b" does not say its context_tokens`},
		{"summarization", `{"trigger":{"tokens":9},"keep":{"fraction":0.5}}`, `options.keep.fraction: rule known-context: model "b"`},
		{"tool_call_limit", `{"run_limit":1,"tool_name":"reed"}`, `options.tool_name: rule known-tool: the agent has no tool "reed"`},
		{"tool_call_limit", `{"run_limit":1,"tool_name":"read"}`, ``},
		{"tool_call_limit", `{"run_limit":1}`, ``},
		{"human_in_the_loop", `{"interrupt_on":{"read":true,"reed":false}}`, `options.interrupt_on.reed: rule known-tool: the agent has no tool "reed"`},
		{"human_in_the_loop", `{"allow":["read","re*","zz*","reed"]}`, `options.allow[3]: rule known-tool: the agent has no tool "reed"`},
		{"prompt_caching", `{"unsupported_model_behavior":"raise"}`, `rule cache-supported: model "b" is "openai"'s, want anthropic's`},
		{"prompt_caching", ``, ``},
	}
	for _, c := range cases {
		err := set.Check(entry(c.name, c.options), p)
		if c.want == "" {
			require.NoError(t, err, c.options)
		} else {
			require.ErrorContains(t, err, c.want)
		}
		require.NoError(t, set.Check(entry(c.name, c.options), nil), "for a node, whose agents are not known yet")
	}
}

func TestEditingKeepsThePrefixOfAPrompt(t *testing.T) {
	shared := func(options string) int {
		m := build(t, newContextEditing, options)
		shown := func(turns int) []string {
			var messages []agent.Message
			for i := range turns {
				id := fmt.Sprint(i)
				messages = append(
					messages, said(agent.RoleAssistant, called(id, "read", `{}`)),
					said(agent.RoleTool, answered(id, "read", `"`+strings.Repeat("x", 400)+`"`)),
				)
			}
			req := agent.ModelRequest{Messages: messages}
			edit(t, m, &req)
			var out []string
			for i := range req.Messages {
				raw, err := json.Marshal(req.Messages[i])
				require.NoError(t, err)
				out = append(out, string(raw))
			}
			return out
		}
		one, two := shown(10), shown(11)
		same := 0
		for same < len(one) && one[same] == two[same] {
			same++
		}
		return same
	}
	require.Equal(t, 15, shared(`{"edits":[{"type":"clear_tool_uses","trigger":100}]}`), "each call changes a message of the one before")
	require.Equal(t, 20, shared(`{"edits":[{"type":"clear_tool_uses","trigger":100,"clear_at_least":300}]}`), "the whole prompt is the beginning of the next")
}
