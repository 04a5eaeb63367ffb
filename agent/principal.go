package agent

import (
	"slices"
	"strings"
)

// AnyTenant is the tenant of a principal that may act for every tenant, such as an operator. Its requests name their tenant. It is not a valid name of
// a tenant.
const AnyTenant = "*"

// The methods by which a principal was authenticated.
const (
	MethodNone = "none" // authentication is disabled: everyone who can connect may do everything
	MethodKey  = "key"
	MethodJWT  = "jwt"
	MethodMTLS = "mtls"
)

// Principal is the caller that a credential identifies. The zero value is the runtime itself.
type Principal struct {
	Method     string         `json:"method"`               // one of the methods above, or the name of a channel that authenticates its users
	Tenant     string         `json:"tenant"`               // the tenant whose data it may use; [AnyTenant]: all tenants
	Subject    string         `json:"subject,omitempty"`    // user ID; empty: the credential belongs to no user, and requests may name one
	Role       string         `json:"role,omitempty"`       // for routing, as user_role
	Flags      map[string]any `json:"flags,omitempty"`      // for routing
	Scopes     []string       `json:"scopes"`               // see [Action]
	Credential string         `json:"credential,omitempty"` // identifies the credential in the audit trail; not the secret
}

// Action is an action that a credential may allow. A scope is an action, or a prefix of actions and "*", optionally with a resource: "turns.run",
// "turns.*", "turns.run:analyst", "approvals.decide:send_*", "*".
type Action string

// The actions. Comments name the resource that a scope may have.
const (
	ActionTurnsRun    Action = "turns.run"    // agent; also to send messages and results of client-side tools
	ActionTurnsRead   Action = "turns.read"   // agent; state and events
	ActionTurnsCancel Action = "turns.cancel" // agent
	ActionToolsUse    Action = "tools.use"    // tool; the tools that turns of the caller may call

	ActionApprovalsRead   Action = "approvals.read"   // tool
	ActionApprovalsDecide Action = "approvals.decide" // tool

	ActionResultsRead    Action = "results.read"
	ActionSessionsRead   Action = "sessions.read"
	ActionSessionsDelete Action = "sessions.delete"

	ActionAgentsRead   Action = "agents.read"   // lists of agents and nodes, and route dry runs
	ActionCatalogRead  Action = "catalog.read"  // Kind/name of a document
	ActionCatalogWrite Action = "catalog.write" // Kind/name

	ActionKnowledgeRead  Action = "knowledge.read"  // collection
	ActionKnowledgeWrite Action = "knowledge.write" // collection

	ActionWorkflowsRead  Action = "workflows.read"  // tag
	ActionWorkflowsWrite Action = "workflows.write" // tag
	ActionWorkflowsRun   Action = "workflows.run"   // tag

	ActionToolsRead  Action = "tools.read"  // composites
	ActionToolsWrite Action = "tools.write" // composites

	ActionSchedulesRead  Action = "schedules.read"
	ActionSchedulesWrite Action = "schedules.write"
	ActionLinksWrite     Action = "links.write" // links between chats and users

	ActionRetentionRead  Action = "retention.read"  // retention periods
	ActionRetentionWrite Action = "retention.write" // retention periods of all tenants
	ActionErasuresRead   Action = "erasures.read"
	ActionErasuresWrite  Action = "erasures.write" // erase the data of a user

	ActionKeysRead    Action = "keys.read"
	ActionKeysWrite   Action = "keys.write"
	ActionAuditRead   Action = "audit.read"
	ActionUsageRead   Action = "usage.read" // usage and cost
	ActionMetricsRead Action = "metrics.read"
	ActionHealthRead  Action = "health.read" // state of the dependencies
	ActionDoctorRun   Action = "doctor.run"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		ActionTurnsRun, ActionTurnsRead, ActionTurnsCancel, ActionToolsUse, ActionApprovalsRead, ActionApprovalsDecide, ActionResultsRead,
		ActionSessionsRead, ActionSessionsDelete, ActionAgentsRead, ActionCatalogRead, ActionCatalogWrite, ActionKnowledgeRead,
		ActionKnowledgeWrite, ActionWorkflowsRead, ActionWorkflowsWrite, ActionWorkflowsRun, ActionToolsRead, ActionToolsWrite,
		ActionSchedulesRead, ActionSchedulesWrite, ActionLinksWrite, ActionKeysRead, ActionKeysWrite, ActionAuditRead, ActionUsageRead,
		ActionRetentionRead, ActionRetentionWrite, ActionErasuresRead, ActionErasuresWrite, ActionMetricsRead, ActionHealthRead, ActionDoctorRun,
	}
}

// Trusted reports whether the principal may do everything: it is the runtime itself, or authentication is disabled.
func (p *Principal) Trusted() bool { return p.Method == "" || p.Method == MethodNone }

// May reports whether the principal may do a to a resource.
func (p *Principal) May(a Action, resource string) bool {
	return p.hasScope(a, func(pattern string) bool { return matches(pattern, resource) })
}

// MayAny reports whether the principal may do a to at least one resource.
func (p *Principal) MayAny(a Action) bool {
	return p.hasScope(a, func(string) bool { return true })
}

// hasScope reports whether a scope of the principal allows a for all resources, or for a pattern of resources that accept accepts.
func (p *Principal) hasScope(a Action, accept func(pattern string) bool) bool {
	return p.Trusted() || slices.ContainsFunc(p.Scopes, func(scope string) bool {
		action, pattern, hasPattern := strings.Cut(scope, ":")
		return matches(action, string(a)) && (!hasPattern || accept(pattern))
	})
}

// ValidScope reports whether a scope allows at least one action.
func ValidScope(scope string) bool {
	action, resource, hasResource := strings.Cut(scope, ":")
	if hasResource && resource == "" {
		return false
	}
	return slices.ContainsFunc(Actions(), func(a Action) bool { return matches(action, string(a)) })
}

// matches reports whether a pattern, a name or a prefix and "*", matches a name.
func matches(pattern, name string) bool {
	if prefix, isPrefix := strings.CutSuffix(pattern, "*"); isPrefix {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
