package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A chunk has no values of the chunk before, although it uses the same memory.
func TestChunksAreIndependent(t *testing.T) {
	var r reply
	for _, data := range []string{
		`{"model":"m","choices":[{"index":1,"delta":{"content":"word","tool_calls":[{"index":3,"id":"a"}]},"finish_reason":"stop"},{"index":2}]}`,
		`{"choices":[{"index":1,"delta":{"tool_calls":[{}]}}]}`,
	} {
		_, err := r.add([]byte(data))
		require.NoError(t, err)
	}
	require.Equal(t, chunk{Choices: []choice{{Index: 1, Delta: delta{ToolCalls: []callDelta{{}}}}}}, r.chunk)
}
