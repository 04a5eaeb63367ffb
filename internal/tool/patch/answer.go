package patch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// maxMessage is the maximum length of a failure message in bytes.
const maxMessage = 2_000

// failureResult returns an error as a result for the model, with the field of the arguments that is wrong.
func failureResult(err error) (agent.ToolResult, error) {
	f := agent.FailureOf(err)
	f.Retryable, f.Message = false, clip.Bytes(f.Message, maxMessage)
	return tool.FailedResult(ToolName, f)
}

// maxListedOperations is the maximum number of operations in a summary.
const maxListedOperations = 8

// summary returns one line that says what the call has changed.
func summary(in *arguments, result *agent.WorkflowPatchResult) string {
	if result.Unchanged {
		return fmt.Sprintf("Workflow %s was so already, since version %d: nothing is changed.", in.tag, result.Version)
	}
	var changes []string
	for i := range in.operations {
		if i == maxListedOperations {
			changes = append(changes, fmt.Sprintf("and %d more", len(in.operations)-i))
			break
		}
		changes = append(changes, in.operations[i].describe())
	}
	return fmt.Sprintf("Workflow %s is at version %d: %s.", in.tag, result.Version, strings.Join(changes, ", "))
}

// describe returns what an operation did, such as "added node send_email".
func (o *operation) describe() string {
	verb := map[string]string{"add": "added", "remove": "removed", "replace": "changed"}[o.Op]
	list, rest, _ := strings.Cut(strings.TrimPrefix(o.Path, "/"), "/")
	if strings.Contains(rest, "/") { // a member of an element
		return verb + " " + clip.Bytes(o.Path, maxQuoted)
	}
	var value struct{ ID, Type, From, To string }
	if o.Value != nil && json.Unmarshal(o.Value, &value) != nil {
		return verb + " " + clip.Bytes(o.Path, maxQuoted)
	}
	switch {
	case list == "nodes" && value.ID != "":
		return verb + " node " + clip.Bytes(value.ID, maxQuoted)
	case list == "schedules" && value.ID != "":
		return verb + " schedule " + clip.Bytes(value.ID, maxQuoted)
	case list == "edges" && value.From != "":
		return verb + " edge " + clip.Bytes(value.From, maxQuoted) + " → " + clip.Bytes(value.To, maxQuoted)
	case o.Path == "":
		return verb + " the whole definition"
	default:
		return verb + " " + clip.Bytes(o.Path, maxQuoted)
	}
}
