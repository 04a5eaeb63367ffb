package agent

// Rules control a turn's loop in addition to its [Limits]. LoadPlan derives them from the plan, and the core applies them.
type Rules struct {
	ModelCalls      []CallLimit `json:"model_calls,omitempty"`      // of middleware model_call_limit
	ToolCalls       []CallLimit `json:"tool_calls,omitempty"`       // of middleware tool_call_limit, in the plan's order
	StructuredTries int         `json:"structured_tries,omitempty"` // how many replies may violate the output schema; 0 without a schema
}

// Exit says what happens when a [CallLimit] is reached.
type Exit string

// The values of Exit (LangChain v1's exit_behavior). ExitContinue is only for tools: the call fails and the loop continues.
const (
	ExitEnd      Exit = "end"   // the turn completes with a message about the limit
	ExitError    Exit = "error" // the turn fails
	ExitContinue Exit = "continue"
)

// CallLimit bounds the calls of the model or of tools.
type CallLimit struct {
	Tool   string `json:"tool,omitempty"`   // only calls of this tool; empty: calls of the model, or of all tools
	Run    int    `json:"run,omitempty"`    // in this turn; 0: no bound
	Thread int    `json:"thread,omitempty"` // in this session; 0: no bound
	Before int    `json:"before,omitempty"` // calls in earlier turns of the session, if Thread is set
	Exit   Exit   `json:"exit"`
}

// Ruler is implemented by middleware that adds rules for the core. The runtime sets [CallLimit].Before.
type Ruler interface {
	Rule(r *Rules)
}

// Gater is middleware that decides which tool calls need approval. The first Gater gets the verdict of the tool's policy, each further one that of the
// Gater before it. The last verdict counts.
type Gater interface {
	Gate(call GatedCall, current GateVerdict) (GateVerdict, error)
}

// GatedCall is a tool call that may need approval.
type GatedCall struct {
	Tool       PlanTool
	Args       []byte // the arguments, a JSON object
	EffectFree bool   // this call has no side effects
	Tenant     string
	UserID     string
	UserRole   string
}

// GateVerdict says whether a tool call needs approval, and the terms of the approval.
type GateVerdict struct {
	Gate        Gate // GateNone or GateApproval
	Rule        string
	Description string         // shown to the person with the call; may be empty
	Allowed     []DecisionKind // the possible decisions; empty: all
	ExpiresSec  int64          // 0: never
	OnExpiry    Expiry         // empty: ExpiryReject
	Remember    RememberScope  // the effect of "remember"; empty: RememberCall
}

// Expiry is the outcome of an approval that expires.
type Expiry string

// The outcomes. ExpiryReject tells the model; ExpiryEnd ends the turn with [StopApprovalExpired].
const (
	ExpiryReject  Expiry = "reject"
	ExpiryApprove Expiry = "approve"
	ExpiryEnd     Expiry = "end"
)

// ExpiredBy is By of an approval that expired.
const ExpiredBy = "expiry"

// EndedBy is By of an approval whose turn ended before a decision.
const EndedBy = "turn"

// RememberScope says to which calls of the session a remembered decision applies.
type RememberScope string

// The scopes. RememberCall: calls of the tool with the same arguments; RememberTool: all calls of the tool; RememberOff: decisions cannot be remembered.
const (
	RememberCall RememberScope = "call"
	RememberTool RememberScope = "tool"
	RememberOff  RememberScope = "off"
)

// Granter is implemented by middleware that needs tools, which agents with the middleware are granted.
type Granter interface {
	Grants() []ToolGrant
}

// Jumper is implemented by middleware that may jump. CanJumpTo returns the possible jumps (LangChain v1's can_jump_to). Any other jump fails the model
// call. BeforeModel can only use [JumpEnd].
type Jumper interface {
	CanJumpTo() []Jump
}
