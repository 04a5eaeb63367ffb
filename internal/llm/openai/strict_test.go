package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFitsStrict(t *testing.T) {
	cases := map[string]bool{
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`:                               true,
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`:                                                       true,
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`:                                                            false,
		`{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q"],"additionalProperties":false}`:        false,
		`{"type":"object","properties":{"q":{"type":"array","items":{"type":"object"}}},"required":["q"],"additionalProperties":false}`:      false,
		`{"type":"object","properties":{"q":{"type":"object","properties":{},"required":[]}},"required":["q"],"additionalProperties":false}`: false,
		`{"type":"object","properties":{"q":{"type":"array","items":{"type":"string"}}},"required":["q"],"additionalProperties":false}`:      true,
		`{"type":"object","properties":{"q":{"anyOf":[]}},"required":["q"],"additionalProperties":false}`:                                    false,
		`not JSON`: false,
	}
	for schema, want := range cases {
		require.Equal(t, want, fitsStrict(json.RawMessage(schema)), schema)
	}
}
