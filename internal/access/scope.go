package access

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Confinable reports whether a scope may restrict an action to some resources. A scope of any other action allows all of them.
func Confinable(a agent.Action) bool {
	switch a {
	case agent.ActionTurnsRun, agent.ActionTurnsRead, agent.ActionTurnsCancel, agent.ActionToolsUse, agent.ActionApprovalsRead,
		agent.ActionApprovalsDecide, agent.ActionCatalogRead, agent.ActionCatalogWrite, agent.ActionKnowledgeRead, agent.ActionKnowledgeWrite,
		agent.ActionWorkflowsRead, agent.ActionWorkflowsWrite, agent.ActionWorkflowsRun:
		return true
	default:
		return false
	}
}

// ValidScope reports whether a scope allows anything. One that is restricted to a resource must name an action that can be.
func ValidScope(scope string) bool {
	action, resource, confined := strings.Cut(scope, ":")
	if !agent.ValidScope(scope) || !confined || resource == "*" {
		return agent.ValidScope(scope)
	}
	asks := agent.Principal{Method: agent.MethodKey, Scopes: []string{action}}
	for _, a := range agent.Actions() {
		if Confinable(a) && asks.MayAny(a) {
			return true
		}
	}
	return false
}
