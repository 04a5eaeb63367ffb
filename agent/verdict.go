package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// FinishReason says why a model stopped writing.
type FinishReason string

// The finish reasons every provider adapter maps to.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content_filter"
)

// Gate says whether a tool call may run.
type Gate string

// The gates: GateNone runs, GateApproval waits for a person, GateDenied is answered with Rule.
const (
	GateNone     Gate = "none"
	GateApproval Gate = "approval"
	GateDenied   Gate = "denied"
)

// Jump lets middleware steer the loop (LangChain v1 jump_to).
type Jump string

// The jumps; the empty string is JumpNone.
const (
	JumpNone  Jump = "none"
	JumpModel Jump = "model"
	JumpTools Jump = "tools"
	JumpEnd   Jump = "end"
)

// ModelVerdict is the part of a model call that the pure core needs: references and counts, never content.
type ModelVerdict struct {
	Calls        []CallVerdict `json:"calls,omitempty"` // in the model's order
	Usage        Usage         `json:"usage"`
	FinishReason FinishReason  `json:"finish_reason,omitempty"`
	Jump         Jump          `json:"jump,omitempty"`
	Cancelled    bool          `json:"cancelled,omitempty"`    // the stream was marked; what was produced is stored
	OutOfTime    bool          `json:"out_of_time,omitempty"`  // the turn's wall time ran out; what was produced is stored
	Failure      *Failure      `json:"failure,omitempty"`      // the provider failed: for good, unless RetryInMS is set
	RetryInMS    int64         `json:"retry_in_ms,omitempty"`  // the turn waits so long and makes the call again
	Model        string        `json:"model,omitempty"`        // who answered, when it is not the model that was asked
	Requests     int           `json:"requests,omitempty"`     // to the provider, when it was not one
	Unstructured string        `json:"unstructured,omitempty"` // the reply misses the output schema: the first words of why
}

// MarshalJSON omits the zero counts of the usage, because each model call of a turn is in its history.
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

// CallVerdict is one tool call as the core sees it.
type CallVerdict struct {
	ID      CallID `json:"id"`
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"` // for the Web UI, e.g. execute_pipeline(3 steps); at most 100 bytes
	Local   bool   `json:"local,omitempty"`   // free of side effects and expected to be quick
	Gate    Gate   `json:"gate,omitempty"`    // empty: none
	Rule    string `json:"rule,omitempty"`    // what gated it
	Child   bool   `json:"child,omitempty"`   // it is a turn of another agent
	Client  bool   `json:"client,omitempty"`  // it runs at the caller, who provides its result
}

// ToolVerdict is one finished tool call as the core sees it.
type ToolVerdict struct {
	ID        CallID `json:"id"`
	Failed    bool   `json:"failed,omitempty"`
	Ref       string `json:"ref,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Refused   bool   `json:"refused,omitempty"` // by a rule of the core: it did not run

	Usage      Usage `json:"usage,omitzero"` // of a child turn, and what follows
	ModelCalls int   `json:"model_calls,omitempty"`
	ToolCalls  int   `json:"tool_calls,omitempty"`
}

// DecisionKind is a person's answer to an approval (LangChain v1 human_in_the_loop).
type DecisionKind string

// The four decisions.
const (
	DecisionApprove DecisionKind = "approve"
	DecisionEdit    DecisionKind = "edit"
	DecisionReject  DecisionKind = "reject"
	DecisionRespond DecisionKind = "respond"
)

// DecisionProvide is how a call of a client-side tool is recorded as answered; nobody decides so.
const DecisionProvide DecisionKind = "provide"

// Decision answers one approval: the input of the update and the signal "decide".
type Decision struct {
	ApprovalID string          `json:"approval_id"`
	Decision   DecisionKind    `json:"decision"`
	Args       json.RawMessage `json:"args,omitempty"`    // edit: the arguments to run with
	Message    string          `json:"message,omitempty"` // reject: why; respond: the tool's answer
	Remember   bool            `json:"remember,omitempty"`
	By         string          `json:"by"`
}

// MaxDecision bounds, in bytes, the arguments and the message of a decision together: an update carries them twice.
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

// checkKind refuses a decision whose fields do not suit its kind. Workflows call it too, so it looks only at the beginning of arguments.
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

// DecisionVerdict is a decision after it was judged and stored: the call runs, or it has been answered.
type DecisionVerdict struct {
	ApprovalID string       `json:"approval_id"`
	CallID     CallID       `json:"call_id"`
	Decision   DecisionKind `json:"decision"`
	Run        bool         `json:"run"` // approve, edit and provide: run it; else the answer is stored as the call's result
	By         string       `json:"by,omitempty"`
	End        bool         `json:"end,omitempty"`    // it expired, and that ends the turn
	Client     bool         `json:"client,omitempty"` // it is about a result that the caller provides, not about an approval
}

// Approval is a tool call that waits for a person or, of another kind, for something else.
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

	Tenant      string          `json:"tenant,omitempty"` // this and the next two where approvals are listed
	SessionID   SessionID       `json:"session_id,omitempty"`
	Agent       string          `json:"agent,omitempty"`
	Description string          `json:"description,omitempty"` // what the person is told besides the call
	Allowed     []DecisionKind  `json:"allowed_decisions,omitempty"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
	OnExpiry    Expiry          `json:"on_expiry,omitempty"`
	Remember    RememberScope   `json:"remember,omitempty"`     // what remembering would mean
	Remembered  bool            `json:"remembered,omitempty"`   // once resolved: the decision stands for later calls
	DecidedArgs json.RawMessage `json:"decided_args,omitempty"` // edit: what it runs with
	CreatedAt   *time.Time      `json:"created_at,omitempty"`
	DecidedAt   *time.Time      `json:"decided_at,omitempty"`
	ArgsHash    string          `json:"-"` // sha256 of the canonical arguments
	Refused     bool            `json:"-"` // the turn ended instead of waiting: a decision stands for later attempts
}

// CancelRequest asks a turn to stop: the input of the update and the signal "cancel".
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// CancelUpdate is the input of the update "cancel". It decodes leniently, as payloads of workflows do, and Check refuses what it does not
// know before history holds anything of it: every field is optional, so anything else sent by mistake would cancel the turn.
type CancelUpdate struct {
	CancelRequest

	unknown string // the first unknown field
}

// UnmarshalJSON takes the fields of a [CancelRequest] and notes the first of any others.
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

// Check names the first unknown field.
func (c *CancelUpdate) Check() error {
	if c.unknown != "" {
		return Invalid(c.unknown, "unknown field: cancel takes reason and by")
	}
	return nil
}
