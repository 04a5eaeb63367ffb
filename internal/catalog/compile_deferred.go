package catalog

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// searchKit is the toolkit that finds deferred tools. Agents with deferred tools get it without a grant.
const searchKit = "toolsearch"

// searchWords explains search_tools to the model. The schema itself is given by docs/reference/requirements.md.
const searchWords = "\n\nThere are tools beside those listed with this request. Search by what they do; a tool that was found can be called from then on."

// describeSearch adds to the description of search_tools that there are deferred tools, if there are any.
func (c *compiler) describeSearch() {
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
