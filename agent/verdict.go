package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// FinishReason is the reason why a model ended its reply.
type FinishReason string

// The finish reasons. Providers map their own reasons to these.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content_filter"
)

// Gate says whether a tool call may run.
type Gate string

// The gates. A call runs with GateNone, waits for approval with GateApproval, and fails because of Rule with GateDenied.
const (
	GateNone     Gate = "none"
	GateApproval Gate = "approval"
	GateDenied   Gate = "denied"
)

// Jump is the next step that middleware chooses (LangChain v1 jump_to).
type Jump string

// The jumps. Empty means JumpNone.
const (
	JumpNone  Jump = "none"
	JumpModel Jump = "model"
	JumpTools Jump = "tools"
	JumpEnd   Jump = "end"
)

// ModelVerdict is the part of a model call that the core needs: references and counts, not content.
type ModelVerdict struct {
	Calls        []CallVerdict `json:"calls,omitempty"` // in the model's order
	Usage        Usage         `json:"usage"`
	FinishReason FinishReason  `json:"finish_reason,omitempty"`
	Jump         Jump          `json:"jump,omitempty"`
	Cancelled    bool          `json:"cancelled,omitempty"`    // the turn was cancelled; the received part is stored
	OutOfTime    bool          `json:"out_of_time,omitempty"`  // the turn's wall time was used up; the received part is stored
	Failure      *Failure      `json:"failure,omitempty"`      // the provider failed, permanently unless RetryInMS is set
	RetryInMS    int64         `json:"retry_in_ms,omitempty"`  // the delay before the turn repeats the call
	Model        string        `json:"model,omitempty"`        // the model that answered, if it is not the requested one
	Requests     int           `json:"requests,omitempty"`     // the number of requests to the provider, if not 1
	Unstructured string        `json:"unstructured,omitempty"` // the beginning of the reason why the reply violates the output schema
}

// MarshalJSON omits zero counts of the usage to save space in the turn's history.
func (v ModelVerdict) MarshalJSON() ([]byte, error) {
	type plain ModelVerdict
	return json.Marshal(struct {
		plain

		Usage compactUsage `json:"usage"`
	}{plain(v), compactUsage(v.Usage)})
}

// compactUsage is a [Usage] without its zero counts.
type compactUsage struct {
	InputTokens     int64   `json:"input_tokens,omitzero"`
	OutputTokens    int64   `json:"output_tokens,omitzero"`
	CachedTokens    int64   `json:"cached_tokens,omitzero"`
	ReasoningTokens int64   `json:"reasoning_tokens,omitzero"`
	CostUSD         float64 `json:"cost_usd,omitzero"`
	Estimated       bool    `json:"estimated,omitzero"`
	Unpriced        bool    `json:"unpriced,omitzero"`
}

// CallVerdict is the part of a tool call that the core needs.
type CallVerdict struct {
	ID      CallID `json:"id"`
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"` // for the Web UI, e.g. execute_pipeline(3 steps); at most 100 bytes
	Local   bool   `json:"local,omitempty"`   // free of side effects and expected to be quick
	Gate    Gate   `json:"gate,omitempty"`    // empty: none
	Rule    string `json:"rule,omitempty"`    // the rule that decided Gate
	Child   bool   `json:"child,omitempty"`   // it is delegated to another agent
	Client  bool   `json:"client,omitempty"`  // it runs at the caller, which provides the result
}

// ToolVerdict is the part of a finished tool call that the core needs.
type ToolVerdict struct {
	ID        CallID `json:"id"`
	Failed    bool   `json:"failed,omitempty"`
	Ref       string `json:"ref,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Refused   bool   `json:"refused,omitempty"` // it did not run because of a rule of the core

	Usage      Usage `json:"usage,omitzero"` // of the delegated turn, like the following fields
	ModelCalls int   `json:"model_calls,omitempty"`
	ToolCalls  int   `json:"tool_calls,omitempty"`
}

// DecisionKind is the kind of a decision about an approval (LangChain v1 human_in_the_loop).
type DecisionKind string

// The kinds of decisions.
const (
	DecisionApprove DecisionKind = "approve"
	DecisionEdit    DecisionKind = "edit"
	DecisionReject  DecisionKind = "reject"
	DecisionRespond DecisionKind = "respond"
)

// DecisionProvide marks a call of a client-side tool whose result was provided. It is not a decision that a person can make.
const DecisionProvide DecisionKind = "provide"

// Decision decides an approval. It is the input of the update and the signal "decide".
type Decision struct {
	ApprovalID string          `json:"approval_id"`
	Decision   DecisionKind    `json:"decision"`
	Args       json.RawMessage `json:"args,omitempty"`    // edit: the new arguments
	Message    string          `json:"message,omitempty"` // reject: the reason; respond: the result of the call
	Remember   bool            `json:"remember,omitempty"`
	By         string          `json:"by"`
}

// MaxDecision bounds the arguments and the message of a decision in bytes. An update contains them twice.
const MaxDecision = 512 << 10

// Check returns an error that names the invalid field of a decision, or nil.
func (d *Decision) Check() error {
	dropNull(&d.Args)
	switch {
	case d.ApprovalID == "":
		return Invalid("approval_id", "is empty")
	case len(d.ApprovalID) > 512 || strings.ContainsRune(d.ApprovalID, 0):
		return Invalid("approval_id", "want at most 512 bytes without NUL")
	case len(d.Args)+len(d.Message) > MaxDecision:
		return FieldErrorf(CodeOverflow, "args", "args and message are %d bytes, at most %d", len(d.Args)+len(d.Message), MaxDecision)
	case len(d.By) > 256:
		return Invalid("by", "is longer than 256 bytes")
	}
	return d.checkKind()
}

// checkKind checks the fields that depend on the kind. Workflows call it, so it checks only the beginning of arguments.
func (d *Decision) checkKind() error {
	switch d.Decision {
	case DecisionApprove, DecisionReject, DecisionRespond:
		if len(d.Args) > 0 {
			return Invalid("args", "go with decision edit only")
		}
	case DecisionEdit:
		if !strings.HasPrefix(strings.TrimLeft(string(d.Args), " \t\r\n"), "{") {
			return Invalid("args", "decision edit needs the new arguments as an object")
		}
	default:
		return Invalid("decision", "want approve, edit, reject or respond, got %.60q", d.Decision)
	}
	if d.Remember && d.Decision != DecisionApprove && d.Decision != DecisionReject {
		return Invalid("remember", "goes with approve and reject only")
	}
	if d.Decision == DecisionRespond && strings.TrimSpace(d.Message) == "" {
		return Invalid("message", "decision respond needs the answer")
	}
	return nil
}

// DecisionVerdict is the effect of a stored decision: the call runs, or its result is stored.
type DecisionVerdict struct {
	ApprovalID string       `json:"approval_id"`
	CallID     CallID       `json:"call_id"`
	Decision   DecisionKind `json:"decision"`
	Run        bool         `json:"run"` // the call runs (approve, edit, provide); otherwise its result is stored
	By         string       `json:"by,omitempty"`
	End        bool         `json:"end,omitempty"`    // the approval expired, which ends the turn
	Client     bool         `json:"client,omitempty"` // for the result of a client-side tool rather than an approval
}

// Approval is a tool call that waits for a decision or, with another Kind, for something else.
type Approval struct {
	Kind       WaitKind        `json:"kind,omitempty"`
	ApprovalID string          `json:"approval_id"`
	TurnID     TurnID          `json:"turn_id"`
	CallID     CallID          `json:"call_id"`
	Step       int             `json:"step"`
	ToolName   string          `json:"tool_name"`
	Args       json.RawMessage `json:"args,omitempty"`
	Rule       string          `json:"rule,omitempty"`
	Decision   DecisionKind    `json:"decision,omitempty"` // once resolved
	By         string          `json:"by,omitempty"`
	Message    string          `json:"message,omitempty"`

	Tenant      string          `json:"tenant,omitempty"`      // only in lists
	SessionID   SessionID       `json:"session_id,omitempty"`  // only in lists
	Agent       string          `json:"agent,omitempty"`       // only in lists
	Description string          `json:"description,omitempty"` // shown to the person with the call
	Allowed     []DecisionKind  `json:"allowed_decisions,omitempty"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
	OnExpiry    Expiry          `json:"on_expiry,omitempty"`
	Remember    RememberScope   `json:"remember,omitempty"`     // the effect of remembering
	Remembered  bool            `json:"remembered,omitempty"`   // once resolved: the decision applies to later calls
	DecidedArgs json.RawMessage `json:"decided_args,omitempty"` // edit: the new arguments of the call
	CreatedAt   *time.Time      `json:"created_at,omitempty"`
	DecidedAt   *time.Time      `json:"decided_at,omitempty"`
	ArgsHash    string          `json:"-"` // sha256 of the canonical arguments
	Refused     bool            `json:"-"` // the turn ended instead of waiting; a decision applies to later attempts
}

// CancelRequest cancels a turn. It is the input of the signal "cancel".
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// CancelUpdate is the input of the update "cancel". Payloads of workflows ignore unknown fields, and all fields of a [CancelRequest] are optional, so
// any payload that is sent by mistake would cancel the turn. Therefore Check refuses unknown fields before history has the update.
type CancelUpdate struct {
	CancelRequest

	unknown string // the first unknown field
}

// UnmarshalJSON decodes the fields of a [CancelRequest] and records the first unknown field.
func (c *CancelUpdate) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &c.CancelRequest); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != "reason" && name != "by" {
			c.unknown = name[:min(len(name), 60)]
			break
		}
	}
	return nil
}

// Check returns an error for the first unknown field.
func (c *CancelUpdate) Check() error {
	if c.unknown != "" {
		return Invalid(c.unknown, "unknown field: cancel takes reason and by")
	}
	return nil
}
