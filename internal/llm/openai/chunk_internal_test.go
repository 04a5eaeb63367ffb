package openai

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// What providers get wrong costs at most the field that is wrong.
func TestDecodeOddChunks(t *testing.T) {
	const rest = `"model":"m","usage":{"prompt_tokens":3}}`
	for name, choices := range map[string]string{
		"null fields":     `[{"index":0,"delta":{"content":"a","tool_calls":null,"reasoning":null},"finish_reason":null}]`,
		"wrong type":      `[{"index":"0","delta":{"content":"a","refusal":[1],"tool_calls":"x"},"finish_reason":{}}]`,
		"repeated name":   `[{"delta":{"content":"b","content":"a"}}]`,
		"unknown fields":  `[{"delta":{"content":"a","padding":{"x":[1,{}]}},"logprobs":{"content":[]}}]`,
		"escaped content": `[{"delta":{"content":"\u0061"}}]`,
	} {
		var c chunk
		require.NoError(t, wire.Decode([]byte(`{"choices":`+choices+`,`+rest), &c), name)
		require.Equal(t, []string{"a", "m"}, []string{c.Choices[0].Delta.Content, c.Model}, name)
		require.Equal(t, int64(3), c.Usage.PromptTokens, name)
	}
	var c chunk
	require.NoError(t, wire.Decode([]byte("{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}"), &c))
	require.Equal(t, "\ufffd", c.Choices[0].Delta.Content)
	require.Error(t, wire.Decode([]byte(`{"choices":[`), &c))
}
