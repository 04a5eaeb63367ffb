package turns

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// TurnRef identifies a turn for its workflow. Activities get only the id and look up everything else, so that the history does not repeat it with every
// call.
type TurnRef struct {
	TurnID     agent.TurnID    `json:"turn_id"`
	Tenant     string          `json:"tenant"`
	SessionID  agent.SessionID `json:"session_id"`
	Agent      string          `json:"agent"`
	InstanceID string          `json:"instance_id"`
	PlanHash   string          `json:"plan_hash"`
	Delegated  bool            `json:"delegated,omitempty"` // another turn waits for it
	Summary    string          `json:"-"`                   // shown in Temporal's list of workflows; the session if empty
}

// BeginTurnInput says who begins a turn, and how. The request is a separate argument.
type BeginTurnInput struct {
	WorkflowID string         `json:"workflow_id"`
	Parent     agent.TurnID   `json:"-"`      // the turn that waits for this one, if it is a child turn
	Trace      string         `json:"-"`      // the trace that a child turn belongs to
	Direct     bool           `json:"-"`      // the caller runs the turn in its own process and renews its lease
	Fallback   agent.Fallback `json:"-"`      // why a turn that should be direct is not
	StartByID  bool           `json:"-"`      // the caller starts the workflow afterwards; if it cannot, Upkeep does
	Checked    *Checked       `json:"-"`      // the result of Check, if the request has been checked
	RunID      string         `json:"run_id"` // the first run of the workflow's chain; empty before there is a workflow
	ByID       bool           `json:"-"`      // the request names a turn that was recorded before
	Again      bool           `json:"again,omitempty"`
	TurnID     agent.TurnID   `json:"turn_id,omitempty"` // the turn that was recorded before, if Again is set
	// CoreVersion is the newest core that the workflow knows. A workflow that is older than this field sends 0 and needs the plan in the answer.
	CoreVersion int `json:"core_version,omitempty"`
}

// Verdict is BeginTurn's answer to a request.
type Verdict string

// The verdicts (docs/start/turn.md, "BeginTurn").
const (
	VerdictReady     Verdict = "ready"
	VerdictBehind    Verdict = "behind"
	VerdictDuplicate Verdict = "duplicate"
	VerdictRefused   Verdict = "refused"
)

// BeginTurnResult is the answer of BeginTurn: the state of the turn and its binding.
type BeginTurnResult struct {
	Verdict Verdict `json:"verdict"`
	Turn    TurnRef `json:"turn"`
	// LoadPlanResult is set for direct turns and for workflows before core version 3, which do not run LoadPlan.
	LoadPlanResult

	CoreVersion      int                    `json:"core_version"`
	SearchAttributes bool                   `json:"search_attributes,omitempty"` // the namespace has the search attributes of every turn
	StatusAttributes bool                   `json:"status_attributes,omitempty"` // the namespace has those of turns that waited or failed
	FailsWorkflow    bool                   `json:"fails_workflow,omitempty"`    // the workflow fails if the turn does
	StreamTo         *agent.StreamTo        `json:"stream_to,omitempty"`
	ContinueAsNew    int                    `json:"continue_as_new_events,omitempty"` // 0: when the server suggests it
	Route            string                 `json:"route,omitempty"`                  // why the turn has its agent, for the Web UI
	Holder           agent.TurnID           `json:"holder,omitempty"`                 // set with VerdictBehind
	Position         int                    `json:"position,omitempty"`               // set with VerdictBehind
	Cancelled        bool                   `json:"cancelled,omitempty"`              // with VerdictBehind and Again: the waiting turn was cancelled
	Output           *agent.AgentStepOutput `json:"output,omitempty"`                 // set with VerdictDuplicate
	Refusal          *agent.Failure         `json:"refusal,omitempty"`                // set with VerdictRefused
	New              bool                   `json:"-"`                                // this call recorded the turn
}

// CallModelInput asks for the model call of a step.
type CallModelInput struct {
	TurnID   agent.TurnID    `json:"turn_id"`
	Step     int             `json:"step"`
	BudgetMS int64           `json:"budget_ms,omitempty"` // the time that the turn has left; 0: no limit
	StreamTo *agent.StreamTo `json:"stream_to,omitempty"`
	PausedMS int64           `json:"paused_ms,omitempty"` // how long the turn has waited for an unavailable provider so far
}

// CallToolInput asks for one tool call of a step. The arguments are in the stored model reply.
type CallToolInput struct {
	TurnID  agent.TurnID `json:"turn_id"`
	Step    int          `json:"step"`
	CallID  agent.CallID `json:"call_id"`
	Decided bool         `json:"decided,omitempty"` // a person was asked and may have edited the arguments
	Refused string       `json:"refused,omitempty"` // if set, the call does not run, and this is the reason for the model

	BudgetMS int64 `json:"budget_ms,omitempty"` // the time that the turn has left, if that is less than a tool may take

	// Later allows the result to be stored with the next step, if the call may be repeated. It is set for direct turns, whose next step runs in
	// the same process.
	Later bool `json:"-"`
}

// RequestApprovalInput names the calls of a step that wait for a person.
type RequestApprovalInput struct {
	TurnID   agent.TurnID    `json:"turn_id"`
	Step     int             `json:"step"`
	Kind     agent.WaitKind  `json:"kind,omitempty"` // what they wait for; empty for a person's decision
	Calls    []ApprovalCall  `json:"calls"`
	StreamTo *agent.StreamTo `json:"stream_to,omitempty"`
}

// ApprovalCall is one call that waits.
type ApprovalCall struct {
	ID   agent.CallID `json:"id"`
	Rule string       `json:"rule,omitempty"`
}

// RequestApprovalResult has the approvals in the order of the calls.
type RequestApprovalResult struct {
	Pending     []agent.PendingApproval `json:"pending"`
	ExpiresInMS int64                   `json:"expires_in_ms,omitempty"` // until the first one expires; 0 if none expires
}

// RetrieveInput asks for the preparation of a turn.
type RetrieveInput struct {
	TurnID   agent.TurnID `json:"turn_id"`
	BudgetMS int64        `json:"budget_ms,omitempty"` // as in CallModelInput
	PausedMS int64        `json:"paused_ms,omitempty"` // as in CallModelInput
}

// ExpireApprovalsInput names a step that waits for people.
type ExpireApprovalsInput struct {
	TurnID agent.TurnID `json:"turn_id"`
	Step   int          `json:"step"`
}

// ExpireApprovalsResult has the verdicts of the expired approvals, and the time until the next one expires.
type ExpireApprovalsResult struct {
	Verdicts []agent.DecisionVerdict `json:"verdicts"`
	NextInMS int64                   `json:"next_in_ms,omitempty"` // 0 if no other approval expires
}

// LookForDecisionsInput names a step that waits for people, and the approvals for which the workflow has no decision yet.
type LookForDecisionsInput struct {
	TurnID    agent.TurnID `json:"turn_id"`
	Step      int          `json:"step"`
	Approvals []string     `json:"approvals"`
}

// LookForDecisionsResult has the stored decisions that the workflow has not received.
type LookForDecisionsResult struct {
	Verdicts  []agent.DecisionVerdict `json:"verdicts,omitempty"`
	Cancelled bool                    `json:"cancelled,omitempty"`  // the turn was cancelled
	NextInMS  int64                   `json:"next_in_ms,omitempty"` // until the next approval expires; 0 if no other approval expires
}

// BeginChildInput asks for the child turn of a call that delegates to another agent.
type BeginChildInput struct {
	TurnID agent.TurnID `json:"turn_id"`
	Step   int          `json:"step"`
	CallID agent.CallID `json:"call_id"`
	Limits agent.Limits `json:"limits"` // what the calling turn has left of its limits
}

// BeginChildResult names the child turn. Without a child, CallTool answers the call: with the refusal in Refused, or like any other call.
type BeginChildResult struct {
	Child   agent.TurnID `json:"child,omitempty"`
	Tenant  string       `json:"tenant,omitempty"`
	Refused string       `json:"refused,omitempty"`
}

// StoreChildInput says that the child of a call has ended.
type StoreChildInput struct {
	TurnID agent.TurnID `json:"turn_id"`
	Step   int          `json:"step"`
	CallID agent.CallID `json:"call_id"`
	Child  agent.TurnID `json:"child"`
}

// DecideInput is a decision about an approval of a turn.
type DecideInput struct {
	TurnID   agent.TurnID   `json:"turn_id"`
	Decision agent.Decision `json:"decision"`
}

// DecideResult is a verdict for the core, or a refusal for the person.
type DecideResult struct {
	Verdict   *agent.DecisionVerdict `json:"verdict,omitempty"`
	Refusal   *agent.Failure         `json:"refusal,omitempty"`
	Stands    *agent.DecisionVerdict `json:"stands,omitempty"`    // the earlier decision, if that is why this one was refused
	Elsewhere bool                   `json:"elsewhere,omitempty"` // the verdict is about a child turn's call, and not for this turn's core
}

// ProvideInput is the result of a client-side tool. Without a result and an error it asks for the verdict of the stored result.
type ProvideInput struct {
	TurnID   agent.TurnID         `json:"turn_id"`
	Provided agent.ProvidedResult `json:"provided"`
}

// CancelTurnInput asks to cancel a turn.
type CancelTurnInput struct {
	TurnID agent.TurnID        `json:"turn_id"`
	Cancel agent.CancelRequest `json:"cancel"`
}

// StoreTurnInput says how a turn ended.
type StoreTurnInput struct {
	TurnID    agent.TurnID     `json:"turn_id"`
	Status    agent.TurnStatus `json:"status"`
	Stop      agent.StopReason `json:"stop"`
	Failure   *agent.Failure   `json:"failure,omitempty"`
	Closing   string           `json:"closing,omitempty"` // if set, the answer in place of a model reply
	Step      int              `json:"step,omitempty"`    // the step of the closing answer
	Usage     agent.Usage      `json:"usage"`
	Model     string           `json:"model,omitempty"`
	ElapsedMS int64            `json:"elapsed_ms"`
}

// QueueMessageInput is a message for a session, sent to one of its workflows: a running turn or the conversation.
type QueueMessageInput struct {
	TurnID    agent.TurnID            `json:"turn_id"` // the id of the turn to make from the message
	Agent     string                  `json:"agent,omitempty"`
	SessionID agent.SessionID         `json:"session_id"`
	Context   agent.InvocationContext `json:"context,omitzero"`
	Message   Message                 `json:"message"`
	Start     bool                    `json:"start,omitempty"` // whether to start the turn as well; otherwise the caller does
}

// Message is the input of the update and the signal "message".
type Message struct {
	Message string       `json:"message"`
	OnBusy  agent.OnBusy `json:"on_busy,omitempty"`
}

// QueueMessageResult is the message's turn with its place in the queue, or the reason why there is none.
type QueueMessageResult struct {
	TurnID        agent.TurnID   `json:"turn_id"`
	Position      int            `json:"position"`
	Refusal       *agent.Failure `json:"refusal,omitempty"`
	ContinueAsNew int            `json:"continue_as_new_events,omitempty"` // the number of history events after which a conversation continues as new

	SearchAttributes bool `json:"search_attributes,omitempty"` // the namespace has the search attributes
}

// StoreTurnResult is the part of a turn's result that the workflow does not know; the workflow adds the rest. It is small because the history holds it
// and the workflow's result.
type StoreTurnResult struct {
	Output        string                 `json:"output"`
	Plain         bool                   `json:"plain,omitempty"` // Blocks is left out: it is Output as one text block
	Blocks        []agent.Block          `json:"blocks,omitempty"`
	Structured    bool                   `json:"structured,omitempty"` // Output is the structured answer
	ResultRef     string                 `json:"result_ref"`
	ResultPreview json.RawMessage        `json:"result_preview,omitempty"`
	ToolCalls     []agent.ToolCallNote   `json:"tool_calls,omitempty"`
	Final         *agent.AgentStepOutput `json:"final,omitempty"` // the whole result, if something else ended the turn first
}
