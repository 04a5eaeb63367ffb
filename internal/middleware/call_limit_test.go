package middleware

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestCallLimits(t *testing.T) {
	var got agent.Rules
	for _, m := range []agent.Middleware{
		build(t, newModelCallLimit, `{"run_limit":5}`),
		build(t, newModelCallLimit, `{"thread_limit":3,"run_limit":5,"exit_behavior":"error"}`),
		build(t, newToolCallLimit, `{"thread_limit":20}`),
		build(t, newToolCallLimit, `{"tool_name":"pay","thread_limit":3,"run_limit":3,"exit_behavior":"end"}`),
		build(t, newToolCallLimit, `{"tool_name":"read","run_limit":2,"exit_behavior":"error"}`),
	} {
		r, ok := m.(agent.Ruler)
		require.True(t, ok)
		r.Rule(&got)
	}
	require.Equal(t, agent.Rules{
		ModelCalls: []agent.CallLimit{{Run: 5, Exit: agent.ExitEnd}, {Run: 5, Thread: 3, Exit: agent.ExitError}},
		ToolCalls: []agent.CallLimit{
			{Thread: 20, Exit: agent.ExitContinue}, {Tool: "pay", Thread: 3, Run: 3, Exit: agent.ExitEnd}, {Tool: "read", Run: 2, Exit: agent.ExitError},
		},
	}, got)
}

func TestCallLimitsRefuseOptions(t *testing.T) {
	both := map[string]string{
		``:                                       "run_limit",
		`{}`:                                     "run_limit",
		`{"run_limit":null}`:                     "run_limit",
		`{"run_limit":0}`:                        "run_limit",
		`{"run_limit":-1}`:                       "run_limit",
		`{"run_limit":"5"}`:                      "run_limit",
		`{"run_limit":1.5}`:                      "run_limit",
		`{"thread_limit":1000001}`:               "thread_limit",
		`{"run_limit":1,"exit_behavior":"stop"}`: "exit_behavior",
		`{"run_limit":1,"exit_behavior":""}`:     "exit_behavior",
		`{"limit":1}`:                            "limit",
	}
	refuses(t, newModelCallLimit, both)
	refuses(t, newToolCallLimit, both)
	refuses(t, newModelCallLimit, map[string]string{
		`{"run_limit":1,"exit_behavior":"continue"}`: "exit_behavior",
		`{"run_limit":1,"tool_name":"read"}`:         "tool_name",
	})
	refuses(t, newToolCallLimit, map[string]string{
		`{"run_limit":2,"thread_limit":1}`: "run_limit",
		`{"run_limit":2,"tool_name":""}`:   "tool_name",
	})
}
