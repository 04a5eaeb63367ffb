package todo

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// Status is the state of a todo.
type Status string

// The statuses, which are those of LangChain v1.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
)

// A Todo is one entry of a list.
type Todo struct {
	Content string `json:"content"`
	Status  Status `json:"status"`
}

// Parse parses the arguments of a call. Its error is [agent.CodeInvalid], or [agent.CodeOverflow] beyond a bound, and names the field, such as
// todos[2].status.
func Parse(args json.RawMessage) ([]Todo, error) {
	var in struct {
		Todos *[]struct {
			Content *string `json:"content"`
			Status  *string `json:"status"`
		} `json:"todos"`
	}
	if err := tool.DecodeArguments(args, MaxArgs, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Todos == nil:
		return nil, agent.Invalid("todos", "is required")
	case len(*in.Todos) > MaxTodos:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "todos", "has %d entries, at most %d", len(*in.Todos), MaxTodos)
	}
	todos := make([]Todo, len(*in.Todos))
	for i, t := range *in.Todos {
		path := fmt.Sprintf("todos[%d]", i)
		switch {
		case t.Content == nil:
			return nil, agent.Invalid(path+".content", "is required")
		case t.Status == nil:
			return nil, agent.Invalid(path+".status", "is required")
		case strings.TrimSpace(*t.Content) == "":
			return nil, agent.Invalid(path+".content", "is empty")
		}
		if n := utf8.RuneCountInString(*t.Content); n > MaxContent {
			return nil, agent.FieldErrorf(agent.CodeOverflow, path+".content", "has %d characters, at most %d", n, MaxContent)
		}
		status := Status(*t.Status)
		switch status {
		case Pending, InProgress, Completed:
		default:
			return nil, agent.Invalid(path+".status", "want one of %s, %s, %s, got %.50q", Pending, InProgress, Completed, status)
		}
		todos[i] = Todo{Content: *t.Content, Status: status}
	}
	return todos, nil
}

// summarize returns how many todos of a list are done, such as "3 of 5 done".
func summarize(todos []Todo) string {
	if len(todos) == 0 {
		return "nothing to do"
	}
	done := 0
	for _, t := range todos {
		if t.Status == Completed {
			done++
		}
	}
	return fmt.Sprintf("%d of %d done", done, len(todos))
}
