package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestToolkit(t *testing.T) {
	tooltest.Exercise(t, airports{})
}

func TestCall(t *testing.T) {
	res, err := airportCity{}.Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(`{"code":"JFK"}`)})
	require.NoError(t, err)
	require.Nil(t, res.Failure)
	require.JSONEq(t, `{"code":"JFK","city":"New York"}`, string(res.Output))
	tooltest.CheckResult(t, res)
}

func TestRunNeedsSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	require.ErrorContains(t, run(t.Context(), nil, nil), "database.url")
}
