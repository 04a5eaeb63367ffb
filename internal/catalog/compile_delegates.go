package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// The toolkit that hands work to other agents, and its tool. Agents with delegates have an implicit grant of it.
const (
	delegateKit  = "delegate"
	delegateTool = "delegate_to_agent"
)

// delegateDescription is added to the description of delegate_to_agent, which docs/reference/requirements.md fixes.
const delegateDescription = "\n\nWith agent_type langchain_agent the work is handed to one of the agents below: config.agent is its name, inputs.message " +
	"what it shall do, with all that it needs to know."

// Bounds of the list of delegates in the tool's description, which is sent to the model with every request.
const (
	maxDelegateText = 200     // characters of one description
	maxDelegateList = 8 << 10 // bytes of all lines
)

// addDelegates adds the agents that this agent may hand work to, and lists them in the tool's description.
func (c *compiler) addDelegates() {
	c.plan.Delegates = slices.Clone(c.inst.Delegates)
	if len(c.in.delegates) == 0 {
		return
	}
	for i := range c.plan.Tools {
		if t := &c.plan.Tools[i]; t.Toolkit == delegateKit && t.Spec.Name == delegateTool {
			t.Spec.Description = strings.TrimSpace(t.Spec.Description + delegateDescription + c.delegateLines())
			return
		}
	}
	if len(c.out.faults) == 0 {
		c.addFault("delegates", "need the tool %q of toolkit %q, which node %s@%s does not give", delegateTool, delegateKit, delegateKit, derivedVersion)
	}
}

// delegateLines returns a line for each delegate: "- name: description".
func (c *compiler) delegateLines() string {
	var out strings.Builder
	for i := range c.in.delegates {
		line := "\n- " + c.in.delegates[i].name
		if text := c.in.delegates[i].shortDescription(); text != "" {
			line += ": " + text
		}
		if out.Len()+len(line) > maxDelegateList {
			fmt.Fprintf(&out, "\n- and %d more", len(c.in.delegates)-i)
			break
		}
		out.WriteString(line)
	}
	return out.String()
}

// shortDescription returns an agent's description as one short line, empty if it has none.
func (r *reference) shortDescription() string {
	if r.entry == nil {
		return ""
	}
	words := strings.Join(strings.Fields(r.entry.description()), " ")
	if runes := []rune(words); len(runes) > maxDelegateText {
		return strings.TrimSpace(string(runes[:maxDelegateText])) + "…"
	}
	return words
}
