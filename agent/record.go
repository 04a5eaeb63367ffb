package agent

import (
	"encoding/json"
	"time"
)

// TurnRecord is the part of a turn that the store has from its beginning.
type TurnRecord struct {
	TurnID     TurnID
	WorkflowID string // of the workflow that drives it; turn/<id> unless it was started by hand
	Tenant     string
	SessionID  SessionID
	Binding
	Channel    string
	UserID     string
	OnBusy     OnBusy
	History    History
	Input      []Message
	Context    InvocationContext
	QueueLimit int // most turns waiting in one session

	OutputSchema json.RawMessage // the request's; the plan's stands where it is empty
	Mode         Mode            // empty: durable
	Fallback     Fallback        // why it is not direct, although it was to be
	LeaseUntil   time.Time       // direct: a holder that is silent for longer is gone
	Parent       TurnID          // of a child turn: who asked
	Limits       *Limits         // the request's
	ClientTools  []ClientTool    // the request's
	Approvals    ApprovalPolicy  // the request's
	Rerun        *Rerun          // of a new turn: that it reruns another one; its session then begins with copies
	StartByID    bool            // its workflow is started after it is recorded, by whoever finds that it does not run
	Stream       StreamClaim     // for a turn that is ready at once; whose its stream becomes

	RefuseWaiting bool // a new turn is not queued behind one that waits for a person: the answer is BeginWaiting
}

// Binding is the plan and agent that a turn uses from its beginning, even if the catalog changes.
type Binding struct {
	Agent      string
	InstanceID string
	PlanHash   string
	Model      string         // profile asked for, by the request or by a route; empty: the plan's default
	Route      *RouteDecision // how the turn came to its agent; nil for turns from before
	Trace      string         // W3C traceparent of what asked for the turn; empty: nobody named one
}

// BeginAnswer is the place of a turn in its session.
type BeginAnswer string

// The answers. Busy is for OnBusyReject, Waiting for RefuseWaiting, Overflow for a full queue: then nothing is recorded.
const (
	BeginReady     BeginAnswer = "ready"
	BeginBehind    BeginAnswer = "behind"
	BeginDuplicate BeginAnswer = "duplicate"
	BeginBusy      BeginAnswer = "busy"
	BeginWaiting   BeginAnswer = "waiting"
	BeginOverflow  BeginAnswer = "overflow"
)

// Begun answers a TurnRecord.
type Begun struct {
	Answer         BeginAnswer
	New            bool      // this call recorded the turn
	Claimed        bool      // and made its stream the claimant's
	Cursor         int64     // ready: the transcript's position that this turn sees, its own input included
	Holder         TurnID    // behind, busy: who holds the session
	HolderWorkflow string    // its workflow id
	HolderSince    time.Time // when it became the holder
	HolderMode     Mode      // direct: HolderLease says how long it is believed to live
	HolderLease    time.Time
	Position       int              // behind: 1 for the next in line
	Output         *AgentStepOutput // duplicate: the stored result
	Binding                         // ready, behind: as recorded the first time
	StartedAt      time.Time        // when the turn was first seen
}

// StepKey names one entry of a turn's steps.
type StepKey struct {
	TurnID TurnID
	Step   int    // 1 for the first model call
	CallID CallID // empty for the model's reply
}

// ModelStep is a finished model call.
type ModelStep struct {
	Key     StepKey
	Fence   Fence
	Tenant  string
	Blocks  []Block
	Verdict ModelVerdict
	Calls   []UsageEntry // one per epoch that reached the provider, this one included

	// Feedback is what the model is told behind this reply, as a user's message: why it is asked again. Prompt shows it.
	Feedback string

	Events UnstoredEvents // stored with the step; nil: they are stored already
}

// UsageEntry is one row of the ledger, keyed by turn, step and epoch so that it counts once.
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
	Data       json.RawMessage // inline dataset; nil when none or in the blob store
	Preview    json.RawMessage
	Dataset    *Dataset // in the blob store; nil when there is none
	CacheHit   bool
	Verdict    ToolVerdict
	DurationMS int64
	Events     UnstoredEvents // stored with the step; nil: they are stored already
	Later      bool           // may be stored with the next step of the turn, or its end; not for a call with effects
}

// PromptQuery asks for the messages a model call sees.
type PromptQuery struct {
	TurnID    TurnID
	Tenant    string
	SessionID SessionID
	Cursor    int64
	History   History
	Step      int // steps before this one are included
	// Aside is appended, as a text block, to the last message of the turn's own input; empty: nothing is. It is not stored.
	Aside string
}

// FinishRecord ends a turn.
type FinishRecord struct {
	TurnID    TurnID
	Tenant    string
	SessionID SessionID
	Output    AgentStepOutput // capped for the API; ResultRef is filled by the store
	Answer    json.RawMessage // {output, structured, blocks, data_ref} of a result that has rows; nil: Result or the content is that document
	Result    json.RawMessage // the rows, or the document of a result without rows; nil when CASID names it
	CASID     string          // sha256:… when Result is too large for the row and in the blob store
	S3Ref     string          // s3://… where CASID's object is, if the blob store is a bucket of S3
	JobID     string          // of the orchestrator; the turn id's UUID form when there is none
	JobError  *Failure        // why the job's work failed although the turn completed: its row is failed then; nil otherwise
	RunID     string
	NodeID    string
	CacheHit  bool        // a tool answered out of the result cache
	Events    []Event     // appended last in the same transaction; the last is terminal
	Stream    *HeldStream // where Events go; nil: the store finds out

	// Models and Tools are the turn's steps that the caller knows, if it knows any. They are stored ones.
	Models []ModelStep
	Tools  []ToolStep
}

// Finished answers a FinishRecord.
type Finished struct {
	Stale        bool            // nothing was stored: the turn has other steps than the record; read them again
	Output       AgentStepOutput // as stored: the first writer's, when somebody else had finished the turn
	Next         TurnID          // the turn that now holds the session; empty when none waits
	NextWorkflow string          // its workflow id
	Logged       bool            // the events are in the log already
	Ended        bool            // it was this call that ended the turn
	Events       []Event         // the record's, as they ended its Stream
}

// TurnState is what the store knows of a turn.
type TurnState struct {
	Record    TurnRecord
	State     string    // queued, running, or the final TurnStatus
	Cursor    int64     // as in Begun; 0 while queued
	Lease     time.Time // of a direct turn; zero: durable
	StartedAt time.Time
	Output    *AgentStepOutput // once finished
	RerunOf   TurnID           // as in [Rerun], and FromStep; empty: it reruns no turn
	FromStep  int
}

// The states of a turn before its end. A turn that is stored as running is waiting while an approval, or a result that the caller provides,
// is open in it or in a turn below it.
const (
	StateQueued  = "queued"
	StateRunning = "running"
	StateWaiting = "waiting"
)
