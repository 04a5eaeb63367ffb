// Package tooltest has the conformance suite of toolkits, and the suites and fakes of the stores that toolkits use.
//
// The suite of toolkits checks the contract of [agent.Tool]: every call of a model gets a result, a call with bad arguments gets a failed result
// and no error, and no call panics.
package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// callTimeout is how long a call with bad arguments, or with a context that has ended, may take on a busy machine.
const callTimeout = 5 * time.Second

const (
	namePattern = `^[a-zA-Z0-9_-]{1,64}$`
	// maxHandle is the bound of [agent.ListedTool.Handle].
	maxHandle = 1 << 10
)

// maxSummary is the bound of [agent.CallVerdict.Summary].
const maxSummary = 100

// Exercise runs the suite on a toolkit, whose tools must not reach anything outside the test. A dynamic toolkit may have no static tools:
// [ExerciseListed] tests the others.
func Exercise(t *testing.T, kit agent.Toolkit) {
	t.Helper()
	name := regexp.MustCompile(namePattern)
	require.Regexp(t, name, kit.Name())
	if _, dynamic := kit.(agent.DynamicToolkit); !dynamic {
		require.NotEmpty(t, kit.Tools())
	}
	if c, ok := kit.(agent.Configurable); ok {
		t.Run("properties", func(t *testing.T) { checkSchema(t, c.Properties) })
	}
	seen := map[string]bool{}
	for _, tool := range kit.Tools() {
		spec := tool.Spec()
		require.Regexp(t, name, spec.Name)
		require.False(t, seen[spec.Name], "two tools are named %q", spec.Name)
		seen[spec.Name] = true
		t.Run(spec.Name, func(t *testing.T) { exerciseTool(t, tool, invocation()) })
	}
}

// ExerciseListed runs the suite on the tools that a dynamic toolkit lists for a scope. There must be at least one, and each must have a required
// argument.
func ExerciseListed(t *testing.T, kit agent.DynamicToolkit, scope agent.ToolScope) {
	t.Helper()
	listed, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	require.NotEmpty(t, listed)
	again, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	require.Equal(t, listed, again, "the order does not change by itself")

	inv := invocation()
	inv.Tenant, inv.Parameters, inv.Auth = scope.Tenant, scope.Parameters, scope.Auth
	seen := map[string]bool{}
	for _, tool := range kit.Tools() {
		seen[tool.Spec().Name] = true
	}
	for i := range listed {
		l := &listed[i]
		require.Regexp(t, namePattern, l.Spec.Name)
		require.False(t, seen[l.Spec.Name], "two tools are named %q", l.Spec.Name)
		seen[l.Spec.Name] = true
		require.LessOrEqual(t, len(l.Handle), maxHandle)
		found, err := kit.Find(t.Context(), scope, l.Spec.Name, l.Handle)
		require.NoError(t, err)
		spec := found.Spec()
		require.Equal(t, l.Spec.Name, spec.Name)
		require.Equal(t, l.Spec.Idempotent, spec.Idempotent)
		require.Equal(t, l.Spec.InherentlySafe, spec.InherentlySafe)
		t.Run(l.Spec.Name, func(t *testing.T) { exerciseTool(t, found, inv) })
	}
	_, err = kit.Find(t.Context(), scope, listed[0].Spec.Name, "\x00 no such handle")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "a handle that is none: %v", err)
}

func exerciseTool(t *testing.T, tool agent.Tool, inv agent.Invocation) {
	t.Helper()
	t.Run("spec", func(t *testing.T) { checkSpec(t, tool) })
	for name, args := range badArguments() {
		t.Run("arguments/"+name, func(t *testing.T) { checkBadArguments(t, tool, inv, args) })
	}
	t.Run("cancelled context", func(t *testing.T) { checkCancelled(t, tool, inv) })
}

func checkSpec(t *testing.T, tool agent.Tool) {
	t.Helper()
	spec := tool.Spec()
	require.NotEmpty(t, spec.Description)
	checkSchema(t, func() json.RawMessage { return tool.Spec().Parameters })
}

// checkSchema checks that schema returns the JSON Schema of an object, and a new copy with every call.
func checkSchema(t *testing.T, schema func() json.RawMessage) {
	t.Helper()
	raw := schema()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err, "parameters are JSON")
	object, ok := doc.(map[string]any)
	require.True(t, ok, "parameters are an object")
	require.Equal(t, "object", object["type"], "arguments are an object")
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("parameters.json", doc))
	_, err = c.Compile("parameters.json")
	require.NoError(t, err, "parameters are a JSON Schema")

	clear(raw)
	require.True(t, json.Valid(schema()), "gives away its own bytes: a caller can change them")
}

func badArguments() map[string]string {
	return map[string]string{
		"none":          "",
		"null":          "null",
		"number":        "42",
		"string":        `"x"`,
		"array":         "[]",
		"empty object":  "{}",
		"cut off":       `{"a":`,
		"not JSON":      "<html>",
		"two values":    "{} {}",
		"unknown field": `{"\u0000 no such field":1}`,
		"invalid UTF-8": "{\"a\":\"\xff\xfe\"}",
		"deep":          strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		"deep array":    strings.Repeat("[", 100_000),
		"huge":          `{"a":"` + strings.Repeat("x", 4<<20) + `"}`,
		"huge number":   `{"a":1e999999999}`,
	}
}

func checkBadArguments(t *testing.T, tool agent.Tool, inv agent.Invocation, args string) {
	t.Helper()
	call := agent.ToolCall{ID: "call_1", Name: tool.Spec().Name, Args: json.RawMessage(args)}
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	res, err := tool.Call(ctx, inv, call)
	require.NoError(t, err, "arguments are the model's mistake, not the runtime's")
	require.NoError(t, ctx.Err(), "took more than %s", callTimeout)
	require.NotNil(t, res.Failure, "the call must fail")
	require.NotEmpty(t, res.Failure.Type)
	require.NotEmpty(t, res.Failure.Message)
	require.Less(t, len(res.Failure.Message), 4096, "a message does not repeat the arguments")
	require.False(t, res.Failure.Retryable, "the same arguments stay wrong")
	CheckResult(t, res)

	if e, ok := tool.(agent.EffectFree); ok {
		require.True(t, e.EffectFree(call.Args), "arguments that do not parse have no effects")
	}
	if s, ok := tool.(agent.Summarizer); ok {
		require.LessOrEqual(t, len(s.Summarize(call.Args)), maxSummary)
	}
}

func checkCancelled(t *testing.T, tool agent.Tool, inv agent.Invocation) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	res, err := tool.Call(ctx, inv, agent.ToolCall{ID: "call_1", Name: tool.Spec().Name, Args: json.RawMessage(`{}`)})
	require.Less(t, time.Since(began), callTimeout)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
		return
	}
	require.NotNil(t, res.Failure)
}

// CheckResult checks a result: everything in it is JSON, and Data is a part of Output.
func CheckResult(t *testing.T, res agent.ToolResult) {
	t.Helper()
	require.True(t, json.Valid(res.Output), "output is JSON: %.200s", res.Output)
	if res.Data != nil {
		require.True(t, json.Valid(res.Data), "data is JSON: %.200s", res.Data)
		require.True(t, bytes.Contains(res.Output, res.Data), "data is a part of the output")
	}
	if res.Preview == nil {
		return
	}
	var preview struct {
		Type     string            `json:"type"`
		RowCount *int              `json:"row_count"`
		Sample   []json.RawMessage `json:"sample"`
	}
	require.NoError(t, json.Unmarshal(res.Preview, &preview))
	require.NotEmpty(t, preview.Type)
	require.NotNil(t, preview.RowCount)
	require.LessOrEqual(t, len(res.Preview), 32<<10, "a preview is shown to models and people")
}

func invocation() agent.Invocation {
	return agent.Invocation{Tenant: agent.DefaultTenant, TurnID: "t", SessionID: "s", Step: 1, Attempt: 1, IdempotencyKey: "k"}
}
