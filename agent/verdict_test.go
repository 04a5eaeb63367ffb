package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestModelVerdictIsShort: what is zero of the usage is not written, and nothing else is lost.
func TestModelVerdictIsShort(t *testing.T) {
	for wire, v := range map[string]agent.ModelVerdict{
		`{"usage":{}}`: {},
		`{"usage":{"input_tokens":7,"output_tokens":2},"finish_reason":"stop"}`: {
			Usage: agent.Usage{InputTokens: 7, OutputTokens: 2}, FinishReason: agent.FinishStop,
		},
		`{"usage":{"input_tokens":7,"output_tokens":2,"cached_tokens":5,"reasoning_tokens":1,"cost_usd":0.25},"cancelled":true,"requests":2,` +
			`"calls":[{"id":"c1","name":"t","local":true}],"failure":{"type":"internal","message":"m","retryable":false}}`: {
			Usage:     agent.Usage{InputTokens: 7, OutputTokens: 2, CachedTokens: 5, ReasoningTokens: 1, CostUSD: 0.25},
			Cancelled: true, Requests: 2, Calls: []agent.CallVerdict{{ID: "c1", Name: "t", Local: true}},
			Failure: &agent.Failure{Type: "internal", Message: "m"},
		},
	} {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, wire, string(raw))
		var back agent.ModelVerdict
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, v, back)
	}
}
