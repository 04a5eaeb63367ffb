package patch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxMessage is what a failure tells, in bytes.
const maxMessage = 2_000

// failed is an answer that says what is wrong, and where in the arguments.
func failed(err error) (agent.ToolResult, error) {
	f := agent.FailureOf(err)
	f.Tool, f.Retryable = ToolName, false
	f.Message = clip.Bytes(f.Message, maxMessage)
	out, err := json.Marshal(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}

// maxTold bounds how many operations a summary tells.
const maxTold = 8

// summary says in a line what the call has done.
func summary(in *arguments, made *agent.WorkflowPatchResult) string {
	if made.Unchanged {
		return fmt.Sprintf("Workflow %s was so already, since version %d: nothing is changed.", in.tag, made.Version)
	}
	var told []string
	for i := range in.operations {
		if i == maxTold {
			told = append(told, fmt.Sprintf("and %d more", len(in.operations)-i))
			break
		}
		told = append(told, in.operations[i].words())
	}
	return fmt.Sprintf("Workflow %s is at version %d: %s.", in.tag, made.Version, strings.Join(told, ", "))
}

// words says what one operation does: "added node send_email".
func (o *operation) words() string {
	done := map[string]string{"add": "added", "remove": "removed", "replace": "changed"}[o.Op]
	list, rest, _ := strings.Cut(strings.TrimPrefix(o.Path, "/"), "/")
	if strings.Contains(rest, "/") { // a member of an element
		return done + " " + clip.Bytes(o.Path, maxShown)
	}
	var value struct{ ID, Type, From, To string }
	if o.Value != nil && json.Unmarshal(o.Value, &value) != nil {
		return done + " " + clip.Bytes(o.Path, maxShown)
	}
	switch {
	case list == "nodes" && value.ID != "":
		return done + " node " + clip.Bytes(value.ID, maxShown)
	case list == "schedules" && value.ID != "":
		return done + " schedule " + clip.Bytes(value.ID, maxShown)
	case list == "edges" && value.From != "":
		return done + " edge " + clip.Bytes(value.From, maxShown) + " → " + clip.Bytes(value.To, maxShown)
	case o.Path == "":
		return done + " the whole definition"
	default:
		return done + " " + clip.Bytes(o.Path, maxShown)
	}
}
