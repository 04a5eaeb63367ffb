package agent

import "strings"

// AnyTenant is the tenant of a principal that may act for every tenant: an operator, whose requests name their tenant. It is no valid name of a
// tenant.
const AnyTenant = "*"

// The methods by which a principal was authenticated.
const (
	MethodNone = "none" // no authentication is configured: whoever can connect may do everything
	MethodKey  = "key"
	MethodJWT  = "jwt"
	MethodMTLS = "mtls"
)

// Principal is the caller that a credential identifies. The zero value is the runtime itself, acting for nobody else.
type Principal struct {
	Method     string         `json:"method"`               // one of the methods above, or the name of a channel that authenticates its users
	Tenant     string         `json:"tenant"`               // whose data; [AnyTenant]: every tenant's
	Subject    string         `json:"subject,omitempty"`    // user id; empty: the credential belongs to no user, and its requests may name one
	Role       string         `json:"role,omitempty"`       // user_role for routing
	Flags      map[string]any `json:"flags,omitempty"`      // likewise
	Scopes     []string       `json:"scopes"`               // what it may do, see [Action]
	Credential string         `json:"credential,omitempty"` // which credential, for the audit trail; never the secret
}

// Action is something that a credential may allow. A scope is an action, or the beginning of one and "*", and may be confined to
// resources: "turns.run", "turns.*", "turns.run:analyst", "approvals.decide:send_*", "*".
type Action string

// The actions, with the resource that a scope may confine each to.
const (
	ActionTurnsRun    Action = "turns.run"    // agent; also messages, results of client-side tools
	ActionTurnsRead   Action = "turns.read"   // agent; state and events
	ActionTurnsCancel Action = "turns.cancel" // agent
	ActionToolsUse    Action = "tools.use"    // tool that turns of the caller may call

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

	ActionRetentionRead  Action = "retention.read"  // what is kept for how long
	ActionRetentionWrite Action = "retention.write" // of all tenants
	ActionErasuresRead   Action = "erasures.read"
	ActionErasuresWrite  Action = "erasures.write" // erase the data of a user

	ActionKeysRead    Action = "keys.read"
	ActionKeysWrite   Action = "keys.write"
	ActionAuditRead   Action = "audit.read"
	ActionUsageRead   Action = "usage.read" // what a tenant used, and what it cost
	ActionMetricsRead Action = "metrics.read"
	ActionHealthRead  Action = "health.read" // details of what a turn depends on
	ActionDoctorRun   Action = "doctor.run"
)

// Actions lists every action.
func Actions() []Action {
	return []Action{
		ActionTurnsRun, ActionTurnsRead, ActionTurnsCancel, ActionToolsUse, ActionApprovalsRead, ActionApprovalsDecide, ActionResultsRead,
		ActionSessionsRead, ActionSessionsDelete, ActionAgentsRead, ActionCatalogRead, ActionCatalogWrite, ActionKnowledgeRead,
		ActionKnowledgeWrite, ActionWorkflowsRead, ActionWorkflowsWrite, ActionWorkflowsRun, ActionToolsRead, ActionToolsWrite,
		ActionSchedulesRead, ActionSchedulesWrite, ActionLinksWrite, ActionKeysRead, ActionKeysWrite, ActionAuditRead, ActionUsageRead,
		ActionRetentionRead, ActionRetentionWrite, ActionErasuresRead, ActionErasuresWrite, ActionMetricsRead, ActionHealthRead, ActionDoctorRun,
	}
}

// Trusted reports whether the principal may do everything: the runtime itself, and every caller if no authentication is configured.
func (p *Principal) Trusted() bool { return p.Method == "" || p.Method == MethodNone }

// May reports whether the principal may do a to a resource.
func (p *Principal) May(a Action, resource string) bool {
	return p.allowed(a, func(pattern string) bool { return matches(pattern, resource) })
}

// MayAny reports whether the principal may do a to any resource at all.
func (p *Principal) MayAny(a Action) bool {
	return p.allowed(a, func(string) bool { return true })
}

func (p *Principal) allowed(a Action, resource func(pattern string) bool) bool {
	if p.Trusted() {
		return true
	}
	for _, scope := range p.Scopes {
		action, confined, is := strings.Cut(scope, ":")
		if matches(action, string(a)) && (!is || resource(confined)) {
			return true
		}
	}
	return false
}

// ValidScope reports whether a scope allows at least one action.
func ValidScope(scope string) bool {
	action, resource, confined := strings.Cut(scope, ":")
	if confined && resource == "" {
		return false
	}
	for _, a := range Actions() {
		if matches(action, string(a)) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	if begin, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(name, begin)
	}
	return pattern == name
}
