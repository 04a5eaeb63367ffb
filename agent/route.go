package agent

// RouteContext is the part of a request that routing uses.
type RouteContext struct {
	InvocationContext

	Agent     string    `json:"agent,omitempty"` // the agent that the request names; may be empty
	SessionID SessionID `json:"session_id,omitempty"`
	Channel   string    `json:"channel,omitempty"`
}

// RouteReason is the reason why a turn has its agent.
type RouteReason string

// The reasons.
const (
	RouteNamed   RouteReason = "named"   // the request names the agent
	RouteRuled   RouteReason = "rule"    // a rule matched
	RouteDefault RouteReason = "default" // the tenant's default agent
	RouteDraft   RouteReason = "draft"   // the request has a draft of the agent
)

// RouteDecision is the agent that answers a request, and the reason. It is the body of a route event.
type RouteDecision struct {
	Agent    string        `json:"agent"`
	Model    string        `json:"model,omitempty"` // profile; empty: the agent's default
	Reason   RouteReason   `json:"reason"`
	Table    string        `json:"table,omitempty"`    // tenant/name
	Rule     string        `json:"rule,omitempty"`     // the rule that matched
	Mismatch bool          `json:"mismatch,omitempty"` // the request names an agent that the rules would not have chosen
	Expected string        `json:"expected,omitempty"` // the agent that the rules would have chosen
	Revision int64         `json:"revision"`           // of the catalog
	Rules    []RuleVerdict `json:"rules,omitempty"`    // in the order of evaluation; only for a dry run
}

// RuleVerdict says whether a rule matched, and why.
type RuleVerdict struct {
	Table    string `json:"table"`
	Rule     string `json:"rule"`
	Priority int    `json:"priority"`
	Matched  bool   `json:"matched"`
	Chosen   bool   `json:"chosen"`
	Reason   string `json:"reason"`
	Agent    string `json:"agent"`
	Model    string `json:"model,omitempty"`
}
