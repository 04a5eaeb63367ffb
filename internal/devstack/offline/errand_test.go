package offline

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestReadDelegation(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string][2]string{
		"ask writer: a haiku about tea":                 {"writer", "a haiku about tea"},
		"Please ask the agent data.analyst-2: sum: 1,2": {"data.analyst-2", "sum: 1,2"},
		"ask analyst to fetch flights from NYC to LAX":  {"analyst", "fetch flights from NYC to LAX"},
		"delegate to writer a haiku\nabout tea ":        {"writer", "a haiku\nabout tea"},
		"delegate this to writer: say 3 words":          {"writer", "say 3 words"},
	} {
		d, ok := readDelegation(prompt)
		require.True(t, ok, prompt)
		require.Equal(t, delegation{AgentType: "langchain_agent", Inputs: map[string]string{"message": want[1]}, Config: map[string]string{"agent": want[0]}}, d)
	}
	for _, prompt := range []string{"", "ask", "ask writer", "ask writer:", "I ask writer: x", "delegate to writer", "task writer: x", "ask two words: x", "plan: a"} {
		_, ok := readDelegation(prompt)
		require.False(t, ok, prompt)
	}
}

func TestReadPlan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt string
		want   []string
	}{
		{"plan: buy tea, boil water and then drink", []string{"buy tea", "boil water and then drink"}},
		{"Plan: a; b, and c.", []string{"a", "b", "c"}},
		{"please plan:\n- buy tea, green\n2. boil\n", []string{"buy tea, green", "boil"}},
		{"plan: a,,b,", []string{"a", "b"}},
		{"plan: ,", nil},
		{"plan:", nil},
		{"the plan: a", nil},
		{"planet: a, b", nil},
	} {
		var got []string
		for i, todo := range readPlan(tt.prompt) {
			got = append(got, todo.Content)
			require.Equal(t, map[bool]string{true: "in_progress", false: "pending"}[i == 0], todo.Status)
		}
		require.Equal(t, tt.want, got, tt.prompt)
	}
	require.Len(t, readPlan("plan: "+strings.Repeat("a,", 500)), 100)
	require.Equal(t, 2000, utf8.RuneCountInString(readPlan("plan: " + strings.Repeat("ä", 5000))[0].Content))
}

// What a prompt asks for fits its tool; what results say is shown.
func FuzzErrand(f *testing.F) {
	for _, s := range []string{"ask a: b", "ask a: \v", "delegate to x. y", "plan: a\n- b; 3) c", "please plan:,,\xff", `{"output":"x"}`, `{"todos":[{"content":"a","status":"in_progress"}]}`, `{"error":"x"}`} {
		f.Add(s)
	}
	offers := &request{}
	for _, name := range []string{delegateTool, todosTool} {
		tool := tool{Type: "function"}
		tool.Function.Name = name
		offers.Tools = append(offers.Tools, tool)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range []string{delegateTool, todosTool} {
			answer, ok := errandAnswer([]message{
				{Role: "assistant", ToolCalls: []toolCall{{ID: "1", Function: function{Name: name}}}}, {Role: "tool", ToolCallID: "1", text: s},
			})
			require.True(t, ok)
			require.NotEmpty(t, answer)
		}
		call, ok := errand(offers, s)
		if !ok {
			return
		}
		require.True(t, json.Valid([]byte(call.Function.Arguments)))
		for _, todo := range readPlan(s) {
			require.NotEmpty(t, todo.Content)
			require.LessOrEqual(t, utf8.RuneCountInString(todo.Content), maxTodo)
		}
		if d, ok := readDelegation(s); ok {
			require.NotEmpty(t, d.Config["agent"])
			require.NotEmpty(t, d.Inputs["message"])
		}
	})
}
