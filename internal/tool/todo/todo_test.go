package todo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/todo"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestToolkit(t *testing.T) {
	tooltest.Exercise(t, todo.New())
	_, err := tool.Build(tool.Dependencies{}, tool.Ready(todo.New()))
	require.NoError(t, err)
}

func write() agent.Tool { return todo.New().Tools()[0] }

func call(t *testing.T, args string) agent.ToolResult {
	t.Helper()
	res, err := write().Call(t.Context(), agent.Invocation{}, agent.ToolCall{ID: "call_1", Name: todo.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

// list returns arguments with n todos of a number of characters.
func list(n, characters int) string {
	todos := make([]string, n)
	for i := range todos {
		todos[i] = fmt.Sprintf(`{"content":%q,"status":"pending"}`, strings.Repeat("é", characters))
	}
	return `{"todos":[` + strings.Join(todos, ",") + `]}`
}

func TestCallAnswersWithTheList(t *testing.T) {
	const todos = `[{"content":"fetch <flights> & \"sort\"","status":"completed"},{"content":"比較する","status":"in_progress"},{"content":"c","status":"pending"}]`
	res := call(t, `{"todos": `+todos+`}`)
	require.Nil(t, res.Failure)
	require.Equal(t, todos, string(res.Data))                                                              //nolint:testifylint // byte for byte: in order, without escapes
	require.Equal(t, `{"message":"Updated todo list: 1 of 3 done","todos":`+todos+`}`, string(res.Output)) //nolint:testifylint // as above
	require.Nil(t, res.Preview, "it would become the turn's result")
}

func TestCallAcceptsListsAtTheBounds(t *testing.T) {
	require.JSONEq(t, `{"message":"Updated todo list: nothing to do","todos":[]}`, string(call(t, `{"todos":[]}`).Output))
	res := call(t, list(todo.MaxTodos, todo.MaxContent))
	require.Nil(t, res.Failure)
	var todos []todo.Todo
	require.NoError(t, json.Unmarshal(res.Data, &todos))
	require.Len(t, todos, todo.MaxTodos)
}

func TestCallRefuses(t *testing.T) {
	tests := map[string]struct{ args, field, message, kind string }{
		"no list":          {`{}`, "todos", "is required", "invalid"},
		"null":             {`{"todos":null}`, "todos", "is required", "invalid"},
		"no array":         {`{"todos":"a"}`, "todos", "want an array, got a string", "invalid"},
		"no object":        {`{"todos":["a"]}`, "todos[0]", "want an object, got a string", "invalid"},
		"null todo":        {`{"todos":[null]}`, "todos[0].content", "is required", "invalid"},
		"no content":       {`{"todos":[{"status":"pending"}]}`, "todos[0].content", "is required", "invalid"},
		"blank":            {`{"todos":[{"content":" \n","status":"pending"}]}`, "todos[0].content", "is empty", "invalid"},
		"no status":        {`{"todos":[{"content":"a","status":"pending"},{"content":"a"}]}`, "todos[1].status", "is required", "invalid"},
		"other status":     {`{"todos":[{"content":"a","status":"done"}]}`, "todos[0].status", `want one of pending, in_progress, completed, got "done"`, "invalid"},
		"case":             {`{"todos":[{"content":"a","status":"Pending"}]}`, "todos[0].status", "want one of", "invalid"},
		"unknown field":    {`{"todos":[{"content":"a","status":"pending","id":1}]}`, "todos[0].id", "unknown field", "invalid"},
		"given twice":      {`{"todos":[],"todos":[]}`, "todos", "is given twice", "invalid"},
		"too many":         {list(todo.MaxTodos+1, 1), "todos", "has 101 entries, at most 100", "overflow"},
		"too long":         {list(1, todo.MaxContent+1), "todos[0].content", "has 2001 characters, at most 2000", "overflow"},
		"too large":        {`{"todos":[]}` + strings.Repeat(" ", todo.MaxArgs), "", "bytes, at most 1048576", "overflow"},
		"status of length": {`{"todos":[{"content":"a","status":"` + strings.Repeat("x", 9000) + `"}]}`, "todos[0].status", `x"`, "invalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := call(t, tt.args)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.message)
			require.Less(t, len(res.Failure.Message), 300)
			require.Equal(t, tt.kind, res.Failure.Type)
			require.Equal(t, todo.ToolName, res.Failure.Tool)
			require.Nil(t, res.Data)
			want, err := json.Marshal(map[string]any{"error": res.Failure})
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(res.Output))
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := write().Call(ctx, agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(`{"todos":[]}`)})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestSpec(t *testing.T) {
	spec := write().Spec()
	require.Equal(t, "write_todos", spec.Name)
	require.True(t, spec.Strict)
	require.True(t, spec.Idempotent)
	require.True(t, spec.InherentlySafe)
	require.False(t, spec.ClientSide)
	free, ok := write().(agent.EffectFree)
	require.True(t, ok)
	require.True(t, free.EffectFree(json.RawMessage(`{"todos":[{"content":"a","status":"pending"}]}`)))
}

func TestSummarize(t *testing.T) {
	s, ok := write().(agent.Summarizer)
	require.True(t, ok)
	tests := map[string]string{
		`{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}`: "1 of 2 done",
		`{"todos":[]}`: "nothing to do",
		`{"todos":1}`:  "invalid arguments",
	}
	for args, want := range tests {
		require.Equal(t, want, s.Summarize(json.RawMessage(args)))
	}
}

// FuzzParse checks that accepted arguments satisfy the tool's schema, and that the result holds the same list.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"todos":[{"content":"a","status":"pending"},{"content":"b","status":"completed"}]}`))
	f.Add([]byte(`{"todos":[{"content":"\ud83d\ude00<>","status":"in_progress"}]}`))
	f.Add([]byte(`{"todos":[null,{"content":"","status":"done"}]}`))
	f.Add([]byte(list(3, 3)))
	checker := schema.New()
	f.Fuzz(func(t *testing.T, args []byte) {
		todos, err := todo.Parse(args)
		res, callErr := write().Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: args})
		require.NoError(t, callErr)
		tooltest.CheckResult(t, res)
		if err != nil {
			require.NotNil(t, res.Failure)
			return
		}
		require.NoError(t, checker.Check("", write().Spec().Parameters, args))
		again, err := todo.Parse(json.RawMessage(`{"todos":` + string(res.Data) + `}`))
		require.NoError(t, err)
		require.Equal(t, todos, again)
	})
}
