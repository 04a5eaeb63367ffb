package turns

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// offeredTools returns the tools that a model gets: first those that are not deferred, in the order of the plan, then the deferred tools that the
// conversation has revealed, in the order in which it revealed them. So the list always begins the same, and the provider can cache it.
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

// revealedNames lists the tool names in the results of the revealing tools, in the order of the conversation. It also lists the tools that were called,
// because the result that revealed them may no longer be in the prompt.
func revealedNames(messages []agent.Message, revealing []string) []string {
	var names []string
	for i := range messages {
		for j := range messages[i].Blocks {
			switch b := &messages[i].Blocks[j]; {
			case b.Type == agent.BlockToolCall:
				names = append(names, b.Name)
			case b.Type == agent.BlockToolResult && b.Status == agent.ResultSuccess && slices.Contains(revealing, b.Name):
				var result struct {
					Tools []struct {
						Name string `json:"name"`
					} `json:"tools"`
				}
				if json.Unmarshal(b.Output, &result) != nil {
					continue // moved to the blob store, or changed by middleware
				}
				for _, t := range result.Tools {
					names = append(names, t.Name)
				}
			}
		}
	}
	return names
}

// missingTools returns the sentence that tells the model which toolkits cannot be reached in this turn, or "" if all can.
func missingTools(t *agent.TurnTools) string {
	if t == nil || len(t.Missing) == 0 {
		return ""
	}
	return "The tools of " + strings.Join(t.Missing, ", ") + " cannot be reached at present."
}
