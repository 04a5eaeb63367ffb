package agent

// RouteContext is what routing sees of a request.
type RouteContext struct {
	InvocationContext

	Agent     string    `json:"agent,omitempty"` // named by the request; empty: the rules decide
	SessionID SessionID `json:"session_id,omitempty"`
	Channel   string    `json:"channel,omitempty"`
}

// RouteReason says how a turn came to its agent.
type RouteReason string

// The reasons.
const (
	RouteNamed   RouteReason = "named"   // the request names it
	RouteRuled   RouteReason = "rule"    // a rule matched
	RouteDefault RouteReason = "default" // the tenant's default agent
	RouteDraft   RouteReason = "draft"   // the request brings a draft of it
)

// RouteDecision is which agent answers, and why. It is the body of a route event.
type RouteDecision struct {
	Agent    string        `json:"agent"`
	Model    string        `json:"model,omitempty"` // profile; empty: the agent's default
	Reason   RouteReason   `json:"reason"`
	Table    string        `json:"table,omitempty"`    // tenant/name
	Rule     string        `json:"rule,omitempty"`     // the rule that matched
	Mismatch bool          `json:"mismatch,omitempty"` // the request names an agent that the rules would not have chosen
	Expected string        `json:"expected,omitempty"` // the one that they would have
	Revision int64         `json:"revision"`           // of the catalog
	Rules    []RuleVerdict `json:"rules,omitempty"`    // in the order of evaluation; a dry run has all, a decision none
}

// RuleVerdict says of one rule why it did or did not match.
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
