package catalog

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// searchKit is the toolkit that finds deferred tools. Agents with deferred tools have an implicit grant of it.
const searchKit = "toolsearch"

// searchDescription is added to the description of search_tools, which docs/reference/requirements.md fixes.
const searchDescription = "\n\nThere are tools beside those listed with this request. Search by what they do; a tool that was found can be called from then on."

// describeSearch tells the model in the description of search_tools about deferred tools, if there are any.
func (c *compiler) describeSearch() {
	hasDeferred := slices.ContainsFunc(c.plan.Tools, func(t agent.PlanTool) bool { return t.Deferred }) ||
		slices.ContainsFunc(c.plan.Sources, func(s agent.PlanSource) bool { return s.Deferred })
	if !hasDeferred {
		return
	}
	for i := range c.plan.Tools {
		if t := &c.plan.Tools[i]; t.Spec.RevealsTools {
			t.Spec.Description += searchDescription
		}
	}
}
