package middleware

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	todoToolkit = "todo"        // grants todoTool
	todoTool    = "write_todos" // LangChain v1's name
)

const todoSystemPrompt = `## write_todos

You have the tool write_todos, which keeps your list of tasks for this piece of work and shows it to the user.

- Use it when the work has many steps, or when the user asks for several things. For one or two simple steps do the work at once: the list costs tokens.
- Each call replaces the whole list, so call it at most once in a reply, never several times in parallel.
- Mark a task as in_progress before you begin it and as completed as soon as it is done, not several afterwards.
- Change the list when you learn something: add what is new, take out what no longer matters.`

const todoParallelError = "write_todos was called more than once in one reply. Each call replaces the whole list, so none of them was carried out: " +
	"call it once, with the complete list."

// taskList gives an agent a list of tasks, as LangChain v1's TodoListMiddleware does: it grants the tool write_todos and tells the model of it.
type taskList struct {
	agent.Pass
	options todoOptions
}

// todoOptions are LangChain v1's.
type todoOptions struct {
	SystemPrompt    *string `json:"system_prompt"`    // behind the agent's own; default todoSystemPrompt
	ToolDescription *string `json:"tool_description"` // of write_todos; default the tool's own
}

func newTodo(options json.RawMessage) (agent.Middleware, error) {
	const maxCount = 16_000
	m := &taskList{}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	for _, o := range []struct {
		field string
		text  *string
	}{{"system_prompt", m.options.SystemPrompt}, {"tool_description", m.options.ToolDescription}} {
		if o.text == nil {
			continue
		}
		if err := checkText(o.field, *o.text, maxCount); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Grants implements [agent.Granter].
func (m *taskList) Grants() []agent.ToolGrant { return []agent.ToolGrant{{Toolkit: todoToolkit}} }

// BeforeModel adds the prompt: the same bytes in every call, for the provider's cache.
func (m *taskList) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	if req.System != "" {
		req.System += "\n\n"
	}
	req.System += valueOr(m.options.SystemPrompt, todoSystemPrompt)
	if m.options.ToolDescription == nil {
		return agent.JumpNone, nil
	}
	req.Tools = slices.Clone(req.Tools)
	for i := range req.Tools {
		if req.Tools[i].Name == todoTool {
			req.Tools[i].Description = *m.options.ToolDescription
		}
	}
	return agent.JumpNone, nil
}

// AfterModel refuses several calls of the tool in one reply, all of them, as LangChain does: nothing says which list is meant.
func (m *taskList) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	calls := 0
	for i := range reply.Blocks {
		if isTodo(&reply.Blocks[i]) {
			calls++
		}
	}
	if calls < 2 {
		return agent.JumpNone, nil
	}
	reply.Blocks = slices.Clone(reply.Blocks)
	for i := range reply.Blocks {
		if b := &reply.Blocks[i]; isTodo(b) {
			b.Error = todoParallelError
		}
	}
	return agent.JumpNone, nil
}

func isTodo(b *agent.Block) bool { return b.Type == agent.BlockToolCall && b.Name == todoTool }
