package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestToolTimeout(t *testing.T) {
	m, err := newToolTimeout(json.RawMessage(`{"seconds":0.01}`))
	require.NoError(t, err)
	hang := func(ctx context.Context, _ agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		<-ctx.Done()
		return agent.ToolResult{}, ctx.Err()
	}
	result, err := m.WrapTool(hang)(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.NoError(t, err)
	require.Equal(t, "took longer than 10ms", result.Failure.Message)

	broken := func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{}, errors.ErrUnsupported
	}
	_, err = m.WrapTool(broken)(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.ErrorIs(t, err, errors.ErrUnsupported, "other errors are not ours")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.WrapTool(hang)(ctx, agent.Invocation{}, agent.ToolCall{})
	require.ErrorIs(t, err, context.Canceled, "nor is the end of the turn")
}

func TestOptions(t *testing.T) {
	for options, fault := range map[string]string{
		"": "", `{}`: "", `{"seconds":600}`: "", `{"seconds":0}`: "want more than 0", `{"seconds":601}`: "at most 600", `{"second":1}`: "unknown field", `[]`: "cannot unmarshal",
	} {
		_, err := newToolTimeout(json.RawMessage(options))
		if fault == "" {
			require.NoError(t, err, options)
			continue
		}
		require.ErrorContains(t, err, fault)
	}
}
