package access

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Confinable reports whether a scope may confine an action to resources. Of the others a scope allows all or nothing.
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

// ValidScope reports whether a scope allows anything that there is. One that is confined has to name an action that can be.
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
