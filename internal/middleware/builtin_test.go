package middleware

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
)

const pace1 = `"initial_delay":1,"backoff_factor":2,"max_delay":60,"jitter":true`

// builtin has, by name, the least options of each middleware and all that there are.
func builtin() map[string]suiteCase {
	return map[string]suiteCase{
		"model_retry":      {Every: `{"max_retries":2,"retry_on":["unavailable"],"on_failure":"error",` + pace1 + `}`},
		"model_fallback":   {Options: `{"models":["b"]}`, Every: `{"models":["b","c"]}`},
		"tool_retry":       {Every: `{"max_retries":2,"tools":["read"],"retry_on":["unavailable"],"on_failure":"continue",` + pace1 + `}`},
		"tool_error":       {Every: `{"tools":["read"],"codes":["invalid"],"message":"{{tool}}: {{error}}"}`},
		"model_call_limit": {Options: `{"run_limit":1}`, Every: `{"run_limit":1,"thread_limit":2,"exit_behavior":"end"}`},
		"tool_call_limit":  {Options: `{"run_limit":1}`, Every: `{"tool_name":"read","run_limit":1,"thread_limit":2,"exit_behavior":"continue"}`},
		"human_in_the_loop": {
			Every: `{"interrupt_on":{"read":{"allowed_decisions":["approve","reject"],"description":"look","when":"args.city == 'Oslo'","expires_in":60,
			"on_expiry":"end","remember":"off"},"write":true,"list":false},"description_prefix":"Look","allow":["get_*"],"when":"!effect_free",
			"default":"keep","expires_in":"1h","on_expiry":"reject","remember":"tool"}`,
		},
		"todo": {Every: `{"system_prompt":"plan","tool_description":"the list"}`},
		"summarization": {
			Options: `{"trigger":{"messages":30}}`,
			Every: `{"model":"small","trigger":[{"tokens":4000},{"messages":30,"fraction":0.5}],"keep":{"messages":4},"summary_prompt":"sum up {messages}",
			"trim_tokens_to_summarize":1000}`,
		},
		"context_editing": {Every: `{"edits":[{"type":"clear_tool_uses","trigger":100}]}`},
		"prompt_caching":  {Every: `{"type":"ephemeral","ttl":"1h","min_messages_to_cache":1,"unsupported_model_behavior":"raise"}`},
		"pii": {
			Options: `{"pii_type":"email"}`,
			Every: `{"pii_type":"staff","strategy":"mask","detector":"x[0-9]+","apply_to_input":true,"apply_to_output":true,"apply_to_tool_results":true,
			"stream_lookback":100}`,
		},
	}
}

func TestBuiltinPassesTheSuite(t *testing.T) {
	cases := builtin()
	var names []string
	for _, n := range Builtin(2, nil) {
		names = append(names, n.Name)
		t.Run(n.Name, func(t *testing.T) {
			c := cases[n.Name]
			c.New = n.New
			exercise(t, c)
		})
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(cases)), names)
}

func TestNullOptionsAreNone(t *testing.T) {
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	for name, c := range builtin() {
		if c.Options != "" {
			continue
		}
		p := &agent.Plan{Middleware: []agent.PlanMiddleware{{Name: name}, {Name: name, Options: json.RawMessage("null")}}}
		chain, err := set.Chain(p)
		require.NoError(t, err, name)
		require.Equal(t, chain[0], chain[1], name)
	}
}

// TestDocumented: each middleware and each rule has its line.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/middleware.md")
	require.NoError(t, err)
	for _, n := range Builtin(2, nil) {
		require.Contains(t, string(text), "`"+n.Name+"`")
	}
	for name, c := range builtin() {
		var every map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.Every), &every))
		for option := range every {
			require.Contains(t, string(text), "`"+option+"`", name)
		}
	}
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	for _, example := range regexp.MustCompile("(?s)```yaml\n(?:middleware:\n)?(.*?)```").FindAllSubmatch(text, -1) {
		var list []struct {
			Name    string
			Options map[string]any
		}
		require.NoError(t, yaml.Unmarshal(example[1], &list))
		require.NotEmpty(t, list)
		for _, m := range list {
			options, err := json.Marshal(m.Options)
			require.NoError(t, err)
			require.NoError(t, set.Check(agent.PlanMiddleware{Name: m.Name, Options: options}, nil))
		}
	}
	for _, rule := range []string{
		ruleOnce, ruleRepeatBeforeFilter, ruleFilterBeforeAsk, ruleSummaryBeforeEdit, ruleErrorBeforeRetry, ruleFallbackSees, ruleStablePrefix,
		ruleCacheSupported, ruleKnownContext, ruleKnownModel, ruleKnownTool,
	} {
		require.Contains(t, string(text), "| `"+rule+"` | ")
	}
}

func TestSetRefuses(t *testing.T) {
	set, err := NewSet(Builtin(2, nil)...)
	require.NoError(t, err)
	_, err = set.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "nope"}}})
	require.ErrorContains(t, err, `middleware[0] nope: name: there is no middleware "nope"`)
	_, err = NewSet(append(Builtin(2, nil), Builtin(2, nil)...)...)
	require.ErrorContains(t, err, "given twice")
}
