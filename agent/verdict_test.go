package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// The JSON of a verdict leaves out zero usage and decodes to the same verdict.
func TestModelVerdictJSON(t *testing.T) {
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

func TestCheckDecision(t *testing.T) {
	for want, d := range map[string]agent.Decision{
		"approval_id: is empty": {Decision: agent.DecisionApprove},
		"approval_id: want at":  {ApprovalID: "a\x00", Decision: agent.DecisionApprove},
		"by: is longer":         {ApprovalID: "a", Decision: agent.DecisionApprove, By: strings.Repeat("x", 257)},
		"args: args and":        {ApprovalID: "a", Decision: agent.DecisionApprove, Message: strings.Repeat("x", agent.MaxDecision+1)},
		"decision: want":        {ApprovalID: "a"},
		"decision: want approve, edit, reject or respond, got \"Approve\"": {ApprovalID: "a", Decision: "Approve"},
		"args: decision edit needs":                                        {ApprovalID: "a", Decision: agent.DecisionEdit},
		"args: decision edit needs the new":                                {ApprovalID: "a", Decision: agent.DecisionEdit, Args: []byte(`null`)},
		"args: decision edit needs the new arguments":                      {ApprovalID: "a", Decision: agent.DecisionEdit, Args: []byte(` [{}]`)},
		"args: go with decision edit only":                                 {ApprovalID: "a", Decision: agent.DecisionApprove, Args: []byte(`{}`)},
		"remember: goes with approve and reject":                           {ApprovalID: "a", Decision: agent.DecisionRespond, Message: "x", Remember: true},
		"message: decision respond needs":                                  {ApprovalID: "a", Decision: agent.DecisionRespond},
		"message: decision respond needs the answer":                       {ApprovalID: "a", Decision: agent.DecisionRespond, Message: " \n"},
		"remember: goes with approve and reject only":                      {ApprovalID: "a", Decision: agent.DecisionEdit, Args: []byte(`{}`), Remember: true},
	} {
		require.ErrorContains(t, d.Check(), want)
	}
	for _, d := range []agent.Decision{
		{ApprovalID: "a", Decision: agent.DecisionApprove, Remember: true},
		{ApprovalID: "a", Decision: agent.DecisionReject, Message: "no"},
		{ApprovalID: "a", Decision: agent.DecisionEdit, Args: []byte("\n {\"x\":1}")},
		{ApprovalID: "a", Decision: agent.DecisionRespond, Message: "42"},
	} {
		require.NoError(t, d.Check())
	}
}
