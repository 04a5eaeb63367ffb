package openai

import (
	"encoding/json"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/require"
)

// BenchmarkDecode compares the decoding of one chunk with the SDK's own type.
func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06",` +
		`"service_tier":"default","system_fingerprint":"fp_50cad350e4","choices":[{"index":0,"delta":{"content":" flights"},"logprobs":null,"finish_reason":null}]}`)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c chunk
			require.NoError(b, c.decode(data))
		}
	})
	b.Run("sdk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c sdk.ChatCompletionChunk
			require.NoError(b, json.Unmarshal(data, &c))
		}
	})
}
