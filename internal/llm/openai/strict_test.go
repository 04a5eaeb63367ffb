package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

func TestIsStrict(t *testing.T) {
	cases := map[string]bool{
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`:                                    true,
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`:                                                            true,
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`:                                                                 false,
		`{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q"],"additionalProperties":false}`:             false,
		`{"type":"object","properties":{"q":{"type":"array","items":{"type":"object"}}},"required":["q"],"additionalProperties":false}`:           false,
		`{"type":"object","properties":{"q":{"type":"object","properties":{},"required":[]}},"required":["q"],"additionalProperties":false}`:      false,
		`{"type":"object","properties":{"q":{"type":"array","items":{"type":"string"}}},"required":["q"],"additionalProperties":false}`:           true,
		`{"type":"object","properties":{"q":{"anyOf":[]}},"required":["q"],"additionalProperties":false}`:                                         false,
		`{"type":"object","properties":{"q":{"type":["string","null"]}},"required":["q"],"additionalProperties":false}`:                           true,
		`{"type":"object","properties":{"q":{"type":["object","null"]}},"required":["q"],"additionalProperties":false}`:                           false,
		`{"type":"object","properties":{"q":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["q"],"additionalProperties":false}`:        true,
		`{"type":"object","properties":{"q":{"anyOf":[{"type":"object"},{"type":"null"}]}},"required":["q"],"additionalProperties":false}`:        false,
		`{"type":"object","properties":{"q":{"$ref":"#/$defs/q"}},"required":["q"],"additionalProperties":false,"$defs":{"q":{"enum":["a"]}}}`:    true,
		`{"type":"object","properties":{"q":{"$ref":"#/$defs/q"}},"required":["q"],"additionalProperties":false,"$defs":{"q":{"type":"object"}}}`: false,
		`{"type":"object","properties":{"q":{"$ref":"https://example.org"}},"required":["q"],"additionalProperties":false}`:                       false,
		`{"type":"object","properties":{"q":{"type":"string","minLength":1}},"required":["q"],"additionalProperties":false}`:                      false,
		`{"type":"object","properties":{"q":{"type":"string","default":""}},"required":["q"],"additionalProperties":false}`:                       false,
		`{"type":"object","properties":{"q":{"type":"string","format":"date"}},"required":["q"],"additionalProperties":false}`:                    true,
		`{"type":"object","properties":{"q":{"type":"string","format":"uri"}},"required":["q"],"additionalProperties":false}`:                     false,
		`{"type":"object","properties":{"q":{}},"required":["q"],"additionalProperties":false}`:                                                   false,
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["r"],"additionalProperties":false}`:                                    false,
		`{"type":"array","items":{"type":"string"}}`: false,
		strings.Repeat(`{"type":"object","properties":{"q":`, 20) + `{"type":"string"}` + strings.Repeat(`},"required":["q"],"additionalProperties":false}`, 20): false,
		`not JSON`: false,
	}
	for schema, want := range cases {
		require.Equal(t, want, isStrict(json.RawMessage(schema)), schema)
	}
}

// A field of the wrong type does not affect the other fields.
func TestDecodeUnexpectedFields(t *testing.T) {
	const end = `"model":"m","usage":{"prompt_tokens":3}}`
	for name, choices := range map[string]string{
		"null fields":     `[{"index":0,"delta":{"content":"a","tool_calls":null,"reasoning":null},"finish_reason":null}]`,
		"wrong type":      `[{"index":"0","delta":{"content":"a","refusal":[1],"tool_calls":"x"},"finish_reason":{}}]`,
		"repeated name":   `[{"delta":{"content":"b","content":"a"}}]`,
		"unknown fields":  `[{"delta":{"content":"a","padding":{"x":[1,{}]}},"logprobs":{"content":[]}}]`,
		"escaped content": `[{"delta":{"content":"\u0061"}}]`,
	} {
		var c chunk
		require.NoError(t, wire.Decode([]byte(`{"choices":`+choices+`,`+end), &c), name)
		require.Equal(t, []string{"a", "m"}, []string{c.Choices[0].Delta.Content, c.Model}, name)
		require.Equal(t, int64(3), c.Usage.PromptTokens, name)
	}
	var c chunk
	require.NoError(t, wire.Decode([]byte("{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}"), &c))
	require.Equal(t, "\ufffd", c.Choices[0].Delta.Content)
	require.Error(t, wire.Decode([]byte(`{"choices":[`), &c))
}
