package activities

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestResultParts: the pieces are one document, and the data is among them as it is, not as a copy.
func TestResultParts(t *testing.T) {
	data := json.RawMessage(`[{"a": "<1>"}]`)
	for want, r := range map[string]result{
		`{"output":"x","blocks":[]}`: {Output: "x", Blocks: []agent.Block{}},
		`{"output":"","structured":{"n":1},"blocks":null,"data_ref":"cas://x"}`: {Structured: json.RawMessage(`{"n":1}`), DataRef: "cas://x"},
		`{"output":"}","blocks":[],"data":[{"a": "<1>"}]}`:                      {Output: "}", Blocks: []agent.Block{}, Data: data},
	} {
		parts, err := r.parts()
		require.NoError(t, err)
		require.Equal(t, want, string(bytes.Join(parts, nil)))
		if len(r.Data) > 0 {
			require.Same(t, &data[0], &parts[2][0])
		}
	}
}
