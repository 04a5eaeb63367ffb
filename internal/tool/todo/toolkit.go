// Package todo is the toolkit "todo" with the tool write_todos (the TodoListMiddleware of LangChain v1), by which a model plans work of many
// steps and shows its progress. The list is not stored: it is in the call and its result, where clients find it, and so does the model in its
// transcript.
package todo

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names of the toolkit and its tool in the catalog.
const (
	ToolkitName = "todo"
	ToolName    = "write_todos"
)

// The bounds of a list.
const (
	MaxTodos   = 100
	MaxContent = 2000    // runes of a todo
	MaxArgs    = 1 << 20 // bytes of arguments
)

//go:embed schema.json
var schema []byte

const description = "Write the todo list of your work, whole: it replaces the one before. " +
	"Use it for work of three or more steps, or when the user gives several tasks; not for a question or a simple task. " +
	"Each todo has content, which says in a few words what is to be done, and status: pending (not begun), in_progress (being worked on) " +
	"or completed (done, entirely). Mark a todo in_progress before you begin with it and completed as soon as it is done, not several at " +
	"the end. While anything is left, keep at least one todo in_progress. What is blocked or only partly done stays in_progress: add a todo for " +
	"what stands in the way. Add todos that turn up, remove those that no longer matter, and leave completed ones as they are. " +
	"Never call this tool twice at once. At most 100 todos of 2,000 characters each."

// New returns the toolkit. It needs nothing.
func New() agent.Toolkit { return toolkit{} }

type toolkit struct{}

func (toolkit) Name() string { return ToolkitName }

// OnRequest keeps the toolkit out of "every toolkit": agents that need it are granted it.
func (toolkit) OnRequest() bool { return true }

func (toolkit) Tools() []agent.Tool { return []agent.Tool{write{}} }

// write is the tool write_todos.
type write struct{}

var (
	_ agent.EffectFree = write{}
	_ agent.Summarizer = write{}
)

func (write) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: description, Parameters: append(json.RawMessage(nil), schema...), Strict: true,
		Idempotent: true, InherentlySafe: true,
	}
}

// EffectFree returns true: a list changes only the transcript.
func (write) EffectFree(json.RawMessage) bool { return true }

// Summarize returns how much is done, such as "3 of 5 done".
func (write) Summarize(args json.RawMessage) string {
	todos, err := Parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return summarize(todos)
}

// Call returns the list, also as Data for clients that show it. It returns no preview, because the last preview of a turn describes the turn's
// result data, and a plan must not replace that.
func (write) Call(ctx context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	const op = "call " + ToolName
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.ToolResult{}, err
	}
	todos, err := Parse(call.Args)
	if err != nil {
		return tool.FailedResult(ToolName, agent.FailureOf(err))
	}
	list, err := tool.EncodeJSON(todos)
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, op, "encode list: %w", err)
	}
	out := append([]byte(`{"message":"Updated todo list: `+summarize(todos)+`","todos":`), list...)
	return agent.ToolResult{Output: append(out, '}'), Data: list}, nil
}
