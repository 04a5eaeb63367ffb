package turns

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// offeredTools returns the tools that a model gets: those that are not deferred, in the plan's order, then the deferred ones that the
// conversation has revealed, in that order. So the beginning of every prompt of a plan is the same.
func offeredTools(tools []agent.PlanTool, messages []agent.Message) []agent.ToolSpec {
	var out []agent.ToolSpec
	hidden := map[string]*agent.PlanTool{}
	var revealing []string
	for i := range tools {
		t := &tools[i]
		if t.Spec.RevealsTools {
			revealing = append(revealing, t.Spec.Name)
		}
		if t.Deferred {
			hidden[t.Spec.Name] = t
			continue
		}
		out = append(out, t.Spec)
	}
	if len(hidden) == 0 {
		return out
	}
	for _, name := range revealedNames(messages, revealing) {
		if t, ok := hidden[name]; ok {
			delete(hidden, name)
			out = append(out, t.Spec)
		}
	}
	return out
}

// revealedNames lists the tool names in the answers of some tools, in the order of the conversation. It also lists the tools that were called: the
// answer that revealed them may be gone.
func revealedNames(messages []agent.Message, by []string) []string {
	var names []string
	for i := range messages {
		for j := range messages[i].Blocks {
			switch b := &messages[i].Blocks[j]; {
			case b.Type == agent.BlockToolCall:
				names = append(names, b.Name)
			case b.Type == agent.BlockToolResult && b.Status == agent.ResultSuccess && slices.Contains(by, b.Name):
				var answer struct {
					Tools []struct {
						Name string `json:"name"`
					} `json:"tools"`
				}
				if json.Unmarshal(b.Output, &answer) != nil {
					continue // moved to the blob store, or cleaned
				}
				for _, t := range answer.Tools {
					names = append(names, t.Name)
				}
			}
		}
	}
	return names
}

// missingTools returns the sentence that tells the model which of its tools cannot be reached in this turn.
func missingTools(t *agent.TurnTools) string {
	if t == nil || len(t.Missing) == 0 {
		return ""
	}
	return "The tools of " + strings.Join(t.Missing, ", ") + " cannot be reached at present."
}
