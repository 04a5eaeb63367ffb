package catalog

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// searchKit is the toolkit that finds deferred tools. Agents with such tools are granted it by themselves.
const searchKit = "toolsearch"

// searchWords is the prompt's explanation of search_tools. The schema itself is given by docs/requirements.md.
const searchWords = "\n\nThere are tools beside those listed with this request. Search by what they do; a tool that was found can be called from then on."

// deferred tells the model of an agent with deferred tools that there are more than it is told of.
func (c *compiler) deferred() {
	hidden := slices.ContainsFunc(c.plan.Tools, func(t agent.PlanTool) bool { return t.Deferred }) ||
		slices.ContainsFunc(c.plan.Sources, func(s agent.PlanSource) bool { return s.Deferred })
	if !hidden {
		return
	}
	for i := range c.plan.Tools {
		if t := &c.plan.Tools[i]; t.Spec.RevealsTools {
			t.Spec.Description += searchWords
		}
	}
}
