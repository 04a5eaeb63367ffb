package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// A null in an optional field means the same as leaving the field out.
func TestNullIsNotSet(t *testing.T) {
	null := json.RawMessage("null")

	request := agent.TurnRequest{Message: "x", OutputSchema: null, ClientTools: []agent.ClientTool{{Name: "f", Parameters: null}}}
	require.NoError(t, request.Validate(0))
	require.Nil(t, request.OutputSchema)
	require.Nil(t, request.ClientTools[0].Parameters)

	decision := agent.Decision{ApprovalID: "a", Decision: agent.DecisionApprove, Args: null}
	require.NoError(t, decision.Check())
	require.Nil(t, decision.Args)

	failed := agent.ProvidedResult{ToolCallID: "c", Result: null, Error: "no"}
	require.NoError(t, failed.Validate())
	require.Nil(t, failed.Result)
	provided := agent.ProvidedResult{ToolCallID: "c", Result: null}
	require.NoError(t, provided.Validate())
	require.Equal(t, null, provided.Result, "null is a result")

	schedule := agent.Schedule{Name: "s", Message: "x", Every: "15m", OutputSchema: null}
	require.NoError(t, schedule.Validate())
	require.Nil(t, schedule.OutputSchema)
}

// HTTP clients remove "." and ".." from paths, so turns with these IDs could never be read.
func TestTurnIDsThatArePaths(t *testing.T) {
	for id, want := range map[agent.TurnID]string{".": "turn_id: is", "..": "turn_id: is", "a b": "turn_id: want", "...": "", "a..b": "", ".a": ""} {
		request := agent.TurnRequest{Message: "x", TurnID: id}
		err := request.Validate(0)
		if want == "" {
			require.NoError(t, err, id)
			continue
		}
		require.ErrorContains(t, err, want, id)
	}
}
