package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

type page struct {
	Limit int `json:"limit,omitempty" jsonschema:"minimum=1,maximum=50"`
}

type place struct {
	City string  `json:"city" jsonschema_description:"City, such as Paris"`
	Note *string `json:"note"`
}

type search struct {
	page

	Unit    string            `json:"unit" jsonschema:"enum=celsius,enum=fahrenheit"`
	Places  []place           `json:"places" jsonschema:"minItems=1"`
	Labels  map[string]string `json:"labels,omitempty"`
	Since   time.Time         `json:"since,omitzero"`
	Filter  json.RawMessage   `json:"filter,omitempty"`
	Extra   any               `json:"extra,omitempty"`
	Address netip.Addr        `json:"address,omitzero"`
	Digest  [4]byte           `json:"digest,omitzero"`
	Back    *place            `json:"back"`

	Skipped chan int `json:"-"`
	_       func()
}

func searchTool[In, Out any](t *testing.T, f func(context.Context, In) (Out, error), options ...tool.FunctionOption) agent.Tool {
	t.Helper()
	made, err := tool.NewFunction("search", "Searches.", f, options...)
	require.NoError(t, err)
	return made
}

func echo[In any](_ context.Context, in In) (In, error) { return in, nil }

func TestToolkit(t *testing.T) {
	tooltest.Exercise(t, tool.NewToolkit("kit", searchTool(t, echo[search]), readTool(t, "read", tool.ReadOnly())))
}

func readTool(t *testing.T, name string, options ...tool.FunctionOption) agent.Tool {
	t.Helper()
	made, err := tool.NewFunction(name, "Reads.", echo[place], options...)
	require.NoError(t, err)
	return made
}

func TestSchema(t *testing.T) {
	const place = `{"type":"object","additionalProperties":false,"required":["city"],"properties":{
		"city":{"type":"string","description":"City, such as Paris"},"note":{"type":"string"}}}`
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["unit","places"],"properties":{
		"limit":{"type":"integer","minimum":1,"maximum":50},
		"unit":{"type":"string","enum":["celsius","fahrenheit"]},
		"places":{"type":"array","minItems":1,"items":`+place+`},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"since":{"type":"string","format":"date-time"},
		"filter":{},"extra":{},"address":{"type":"string"},"digest":{"type":"string","contentEncoding":"base64"},"back":`+place+`}}`,
		string(searchTool(t, echo[search]).Spec().Parameters))
	require.JSONEq(t, `{"type":"object","additionalProperties":{"type":"number"}}`, string(searchTool(t, echo[map[string]float64]).Spec().Parameters))
}

// TestArgumentsArrive checks the decoded arguments of a function.
func TestArgumentsArrive(t *testing.T) {
	const args = `{"limit":2,"unit":"celsius","places":[{"city":"Bern","note":"<3"}],"labels":{"a":"b"},"since":"2026-11-24T10:00:00Z",` +
		`"filter":{"op":[1]},"extra":[true],"address":"192.0.2.1","digest":"AAECAw==","back":{"city":"Rom"}}`
	res, err := searchTool(t, func(_ context.Context, in search) (agent.ToolResult, error) {
		require.Equal(t, "Bern", in.Places[0].City)
		require.Equal(t, "<3", *in.Places[0].Note)
		require.Equal(t, 2, in.Limit)
		require.Equal(t, 2026, in.Since.Year())
		require.JSONEq(t, `{"op":[1]}`, string(in.Filter))
		require.Equal(t, []any{true}, in.Extra)
		require.Equal(t, "192.0.2.1", in.Address.String())
		require.Equal(t, [4]byte{0, 1, 2, 3}, in.Digest)
		require.Equal(t, "Rom", in.Back.City)
		require.Nil(t, in.Back.Note)
		return agent.ToolResult{Output: json.RawMessage(`1`), CacheHit: true}, nil
	}).Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(args)})
	require.NoError(t, err)
	require.Equal(t, agent.ToolResult{Output: json.RawMessage(`1`), CacheHit: true}, res, "a ToolResult is returned unchanged")
}

func TestCallRefuses(t *testing.T) {
	tests := map[string]struct{ args, field, message string }{
		"missing":         {`{"unit":"celsius"}`, "places", "is required"},
		"missing, nested": {`{"unit":"celsius","places":[{"note":"x"}]}`, "places[0].city", "is required"},
		"unknown":         {`{"unit":"celsius","places":[{"city":"x","town":1}]}`, "places[0].town", "unknown field"},
		"wrong type":      {`{"unit":"celsius","places":[{"city":7}]}`, "places[0].city", "want a string, got a number"},
		"enum":            {`{"unit":"kelvin","places":[{"city":"x"}]}`, "unit", `want one of "celsius", "fahrenheit", got "kelvin"`},
		"minimum":         {`{"unit":"celsius","places":[{"city":"x"}],"limit":0}`, "limit", "want 1 to 50, got 0"},
		"too few":         {`{"unit":"celsius","places":[]}`, "places", "has 0 entries, want at least 1"},
		"no time":         {`{"unit":"celsius","places":[{"city":"x"}],"since":"today"}`, "since", "today"},
		"ignored field":   {`{"unit":"celsius","places":[{"city":"x"}],"Skipped":1}`, "Skipped", "unknown field"},
	}
	mustNotRun := func(context.Context, search) (string, error) { return "", errors.New("was called") }
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := searchTool(t, mustNotRun).Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(tt.args)})
			require.NoError(t, err)
			tooltest.CheckResult(t, res)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.message)
			require.Equal(t, "invalid", res.Failure.Type)
			require.Equal(t, "search", res.Failure.Tool)
		})
	}
}

func TestAnswers(t *testing.T) {
	type answer struct {
		City string `json:"city"`
	}
	tests := map[string]struct {
		out    any
		err    error
		output string
		code   agent.Code // of the error for the runtime
	}{
		"text":          {out: "a < b", output: `"a < b"`},
		"struct":        {out: answer{"Rom"}, output: `{"city":"Rom"}`},
		"raw JSON":      {out: json.RawMessage(`[1]`), output: `[1]`},
		"nothing":       {output: `null`},
		"plain error":   {err: errors.New("no such city"), output: `{"error":{"type":"internal","message":"no such city","retryable":false,"tool":"search"}}`},
		"about a field": {err: agent.Invalid("city", "is no city"), output: `{"error":{"type":"invalid","message":"city: is no city","retryable":false,"tool":"search","field":"city"}}`},
		"rate limited":  {err: agent.Errorf(agent.CodeRateLimited, "", "wait"), output: `{"error":{"type":"rate_limited","message":"wait","retryable":true,"tool":"search"}}`},
		"no JSON":       {out: math.NaN(), output: `{"error":{"type":"internal","message":"encode JSON: json: unsupported value: NaN","retryable":false,"tool":"search"}}`},
		"unavailable":   {err: agent.Errorf(agent.CodeUnavailable, "", "down"), code: agent.CodeUnavailable},
		"cancelled":     {err: agent.Errorf(agent.CodeCancelled, "", "over"), code: agent.CodeCancelled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made := searchTool(t, func(context.Context, place) (any, error) { return tt.out, tt.err })
			res, err := made.Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(`{"city":"x"}`)})
			require.Equal(t, tt.code, agent.CodeOf(err))
			if tt.code == "" {
				require.JSONEq(t, tt.output, string(res.Output))
				tooltest.CheckResult(t, res)
			}
		})
	}
}

func TestFunctionReadsInvocation(t *testing.T) {
	made := searchTool(t, func(ctx context.Context, _ place) (string, error) { return tool.InvocationFrom(ctx).Tenant, nil })
	res, err := made.Call(t.Context(), agent.Invocation{Tenant: "acme"}, agent.ToolCall{Args: json.RawMessage(`{"city":"x"}`)})
	require.NoError(t, err)
	require.Equal(t, `"acme"`, string(res.Output))
	require.Empty(t, tool.InvocationFrom(t.Context()).Tenant)
}

func TestOptions(t *testing.T) {
	free := func(made agent.Tool, args string) bool {
		return made.(agent.EffectFree).EffectFree(json.RawMessage(args))
	}
	const good, bad = `{"city":"x"}`, `{}`
	plain, safe := readTool(t, "a"), readTool(t, "b", tool.InherentlySafe(), tool.Idempotent())
	require.False(t, plain.Spec().Idempotent || plain.Spec().InherentlySafe || free(plain, good))
	require.True(t, free(plain, bad), "arguments that do not parse have no effects")
	require.True(t, safe.Spec().Idempotent && safe.Spec().InherentlySafe)
	require.False(t, free(safe, good))
	read := readTool(t, "c", tool.ReadOnly())
	require.True(t, read.Spec().Idempotent && free(read, good))
}

// Text is a type that must not be embedded, because it is no struct.
type Text string

type tree struct {
	Children []tree `json:"children"`
}

func TestTypesWithoutSchema(t *testing.T) {
	require.ErrorContains(t, made(echo[struct{ Done chan int }]), "a chan int has no form in JSON")
	require.ErrorContains(t, made(echo[struct {
		In struct{ Do []func() }
	}]), ".In.Do: a func() has no form in JSON")
	require.ErrorContains(t, made(echo[tree]), "tool_test.tree.Children: tool_test.tree contains itself")
	require.ErrorContains(t, made(echo[struct{ Wait time.Duration }]), "time.Duration has no agreed form")
	require.ErrorContains(t, made(echo[struct{ At *url.URL }]), "url.URL has no agreed form")
	require.ErrorContains(t, made(echo[struct{ ByID map[int]string }]), "the keys of a map are strings")
	require.ErrorContains(t, made(echo[struct{ Err error }]), "nothing says which type a error is to be")
	require.ErrorContains(t, made(echo[struct{ Text }]), "must be explicitly given a JSON name")
	require.ErrorContains(t, made(echo[struct {
		A string `json:"a" jsonschema:"pattern=("`
	}]), "parameters")
	require.ErrorContains(t, made(echo[string]), "want a struct")
	require.ErrorContains(t, made(echo[json.RawMessage]), "want a struct")
	_, err := tool.NewFunction("x", "", echo[place])
	require.ErrorContains(t, err, "a description")
	_, err = tool.NewFunction[place, string]("x", "Does x.", nil)
	require.ErrorContains(t, err, "want a function")
}

// made returns the error of making a tool of a function.
func made[In, Out any](f func(context.Context, In) (Out, error)) error {
	_, err := tool.NewFunction("x", "Does x.", f)
	return err
}
