package turns

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// offered are the tools that a model is told of: those that are not deferred, in the plan's order, and behind them the deferred ones
// that the conversation has revealed, in the order in which it has. So the front of every prompt of a plan is the same.
func offered(tools []agent.PlanTool, messages []agent.Message) []agent.ToolSpec {
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
	for _, name := range revealed(messages, revealing) {
		if t, ok := hidden[name]; ok {
			delete(hidden, name)
			out = append(out, t.Spec)
		}
	}
	return out
}

// revealed lists the names that the answers of some tools tell, in the order of the conversation. A deferred tool that was called is
// among them: its call may be all that is left of how it was found.
func revealed(messages []agent.Message, by []string) []string {
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
					continue // moved to the blob store, or cleaned: it tells nothing
				}
				for _, t := range answer.Tools {
					names = append(names, t.Name)
				}
			}
		}
	}
	return names
}

// missingTools tells the model which of its tools it does without in this turn.
func missingTools(t *agent.TurnTools) string {
	if t == nil || len(t.Missing) == 0 {
		return ""
	}
	return "The tools of " + strings.Join(t.Missing, ", ") + " cannot be reached at present."
}
