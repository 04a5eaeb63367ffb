package agent

import (
	"encoding/json"
	"time"
)

// TurnRecord is the part of a turn that is stored when the turn begins.
type TurnRecord struct {
	TurnID     TurnID
	WorkflowID string // of the turn's workflow; turn/<id> unless it was started by hand
	Tenant     string
	SessionID  SessionID
	Binding
	Channel    string
	UserID     string
	OnBusy     OnBusy
	History    History
	Input      []Message
	Context    InvocationContext
	QueueLimit int // maximum number of waiting turns in the session

	OutputSchema json.RawMessage // of the request; empty: that of the plan
	Mode         Mode            // empty: durable
	Fallback     Fallback        // why the turn is not direct although it should be
	LeaseUntil   time.Time       // direct: if the lease is not renewed by then, the turn's process is considered dead
	Parent       TurnID          // the turn that delegated to this turn; may be empty
	Limits       *Limits         // of the request
	ClientTools  []ClientTool    // of the request
	Approvals    ApprovalPolicy  // of the request
	Rerun        *Rerun          // the turn that this new turn reruns; its session begins with copies of that turn's session
	StartByID    bool            // its workflow is started after the turn is recorded, by any process that finds that it does not run
	Stream       StreamClaim     // the owner of the stream, if the turn is ready at once

	RefuseWaiting bool // refuse a new turn, with BeginWaiting, instead of queueing it behind a turn that waits for a person
}

// Binding is the agent and plan of a turn. A turn keeps them even if the catalog changes.
type Binding struct {
	Agent      string
	InstanceID string
	PlanHash   string
	Model      string         // the profile that the request or a route has chosen; empty: the default of the plan
	Route      *RouteDecision // why the turn has its agent; nil for turns of earlier releases
	Trace      string         // W3C traceparent of the request; may be empty
}

// BeginAnswer is the result of recording a turn in its session.
type BeginAnswer string

// The answers. BeginBusy is for [OnBusyReject], BeginWaiting for TurnRecord.RefuseWaiting, BeginOverflow for a full queue: nothing is recorded for them.
const (
	BeginReady     BeginAnswer = "ready"
	BeginBehind    BeginAnswer = "behind"
	BeginDuplicate BeginAnswer = "duplicate"
	BeginBusy      BeginAnswer = "busy"
	BeginWaiting   BeginAnswer = "waiting"
	BeginOverflow  BeginAnswer = "overflow"
)

// Begun is the result of recording a [TurnRecord].
type Begun struct {
	Answer         BeginAnswer
	New            bool      // this call recorded the turn
	Claimed        bool      // this call made the claimant the owner of the stream
	Cursor         int64     // ready: the end of the transcript that this turn sees, including its own input
	Holder         TurnID    // behind, busy, waiting: the turn that holds the session
	HolderWorkflow string    // the workflow ID of Holder
	HolderSince    time.Time // when Holder began to hold the session
	HolderMode     Mode      // of Holder; a direct turn has HolderLease
	HolderLease    time.Time
	Position       int              // behind: the position in the queue, from 1
	Output         *AgentStepOutput // duplicate: the stored result
	Binding                         // ready, behind: of the stored record
	StartedAt      time.Time        // when the turn was accepted
}

// StepKey identifies a model call or a tool call of a turn.
type StepKey struct {
	TurnID TurnID
	Step   int    // 1 for the first model call
	CallID CallID // empty for a model call
}

// ModelStep is a finished model call.
type ModelStep struct {
	Key     StepKey
	Fence   Fence
	Tenant  string
	Blocks  []Block
	Verdict ModelVerdict
	Calls   []UsageEntry // one for each epoch that reached the provider

	// Feedback is a user message that follows the reply and tells the model why it is called again. It is part of the prompt.
	Feedback string

	Events UnstoredEvents // stored with the step; nil if they are already stored
}

// UsageEntry is a row of the usage ledger. Turn, step and epoch identify it, so that it counts once.
type UsageEntry struct {
	Epoch Epoch
	Model string
	Usage Usage
}

// ToolStep is a finished tool call.
type ToolStep struct {
	Key        StepKey
	Fence      Fence
	Tenant     string
	Name       string
	Args       json.RawMessage
	Result     Block           // the tool_result block
	Data       json.RawMessage // inline dataset; nil if there is none or it is in the blob store
	Preview    json.RawMessage
	Dataset    *Dataset // dataset in the blob store; may be nil
	CacheHit   bool
	Verdict    ToolVerdict
	DurationMS int64
	Events     UnstoredEvents // stored with the step; nil if they are already stored
	Later      bool           // may be stored with the next step or the end of the turn; false for a call with effects
}

// PromptQuery selects the messages of a model call's prompt.
type PromptQuery struct {
	TurnID    TurnID
	Tenant    string
	SessionID SessionID
	Cursor    int64
	History   History
	Step      int // the prompt has the steps before this step
	// Aside is a text block to append to the last input message of the turn. It is not stored. It may be empty.
	Aside string
}

// FinishRecord ends a turn.
type FinishRecord struct {
	TurnID    TurnID
	Tenant    string
	SessionID SessionID
	Output    AgentStepOutput // truncated for the API; the store sets ResultRef
	Answer    json.RawMessage // {output, structured, blocks, data_ref} of a result with rows; nil if Result or the blob is that document
	Result    json.RawMessage // the rows, or the document of a result without rows; nil if CASID refers to it
	CASID     string          // sha256:… of a result that is too large for the row and is in the blob store
	S3Ref     string          // s3://… of CASID, if the blob store is an S3 bucket
	JobID     string          // of the orchestrator; default: the turn ID as a UUID
	JobError  *Failure        // why the job failed although the turn completed; then the row is failed; may be nil
	RunID     string
	NodeID    string
	CacheHit  bool        // a tool was answered from the result cache
	Events    []Event     // appended last, in the same transaction; the last event is terminal
	Stream    *HeldStream // the stream of Events; nil: the store looks it up

	// Models and Tools are the stored steps of the turn, if the caller has them.
	Models []ModelStep
	Tools  []ToolStep
}

// Finished is the result of a [FinishRecord].
type Finished struct {
	Stale        bool            // nothing was stored, because the steps of the record are out of date
	Output       AgentStepOutput // the stored output, which may be that of an earlier call
	Next         TurnID          // the next turn of the session; empty if none waits
	NextWorkflow string          // the workflow ID of Next
	Logged       bool            // the events are already in the log
	Ended        bool            // this call ended the turn
	Events       []Event         // the events of the record with their stored indexes
}

// TurnState is the stored state of a turn.
type TurnState struct {
	Record    TurnRecord
	State     string    // queued, running, or the final TurnStatus
	Cursor    int64     // as in [Begun]; 0 while queued
	Lease     time.Time // of a direct turn; zero for a durable turn
	StartedAt time.Time
	Output    *AgentStepOutput // nil until the turn has ended
	RerunOf   TurnID           // as in [Rerun], like FromStep; may be empty
	FromStep  int
}

// The states of a turn before its end. A running turn is waiting while it, or a turn that it has delegated to, has an open approval or waits for the
// result of a client-side tool.
const (
	StateQueued  = "queued"
	StateRunning = "running"
	StateWaiting = "waiting"
)
