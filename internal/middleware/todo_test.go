package middleware

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestTodoTellsTheModel(t *testing.T) {
	tools := []agent.ToolSpec{{Name: "read", Description: "reads"}, {Name: "write_todos", Description: "writes"}}
	cases := map[string]struct{ options, system, want, description string }{
		"by default":       {``, "You help.", "You help.\n\n" + todoSystemPrompt, "writes"},
		"without a prompt": {``, "", todoSystemPrompt, "writes"},
		"in other words":   {`{"system_prompt":"Plan.","tool_description":"The list."}`, "You help.", "You help.\n\nPlan.", "The list."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := build(t, newTodo, c.options)
			for range 2 { // the same bytes each time
				req := agent.ModelRequest{System: c.system, Tools: tools}
				edit(t, m, &req)
				require.Equal(t, c.want, req.System)
				require.Equal(t, []agent.ToolSpec{{Name: "read", Description: "reads"}, {Name: "write_todos", Description: c.description}}, req.Tools)
			}
			require.Equal(t, "writes", tools[1].Description, "tools may be shared")
		})
	}
	g, ok := build(t, newTodo, ``).(agent.Granter)
	require.True(t, ok)
	require.Equal(t, []agent.ToolGrant{{Toolkit: "todo"}}, g.Grants())
}

func TestTodoRefusesSeveralLists(t *testing.T) {
	m := build(t, newTodo, ``)
	after := func(blocks ...agent.Block) []agent.Block {
		reply := agent.ModelReply{Blocks: blocks}
		jump, err := m.AfterModel(t.Context(), agent.Invocation{}, &reply)
		require.NoError(t, err)
		require.Equal(t, agent.JumpNone, jump)
		return reply.Blocks
	}
	one := []agent.Block{agent.Text("so"), called("1", "write_todos", `{}`), called("2", "read", `{}`)}
	require.Equal(t, one, after(one...))

	two := append(slices.Clone(one), called("3", "write_todos", `{"todos":[]}`))
	got := after(two...)
	require.Empty(t, two[1].Error, "blocks may be shared")
	want := []agent.Block{two[0], two[1], two[2], two[3]}
	want[1].Error, want[3].Error = todoParallelError, todoParallelError
	require.Equal(t, want, got, "none of them counts")
}

func TestTodoRefusesOptions(t *testing.T) {
	refuses(t, newTodo, map[string]string{
		`{"system_prompt":""}`:     "system_prompt",
		`{"system_prompt":1}`:      "system_prompt",
		`{"tool_description":" "}`: "tool_description",
		`{"tool_description":"` + strings.Repeat("x", 16_001) + `"}`: "tool_description",
		`{"prompt":"x"}`: "prompt",
	})
}
