package agent

import "strings"

// AnyTenant in a principal is every tenant: an operator's credential, whose requests name the tenant that they are made for. It can never
// be a tenant's name, because it has no valid shape.
const AnyTenant = "*"

// How a principal was made known.
const (
	MethodNone = "none" // no authentication is configured: whoever can connect may do everything
	MethodKey  = "key"
	MethodJWT  = "jwt"
	MethodMTLS = "mtls"
)

// Principal is who acts, as a credential says it. The zero value is the runtime itself: code of this process that asks for
// nobody else.
type Principal struct {
	Method     string         `json:"method"`               // one of the methods above, or the name of a channel that vouches for its users
	Tenant     string         `json:"tenant"`               // whose data; [AnyTenant]: every tenant's
	Subject    string         `json:"subject,omitempty"`    // user id; empty: the credential is nobody's own, and its requests may name a user
	Role       string         `json:"role,omitempty"`       // user_role as routing sees it
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
	ActionErasuresWrite  Action = "erasures.write" // takes away what is kept of a user

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

// Trusted reports whether nobody has to be asked what the principal may do: the runtime itself, and everybody where no authentication is
// configured.
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

// ValidScope reports whether a scope allows anything that there is.
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
