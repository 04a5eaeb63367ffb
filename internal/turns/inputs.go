package turns

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// TurnRef holds a workflow's references to its turn. Activities get the id alone and look up the rest, so that history does not repeat it with
// every call.
type TurnRef struct {
	TurnID     agent.TurnID    `json:"turn_id"`
	Tenant     string          `json:"tenant"`
	SessionID  agent.SessionID `json:"session_id"`
	Agent      string          `json:"agent"`
	InstanceID string          `json:"instance_id"`
	PlanHash   string          `json:"plan_hash"`
	Delegated  bool            `json:"delegated,omitempty"` // another turn waits for it
	Summary    string          `json:"-"`                   // for Temporal's list of workflows; empty: the session
}

// BeginTurnInput names the run that begins a turn. The request is an argument beside it.
type BeginTurnInput struct {
	WorkflowID string         `json:"workflow_id"`
	Parent     agent.TurnID   `json:"-"`      // of a child turn
	Trace      string         `json:"-"`      // likewise: where it belongs
	Direct     bool           `json:"-"`      // the caller drives the turn itself and renews its lease
	Fallback   agent.Fallback `json:"-"`      // why the turn is not direct, although it was to be
	StartByID  bool           `json:"-"`      // the caller starts the workflow afterwards; if it cannot, upkeep does
	Checked    *Checked       `json:"-"`      // what Check said of the request; nil: it is still to be checked
	RunID      string         `json:"run_id"` // the first of the chain
	ByID       bool           `json:"-"`      // the request names a turn that was recorded before
	Again      bool           `json:"again,omitempty"`
	TurnID     agent.TurnID   `json:"turn_id,omitempty"` // with Again: the turn that was recorded before
	// CoreVersion is the newest core that the asking workflow knows; 0: it is older than this field, and needs the plan in the answer.
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

// BeginTurnResult is where the turn stands and what it is bound to.
type BeginTurnResult struct {
	Verdict Verdict `json:"verdict"`
	Turn    TurnRef `json:"turn"`
	// LoadPlanResult is given to direct turns and to workflows before core version 3, which do not run LoadPlan.
	LoadPlanResult

	CoreVersion      int                    `json:"core_version"`
	SearchAttributes bool                   `json:"search_attributes,omitempty"` // the namespace knows those of every turn
	StatusAttributes bool                   `json:"status_attributes,omitempty"` // the namespace knows those of turns that waited or failed
	FailsWorkflow    bool                   `json:"fails_workflow,omitempty"`    // the workflow fails if the turn does
	StreamTo         *agent.StreamTo        `json:"stream_to,omitempty"`
	ContinueAsNew    int                    `json:"continue_as_new_events,omitempty"` // 0: when the server suggests it
	Route            string                 `json:"route,omitempty"`                  // how the turn came to its agent, for the Web UI
	Holder           agent.TurnID           `json:"holder,omitempty"`                 // behind
	Position         int                    `json:"position,omitempty"`               // behind
	Cancelled        bool                   `json:"cancelled,omitempty"`              // behind, asked again: somebody cancelled the turn meanwhile
	Output           *agent.AgentStepOutput `json:"output,omitempty"`                 // duplicate
	Refusal          *agent.Failure         `json:"refusal,omitempty"`                // refused
	New              bool                   `json:"-"`                                // this call recorded the turn
}

// CallModelInput asks for the model call of a step.
type CallModelInput struct {
	TurnID   agent.TurnID    `json:"turn_id"`
	Step     int             `json:"step"`
	BudgetMS int64           `json:"budget_ms,omitempty"` // the turn's time that is left; 0: no bound
	StreamTo *agent.StreamTo `json:"stream_to,omitempty"`
	PausedMS int64           `json:"paused_ms,omitempty"` // how long the turn has waited for a provider that was away
}

// CallToolInput asks for one tool call of a step; the arguments are with the stored model reply.
type CallToolInput struct {
	TurnID  agent.TurnID `json:"turn_id"`
	Step    int          `json:"step"`
	CallID  agent.CallID `json:"call_id"`
	Decided bool         `json:"decided,omitempty"` // a person was asked: the arguments may have been edited
	Refused string       `json:"refused,omitempty"` // the call does not run: what the model is told

	BudgetMS int64 `json:"budget_ms,omitempty"` // the turn's time that is left, where it is less than a tool may take

	// Later lets the result be stored with the next step if the call may be made again: in a direct turn, whose next step is in this process too.
	Later bool `json:"-"`
}

// RequestApprovalInput names the calls of a step that wait for a person.
type RequestApprovalInput struct {
	TurnID   agent.TurnID    `json:"turn_id"`
	Step     int             `json:"step"`
	Kind     agent.WaitKind  `json:"kind,omitempty"` // what they wait for instead
	Calls    []ApprovalCall  `json:"calls"`
	StreamTo *agent.StreamTo `json:"stream_to,omitempty"`
}

// ApprovalCall is one call that waits.
type ApprovalCall struct {
	ID   agent.CallID `json:"id"`
	Rule string       `json:"rule,omitempty"`
}

// RequestApprovalResult gives the approvals in the order of the calls.
type RequestApprovalResult struct {
	Pending     []agent.PendingApproval `json:"pending"`
	ExpiresInMS int64                   `json:"expires_in_ms,omitempty"` // until the first of them expires; 0: none does
}

// RetrieveInput asks for the preparation of a turn.
type RetrieveInput struct {
	TurnID   agent.TurnID `json:"turn_id"`
	BudgetMS int64        `json:"budget_ms,omitempty"` // as for CallModel
	PausedMS int64        `json:"paused_ms,omitempty"` // likewise
}

// ExpireApprovalsInput names a step that waits for people.
type ExpireApprovalsInput struct {
	TurnID agent.TurnID `json:"turn_id"`
	Step   int          `json:"step"`
}

// ExpireApprovalsResult says what expired, and when to ask again.
type ExpireApprovalsResult struct {
	Verdicts []agent.DecisionVerdict `json:"verdicts"`
	NextInMS int64                   `json:"next_in_ms,omitempty"` // 0: none is left that expires
}

// LookForDecisionsInput names a step that waits for people, and the approvals that the workflow has no decision of.
type LookForDecisionsInput struct {
	TurnID    agent.TurnID `json:"turn_id"`
	Step      int          `json:"step"`
	Approvals []string     `json:"approvals"`
}

// LookForDecisionsResult is what the store has that the workflow was not told.
type LookForDecisionsResult struct {
	Verdicts  []agent.DecisionVerdict `json:"verdicts,omitempty"`
	Cancelled bool                    `json:"cancelled,omitempty"`  // somebody cancelled the turn
	NextInMS  int64                   `json:"next_in_ms,omitempty"` // until the next approval expires; 0: none is left that expires
}

// BeginChildInput asks for the turn that a call of another agent is.
type BeginChildInput struct {
	TurnID agent.TurnID `json:"turn_id"`
	Step   int          `json:"step"`
	CallID agent.CallID `json:"call_id"`
	Limits agent.Limits `json:"limits"` // what the asking turn can spare
}

// BeginChildResult names the child; none when the call has to be answered otherwise: with Refused, or as any other.
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

// DecideInput is a decision to judge.
type DecideInput struct {
	TurnID   agent.TurnID   `json:"turn_id"`
	Decision agent.Decision `json:"decision"`
}

// DecideResult is the judgement: a verdict for the core, or a refusal for the person.
type DecideResult struct {
	Verdict   *agent.DecisionVerdict `json:"verdict,omitempty"`
	Refusal   *agent.Failure         `json:"refusal,omitempty"`
	Stands    *agent.DecisionVerdict `json:"stands,omitempty"`    // with a refusal: what was decided before
	Elsewhere bool                   `json:"elsewhere,omitempty"` // it was a child turn's call: no verdict for this turn's core
}

// ProvideInput is the result of a client-side tool. One without result and error asks for the verdict of what was stored before.
type ProvideInput struct {
	TurnID   agent.TurnID         `json:"turn_id"`
	Provided agent.ProvidedResult `json:"provided"`
}

// CancelTurnInput marks a turn's stream.
type CancelTurnInput struct {
	TurnID agent.TurnID        `json:"turn_id"`
	Cancel agent.CancelRequest `json:"cancel"`
}

// StoreTurnInput is how a turn ended.
type StoreTurnInput struct {
	TurnID    agent.TurnID     `json:"turn_id"`
	Status    agent.TurnStatus `json:"status"`
	Stop      agent.StopReason `json:"stop"`
	Failure   *agent.Failure   `json:"failure,omitempty"`
	Closing   string           `json:"closing,omitempty"` // the last words, in the model's place
	Step      int              `json:"step,omitempty"`    // that the closing words are, with Closing
	Usage     agent.Usage      `json:"usage"`
	Model     string           `json:"model,omitempty"`
	ElapsedMS int64            `json:"elapsed_ms"`
}

// QueueMessageInput is a message for a session, sent to one of its workflows: a running turn or the conversation.
type QueueMessageInput struct {
	TurnID    agent.TurnID            `json:"turn_id"` // of the turn that the message becomes
	Agent     string                  `json:"agent,omitempty"`
	SessionID agent.SessionID         `json:"session_id"`
	Context   agent.InvocationContext `json:"context,omitzero"`
	Message   Message                 `json:"message"`
	Start     bool                    `json:"start,omitempty"` // start the turn too; else the caller does
}

// Message is the input of the update and the signal "message".
type Message struct {
	Message string       `json:"message"`
	OnBusy  agent.OnBusy `json:"on_busy,omitempty"`
}

// QueueMessageResult says where the message's turn stands, or why there is none.
type QueueMessageResult struct {
	TurnID        agent.TurnID   `json:"turn_id"`
	Position      int            `json:"position"`
	Refusal       *agent.Failure `json:"refusal,omitempty"`
	ContinueAsNew int            `json:"continue_as_new_events,omitempty"` // after how many events a conversation continues

	SearchAttributes bool `json:"search_attributes,omitempty"` // the namespace knows ours
}

// StoreTurnResult is the part of a turn's result that the workflow does not know; it composes the rest. It is small because history holds the
// result again.
type StoreTurnResult struct {
	Output        string                 `json:"output"`
	Plain         bool                   `json:"plain,omitempty"` // the blocks are the output as one text block
	Blocks        []agent.Block          `json:"blocks,omitempty"`
	Structured    bool                   `json:"structured,omitempty"` // the output, as it stands here, is the structured answer
	ResultRef     string                 `json:"result_ref"`
	ResultPreview json.RawMessage        `json:"result_preview,omitempty"`
	ToolCalls     []agent.ToolCallNote   `json:"tool_calls,omitempty"`
	Final         *agent.AgentStepOutput `json:"final,omitempty"` // somebody else had ended the turn: their word
}
