package agent

// Rules steer a turn's loop besides its [Limits]. They are data: LoadPlan makes them of the plan, the pure core executes them.
type Rules struct {
	ModelCalls      []CallLimit `json:"model_calls,omitempty"`      // of middleware model_call_limit
	ToolCalls       []CallLimit `json:"tool_calls,omitempty"`       // of middleware tool_call_limit, in the plan's order
	StructuredTries int         `json:"structured_tries,omitempty"` // how many replies may miss the output schema; 0: none was asked for
}

// Exit says what happens at a [CallLimit].
type Exit string

// The ways out (LangChain v1's exit_behavior). ExitContinue is for tools alone: the call is answered with an error and the loop goes on.
const (
	ExitEnd      Exit = "end"   // the turn completes, saying so
	ExitError    Exit = "error" // the turn fails
	ExitContinue Exit = "continue"
)

// CallLimit bounds calls of one kind: of the model, or of tools.
type CallLimit struct {
	Tool   string `json:"tool,omitempty"`   // of this tool alone; empty: of the model, or of any tool
	Run    int    `json:"run,omitempty"`    // in this turn; 0: no bound
	Thread int    `json:"thread,omitempty"` // in this session; 0: no bound
	Before int    `json:"before,omitempty"` // calls of the session's earlier turns, counted where Thread is given
	Exit   Exit   `json:"exit"`
}

// Ruler is implemented by a middleware whose work is the core's: it adds its rules. Before is the runtime's to fill in.
type Ruler interface {
	Rule(r *Rules)
}

// Gater is implemented by a middleware that says which tool calls wait for a person. Of several the last has its way; each is given
// what the one before it said, the first the verdict of the tool's own policy.
type Gater interface {
	Gate(call GatedCall, so GateVerdict) (GateVerdict, error)
}

// GatedCall is a tool call that is judged.
type GatedCall struct {
	Tool       PlanTool
	Args       []byte // the arguments, a JSON object
	EffectFree bool   // this call has no side effects
	Tenant     string
	UserID     string
	UserRole   string
}

// GateVerdict says whether a person is asked, and how.
type GateVerdict struct {
	Gate        Gate // GateNone or GateApproval
	Rule        string
	Description string         // what the person is told; empty: nothing but the call itself
	Allowed     []DecisionKind // what the person may decide; empty: all four
	ExpiresSec  int64          // 0: it waits for ever
	OnExpiry    Expiry         // empty: ExpiryReject
	Remember    RememberScope  // what "remember" means here; empty: RememberCall
}

// Expiry is the outcome of an approval that nobody decided in time.
type Expiry string

// The outcomes. ExpiryReject tells the model; ExpiryEnd ends the turn with [StopApprovalExpired].
const (
	ExpiryReject  Expiry = "reject"
	ExpiryApprove Expiry = "approve"
	ExpiryEnd     Expiry = "end"
)

// ExpiredBy is who has decided an approval that expired.
const ExpiredBy = "expiry"

// EndedBy is who has decided an approval whose turn ended first.
const EndedBy = "turn"

// RememberScope is how far a remembered decision reaches: always one session.
type RememberScope string

// The scopes. RememberCall: calls of the tool with the same arguments; RememberTool: every call of the tool; RememberOff: refused.
const (
	RememberCall RememberScope = "call"
	RememberTool RememberScope = "tool"
	RememberOff  RememberScope = "off"
)

// Granter is implemented by a middleware that brings tools along: a compiler grants them besides the agent's own.
type Granter interface {
	Grants() []ToolGrant
}

// Jumper is implemented by a middleware that may jump: it declares where to (LangChain v1's can_jump_to). A jump that was not declared
// fails the model call. From BeforeModel only [JumpEnd] is possible.
type Jumper interface {
	CanJumpTo() []Jump
}
