package delegate_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestToolkit(t *testing.T) {
	tooltest.Exercise(t, delegate.New(delegate.Config{}))
	_, err := tool.Build(tool.Dependencies{}, tool.Ready(delegate.New(delegate.Config{})))
	require.NoError(t, err)
}

// delegateTool has all interfaces of the tool.
type delegateTool interface {
	agent.Tool
	agent.Delegator
	agent.EffectFree
	agent.Summarizer
}

func theTool(t testing.TB) delegateTool {
	t.Helper()
	a, ok := delegate.New(delegate.Config{}).Tools()[0].(delegateTool)
	require.True(t, ok)
	return a
}

// turn returns arguments for a langchain_agent.
func turn(inputs, config string) string {
	if config == "" {
		return `{"agent_type":"langchain_agent","inputs":` + inputs + `}`
	}
	return `{"agent_type":"langchain_agent","inputs":` + inputs + `,"config":` + config + `}`
}

func TestDelegateRequests(t *testing.T) {
	two := []string{"analyst", "writer"}
	tests := map[string]struct {
		args      string
		delegates []string
		want      agent.DelegateRequest
	}{
		"message":         {turn(`{"message":"go"}`, `{"agent":"writer"}`), two, agent.DelegateRequest{Agent: "writer", Message: "go"}},
		"task":            {turn(`{"task":"go"}`, `{"agent":"analyst"}`), two, agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"input":           {turn(`{"input":"\u00e9\n<b>"}`, `{"agent":"analyst"}`), two, agent.DelegateRequest{Agent: "analyst", Message: "é\n<b>"}},
		"the only one":    {turn(`{"message":"go"}`, ""), two[:1], agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"null config":     {turn(`{"message":"go"}`, "null"), two[:1], agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"empty config":    {turn(`{"message":"go"}`, `{}`), two[:1], agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"null in config":  {turn(`{"message":"go"}`, `{"agent":null,"limits":null}`), two[:1], agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"strict fills in": {`{"agent_type":"langchain_agent","container_image":null,"inputs":{"message":"go"},"config":null}`, two[:1], agent.DelegateRequest{Agent: "analyst", Message: "go"}},
		"message goes first": {
			turn(`{"input":"c","task":"b", "message":"a"}`, ""), two[:1],
			agent.DelegateRequest{Agent: "analyst", Message: "a\n\n" + `{"input":"c","task":"b"}`},
		},
		"the rest follows": {
			turn(`{"n": 12345678901234567890.10, "task":"sum", "rows":[ {"a":"<&>"} ]}`, ""), two[:1],
			agent.DelegateRequest{Agent: "analyst", Message: "sum\n\n" + `{"n":12345678901234567890.10,"rows":[{"a":"<&>"}]}`},
		},
		"no message": {turn(`{"a": 1, "b": "x"}`, ""), two[:1], agent.DelegateRequest{Agent: "analyst", Message: `{"a":1,"b":"x"}`}},
		"message is no string": {
			turn(`{"message": {"a": 1}}`, ""), two[:1], agent.DelegateRequest{Agent: "analyst", Message: `{"message":{"a":1}}`},
		},
		"limits": {
			turn(`{"message":"go"}`, `{"limits":{"iterations":1,"model_calls":2,"tool_calls":3,"tokens":4,"cost_usd":0.5,"wall_time_sec":6}}`), two[:1],
			agent.DelegateRequest{Agent: "analyst", Message: "go", Limits: &agent.Limits{
				Iterations: 1, ModelCalls: 2, ToolCalls: 3, Tokens: 4, CostUSD: 0.5, WallTimeSec: 6,
			}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok, err := theTool(t).Delegate(json.RawMessage(tt.args), tt.delegates)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDelegateRefuses(t *testing.T) {
	two := []string{"analyst", "writer"}
	tests := map[string]struct {
		args           string
		delegates      []string
		code           agent.Code
		field, message string
	}{
		"nobody":            {turn(`{"message":"go"}`, ""), nil, agent.CodeDenied, "config.agent", "this agent has no delegates"},
		"which":             {turn(`{"message":"go"}`, ""), two, agent.CodeInvalid, "config.agent", "is required: want one of analyst, writer"},
		"no delegate":       {turn(`{"message":"go"}`, `{"agent":"Analyst"}`), two, agent.CodeDenied, "config.agent", `"Analyst" is not a delegate of this agent: want one of analyst, writer`},
		"not the only one":  {turn(`{"message":"go"}`, `{"agent":"x"}`), two[:1], agent.CodeDenied, "config.agent", "want one of analyst"},
		"unknown config":    {turn(`{"message":"go"}`, `{"model":"x"}`), two[:1], agent.CodeInvalid, "config.model", "unknown field"},
		"unknown limit":     {turn(`{"message":"go"}`, `{"limits":{"calls":1}}`), two[:1], agent.CodeInvalid, "config.limits.calls", "unknown field"},
		"negative limit":    {turn(`{"message":"go"}`, `{"limits":{"tokens":-1}}`), two[:1], agent.CodeInvalid, "config.limits.tokens", "is negative"},
		"wrong limit":       {turn(`{"message":"go"}`, `{"limits":{"tokens":"1"}}`), two[:1], agent.CodeInvalid, "config.limits.tokens", "want a whole number"},
		"config no object":  {turn(`{"message":"go"}`, `[]`), two[:1], agent.CodeInvalid, "config", "want an object"},
		"no inputs":         {`{"agent_type":"langchain_agent"}`, two[:1], agent.CodeInvalid, "inputs", "is required"},
		"null inputs":       {turn(`null`, ""), two[:1], agent.CodeInvalid, "inputs", "is required"},
		"inputs no object":  {turn(`"go"`, ""), two[:1], agent.CodeInvalid, "inputs", "want an object"},
		"empty inputs":      {turn(`{}`, ""), two[:1], agent.CodeInvalid, "inputs", "is empty: give the task as inputs.message"},
		"blank message":     {turn(`{"message":" \n"}`, ""), two[:1], agent.CodeInvalid, "inputs.message", "is empty"},
		"input given twice": {turn(`{"message":"a","message":"b"}`, ""), two[:1], agent.CodeInvalid, "inputs.message", "is given twice"},
		"no type":           {`{"inputs":{"message":"go"}}`, two[:1], agent.CodeInvalid, "agent_type", "is required"},
		"unknown type":      {`{"agent_type":"pod","inputs":{}}`, two[:1], agent.CodeInvalid, "agent_type", `want one of code_interpreter, custom_container, langchain_agent, got "pod"`},
		"unknown field":     {`{"agent_type":"langchain_agent","inputs":{"message":"a"},"agent":"x"}`, two[:1], agent.CodeInvalid, "agent", "unknown field"},
		"an image":          {`{"agent_type":"langchain_agent","inputs":{"message":"a"},"container_image":"x"}`, two[:1], agent.CodeInvalid, "container_image", "is for custom_container alone"},
		"too large":         {turn(`{"message":"`+strings.Repeat("x", delegate.MaxArgs)+`"}`, ""), two[:1], agent.CodeOverflow, "", "at most 262144"},
		"a name of length":  {turn(`{"message":"go"}`, `{"agent":"`+strings.Repeat("x", 9000)+`"}`), two, agent.CodeDenied, "config.agent", "is not a delegate"},
		"many delegates":    {turn(`{"message":"go"}`, ""), strings.Split(strings.Repeat("a ", 99)+"a", " "), agent.CodeInvalid, "config.agent", "a, …"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok, err := theTool(t).Delegate(json.RawMessage(tt.args), tt.delegates)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.code, e.Code)
			require.Equal(t, tt.field, e.Field)
			require.ErrorContains(t, err, tt.message)
			require.Less(t, len(err.Error()), 400)
			require.False(t, ok)
			require.Zero(t, got)
		})
	}
}

func TestContainersAreUnavailable(t *testing.T) {
	for _, args := range []string{
		`{"agent_type":"code_interpreter","inputs":{"code":"1+1"},"config":{"cpu":1}}`,
		`{"agent_type":"custom_container","container_image":"busybox","inputs":{}}`,
	} {
		tl := theTool(t)
		_, ok, err := tl.Delegate(json.RawMessage(args), []string{"analyst"})
		require.NoError(t, err)
		require.False(t, ok, "the tool runs containers itself")
		require.True(t, tl.EffectFree(json.RawMessage(args)), "without a cluster nothing runs")
		f := call(t, args)
		require.Equal(t, "unavailable", f.Type)
		require.Contains(t, f.Message, "no cluster is configured")
		require.False(t, f.Retryable, "another try finds no cluster either")
	}
	f := call(t, `{"agent_type":"custom_container","inputs":{}}`)
	require.Equal(t, "container_image", f.Field)
	require.Equal(t, "invalid", f.Type)
}

func call(t *testing.T, args string) *agent.Failure {
	t.Helper()
	res, err := theTool(t).Call(t.Context(), agent.Invocation{}, agent.ToolCall{Name: delegate.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	require.NotNil(t, res.Failure)
	require.Equal(t, delegate.ToolName, res.Failure.Tool)
	return res.Failure
}

func TestCallDoesNotRunTurns(t *testing.T) {
	f := call(t, turn(`{"message":"go"}`, ""))
	require.Equal(t, "unavailable", f.Type)
	require.True(t, theTool(t).EffectFree(json.RawMessage(turn(`{"message":"go"}`, ""))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := theTool(t).Call(ctx, agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(turn(`{"message":"go"}`, ""))})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestSpec(t *testing.T) {
	spec := theTool(t).Spec()
	require.Equal(t, "delegate_to_agent", spec.Name)
	require.Equal(t, "Delegate task to external agent (K8s job)", spec.Description)
	require.True(t, spec.Strict)
	require.True(t, spec.Idempotent)
	require.False(t, spec.InherentlySafe)
	require.JSONEq(t, `{"type":"object","required":["agent_type","inputs"],"additionalProperties":false,"properties":{
		"agent_type":{"type":"string","enum":["code_interpreter","custom_container","langchain_agent"],"description":"Type of agent to use"},
		"container_image":{"type":"string","description":"Docker image for custom_container type"},
		"inputs":{"type":"object","description":"Input data for the agent"},
		"config":{"type":"object","description":"Agent-specific configuration"}}}`, string(spec.Parameters))
}

func TestSummarize(t *testing.T) {
	tests := map[string]string{
		turn(`{"message":"go"}`, `{"agent":"analyst"}`):                           "analyst",
		turn(`{"message":"go"}`, ""):                                              "langchain_agent",
		`{"agent_type":"code_interpreter","inputs":{"code":"1"}}`:                 "code_interpreter",
		`{"agent_type":"code_interpreter","inputs":{}}`:                           "invalid arguments",
		`{"agent_type":"custom_container","container_image":"a/b:1","inputs":{}}`: "a/b:1",
		`{"agent_type":"x"}`:                                                      "invalid arguments",
		turn(`{"message":"go"}`, `{"agent":"`+strings.Repeat("é", 100)+`"}`):      strings.Repeat("é", 30) + "…",
		turn(`{"message":"go"}`, `{"agent":"x`+strings.Repeat("é", 100)+`"}`):     "x" + strings.Repeat("é", 29) + "…",
	}
	for args, want := range tests {
		require.Equal(t, want, theTool(t).Summarize(json.RawMessage(args)))
	}
}

// FuzzDelegate checks that a request names one of the delegates and has a message, and that other arguments are for the tool itself or refused.
func FuzzDelegate(f *testing.F) {
	f.Add([]byte(turn(`{"message":"go","n":1e400}`, `{"agent":"analyst","limits":{"tokens":1}}`)))
	f.Add([]byte(turn(`{"a\u0000\"b":[{"c":"\ud83d\ude00"}]}`, `{"agent":"writer"}`)))
	f.Add([]byte(turn(`{}`, `{"agent":"x"}`)))
	f.Add([]byte(`{"agent_type":"custom_container","container_image":"x","inputs":{}}`))
	delegates := []string{"analyst", "writer"}
	withCluster, ok := delegate.New(delegate.Config{Containers: &dock{}}).Tools()[0].(delegateTool)
	require.True(f, ok)
	f.Fuzz(func(t *testing.T, args []byte) {
		tl := theTool(t)
		r, ok, err := tl.Delegate(args, delegates)
		res, callErr := tl.Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: args})
		require.NoError(t, callErr)
		tooltest.CheckResult(t, res)
		require.NotNil(t, res.Failure)
		require.LessOrEqual(t, len(tl.Summarize(args)), 100)
		switch {
		case err != nil:
			require.False(t, ok)
		case ok:
			require.Contains(t, delegates, r.Agent)
			require.NotEmpty(t, strings.TrimSpace(r.Message))
			require.True(t, tl.EffectFree(args))
			again, err := json.Marshal(map[string]any{"agent_type": "langchain_agent", "inputs": map[string]string{"message": r.Message}})
			require.NoError(t, err)
			if len(again) > delegate.MaxArgs {
				return
			}
			r2, _, err := tl.Delegate(again, delegates[:1])
			require.NoError(t, err)
			require.Equal(t, r.Message, r2.Message)
		default:
			require.False(t, withCluster.EffectFree(args))
		}
	})
}
