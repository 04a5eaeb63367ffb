package turns

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Registry knows the agents. Plans are immutable and found by hash for as long as a turn may need them.
type Registry interface {
	// Choose decides which agent answers a request: the one that it names, or the one that the tenant's rules choose.
	// [agent.CodeNotFound] with Field "agent" when there is none.
	Choose(ctx context.Context, c agent.RouteContext) (agent.RouteDecision, error)
	// Routed counts a decision, once a turn.
	Routed(d *agent.RouteDecision)
	// Resolve returns the current plan of an agent and its hash. An unknown agent is [agent.CodeNotFound] with Field "agent".
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
	// ReplacePrompt stores a plan with another system prompt, and returns it with its hash. [agent.CodeInvalid] with Field "prompt" if the plan has
	// no single one, or would be too large.
	ReplacePrompt(ctx context.Context, plan agent.Plan, prompt string) (agent.Plan, string, error)
	// Plan returns the plan of a hash, also when it is no longer current.
	Plan(ctx context.Context, hash string) (agent.Plan, error)
}

// Models finds the model behind a profile of a plan.
type Models interface {
	Model(ctx context.Context, m agent.PlanModel) (agent.Model, error)
}

// Tools finds a granted tool by toolkit and exact name.
type Tools interface {
	// Granted returns the code of a granted tool: of its toolkit, or what a dynamic toolkit finds for the grant.
	Granted(ctx context.Context, tenant string, t *agent.PlanTool) (agent.Tool, error)
	// List asks a dynamic toolkit which tools it has for a source, in an order that does not change by itself.
	List(ctx context.Context, tenant string, s *agent.PlanSource) ([]agent.ListedTool, error)
}

// TurnStore keeps what a turn leaves. Every write is idempotent on its key and atomic.
type TurnStore interface {
	TurnRecords
	StepStore
	Ledger
	ApprovalStore
	SessionMemory
	Leases
}

// TurnRecords keeps turns, the queues of their sessions, transcripts and results.
type TurnRecords interface {
	// Begin records the turn (once, by TurnID), appends it to its session's queue and returns where it stands. A waiting turn calls it again.
	// The turn that becomes ready has its input appended to the transcript in the same transaction.
	Begin(ctx context.Context, t agent.TurnRecord) (agent.Begun, error)
	// Turn returns a turn by its id, or [agent.CodeNotFound]. The caller checks the record's Tenant.
	Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error)
	// ChildrenAtWork returns the child turns of a turn that have not ended, and theirs.
	ChildrenAtWork(ctx context.Context, id agent.TurnID) ([]agent.TurnID, error)
	// Finish ends the turn in one transaction: steps to transcript (a call without a result gets one that says the turn ended first),
	// result, session release (the next turn in line becomes the holder), events. The first to finish a turn wins.
	Finish(ctx context.Context, f agent.FinishRecord) (agent.Finished, error)
}

// Ledger keeps what the model calls of a turn cost. SaveModelStep adds the rows of calls that succeeded.
type Ledger interface {
	// ChargeUsage adds ledger rows of model calls that failed after they were billed.
	ChargeUsage(ctx context.Context, key agent.StepKey, tenant string, rows []agent.UsageEntry) error
	// BilledUsage adds up the ledger of a turn and of its child turns, and names the model of the latest entry.
	BilledUsage(ctx context.Context, id agent.TurnID) (u agent.Usage, model string, err error)
}

// StepStore keeps the steps of a turn.
type StepStore interface {
	// Prompt returns the messages that a model call sees: transcript up to the cursor (or, with HistoryFresh, the turn's own
	// input), then the turn's earlier steps. Tool results follow the message that asked for them, in the order of its calls.
	// stored is the reply of the query's own step, nil if there is none yet.
	Prompt(ctx context.Context, q agent.PromptQuery) (messages []agent.Message, stored *agent.ModelStep, err error)
	// ModelStep returns the reply of a step, ToolStep the result of a call; ok is false if there is none. CallSteps returns both, nil for what there
	// is not; a result that another process has stored may be missing.
	ModelStep(ctx context.Context, key agent.StepKey) (s agent.ModelStep, ok bool, err error)
	ToolStep(ctx context.Context, key agent.StepKey) (s agent.ToolStep, ok bool, err error)
	CallSteps(ctx context.Context, key agent.StepKey) (reply *agent.ModelStep, result *agent.ToolStep, err error)
	// SaveModelStep stores a finished model call with its ledger rows, SaveToolStep a finished tool call. A writer whose epoch is
	// not the producer's newest gets [agent.ErrFenced]. The first complete step stands: saving again changes nothing. Events that come with
	// a step are stored in its transaction, and told whether it was committed; [agent.ErrEventsNotStored] if their log has to store them first.
	// A step of which Later is true may be lost with the process until the turn's next step is stored, or its end, or StoreLater is called.
	SaveModelStep(ctx context.Context, s agent.ModelStep) error
	SaveToolStep(ctx context.Context, s agent.ToolStep) error
	StoreLater(ctx context.Context, id agent.TurnID) error
	// StepMessages returns the steps of a turn before a step as a prompt has them, and the last step that a rerun can begin with.
	StepMessages(ctx context.Context, id agent.TurnID, before int) (messages []agent.Message, last int, err error)
	// Steps returns all finished steps of a turn in order.
	Steps(ctx context.Context, id agent.TurnID) ([]agent.ModelStep, []agent.ToolStep, error)
}

// ApprovalStore keeps approvals and the calls of client-side tools.
type ApprovalStore interface {
	// SaveApproval records that a call waits for a person, once; Approvals lists those of a turn.
	SaveApproval(ctx context.Context, tenant string, a agent.Approval) error
	Approvals(ctx context.Context, id agent.TurnID) ([]agent.Approval, error)
	// ResolveApproval stores a decision. Deciding twice is [agent.CodeConflict] unless it is the same decision by the same
	// person, which is accepted silently; an unknown approval is [agent.CodeNotFound]; one of a finished turn [agent.CodeConflict].
	ResolveApproval(ctx context.Context, id agent.TurnID, d agent.Decision) (agent.Approval, error)
	// Approval returns one by its id; one of another tenant is [agent.CodeNotFound] with Field "approval_id".
	Approval(ctx context.Context, tenant, id string) (agent.Approval, error)
	// ExpireApprovals decides, as each one's OnExpiry says, the undecided approvals of a step whose time is over, by [agent.ExpiredBy],
	// and says when the next of the step's is due, 0 for none. Those that had expired before are among them: asked twice, it says the same.
	ExpireApprovals(ctx context.Context, id agent.TurnID, step int) (expired []agent.Approval, next time.Duration, err error)
	// PendingBelow lists the undecided approvals of a turn and of its child turns, by step.
	PendingBelow(ctx context.Context, id agent.TurnID) ([]agent.Approval, error)
	// Remembered returns the decisions of a session that stand for calls of these keys.
	Remembered(ctx context.Context, tenant string, s agent.SessionID, keys []agent.RememberKey) ([]agent.Remembered, error)
}

// SessionMemory keeps what a session knows besides messages and steps.
type SessionMemory interface {
	// SavePrepared keeps what the preparation of a turn found out, with its ledger rows as step 0; the first stands. Prepared returns it.
	SavePrepared(ctx context.Context, p agent.Prepared) error
	Prepared(ctx context.Context, id agent.TurnID) (p agent.Prepared, ok bool, err error)
	// SaveTurnTools keeps what a turn's dynamic toolkits had when it began; the first stands, and is answered. TurnTools returns it.
	SaveTurnTools(ctx context.Context, id agent.TurnID, t agent.TurnTools) (agent.TurnTools, error)
	TurnTools(ctx context.Context, id agent.TurnID) (t agent.TurnTools, ok bool, err error)
	// CallCounts counts the model replies and the tool calls of the session's finished turns, tools by name.
	CallCounts(ctx context.Context, tenant string, s agent.SessionID) (agent.CallCounts, error)
	// Note and SetNote keep small JSON with a session; nil when there is none.
	Note(ctx context.Context, tenant string, s agent.SessionID, name string) (json.RawMessage, error)
	// Datasets returns the newest datasets that earlier finished turns of a turn's session left, at most n, the newest first.
	Datasets(ctx context.Context, tenant string, s agent.SessionID, before agent.TurnID, n int) ([]agent.SessionDataset, error)
	SetNote(ctx context.Context, tenant string, s agent.SessionID, name string, body json.RawMessage) error
}

// Leases keeps the processes that drive direct turns.
type Leases interface {
	// Renew lengthens the leases of direct turns and returns those that still hold their sessions. HandOver makes one a durable turn, without
	// a lease.
	Renew(ctx context.Context, ids []agent.TurnID, until time.Time) (held []agent.TurnID, err error)
	HandOver(ctx context.Context, id agent.TurnID, workflowID string, why agent.Fallback) error
}

// Schemas checks documents against JSON Schemas.
type Schemas interface {
	// CheckSchema says whether a schema can be used for a structured answer: an object at its top.
	CheckSchema(path string, schema json.RawMessage) error
	// Check returns nil or an [agent.CodeInvalid] error whose words a model or a person can act on; path begins its Field.
	Check(path string, schema, document json.RawMessage) error
}

// Knowledge searches collections.
type Knowledge interface {
	Search(ctx context.Context, q agent.KnowledgeQuery) ([]agent.Passage, error)
}

// EventLog is the log of every turn's events (docs/design/design.md, "The event log"). StreamID is the turn id.
type EventLog interface {
	StreamOwner
	ProducerLog

	// Cancel marks the stream: every later Append and Touch answers Cancelled. Idempotent; a closed stream stays as it is.
	Cancel(ctx context.Context, streamID string) error
	// Close appends events of which the last is terminal; the first to close wins, and closing again does nothing.
	Close(ctx context.Context, streamID string, events []agent.Event) error
	// Follow yields the events after an index, in order, waiting for new ones, and ends after the terminal event. A stream that does
	// not exist yet is one without events. [agent.ErrGap] when events after the index have expired. A slow consumer stalls only itself.
	// Each time before it waits it calls [agent.Waiting].
	Follow(ctx context.Context, streamID string, after int64) iter.Seq2[agent.Event, error]
	// Tail says where a stream stands without reading it.
	Tail(ctx context.Context, streamID string) (agent.StreamTail, error)
}

// StreamOwner begins and ends streams within the transactions that begin and end their turns.
type StreamOwner interface {
	// Claim returns what the transaction that begins a turn has to write so that this process owns the turn's stream from its beginning.
	// Whoever has committed that calls Claimed.
	Claim() agent.StreamClaim
	Claimed(streamID string)
	// Hold stores what was appended to the stream, and blocks further events until LetGo. It is for a caller that ends the stream in its own
	// transaction. If it returns nil, another process may still add events, so that transaction has to read the stream's position.
	Hold(ctx context.Context, streamID string) (*agent.HeldStream, error)
	// LetGo shows the events that have ended a stream; without any it was not ended, and goes on.
	LetGo(held *agent.HeldStream, events []agent.Event)
}

// ProducerLog takes the events of producers.
type ProducerLog interface {
	// Begin makes its caller the only valid instance of a producer: the epoch is one higher than the last. Above 1 that is stored when Begin
	// returns: what an earlier epoch's process has not stored by then it never will. [agent.ErrStreamClosed] after the terminal event. A
	// producer beside which others may run calls Sync before it appends: of those that were never stored when a process is lost, only the
	// first that begins again gets its reset.
	Begin(ctx context.Context, streamID, producer string) (agent.Fence, agent.Appended, error)
	// Reset appends a reset{producer, from_index} event if earlier epochs had written events that none has voided. A producer calls it after
	// Begin and before it appends, unless what an earlier epoch has written stands.
	Reset(ctx context.Context, f agent.Fence) (agent.Appended, error)
	// Append adds a batch, idempotent by (producer, epoch, batch): a repeated batch changes nothing and answers as the first time.
	// Followers see the events at once; they may be stored a moment later. Indices are contiguous unless a process that wrote the stream was lost.
	// [agent.ErrFenced] and [agent.ErrStreamClosed] tell the producer to stop.
	Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error)
	// Touch asks, without writing, whether the producer may go on.
	Touch(ctx context.Context, f agent.Fence) (agent.Appended, error)
	// Take returns what the log has shown of a producer's stream and not stored, and stores none of it itself before Done is called. nil: call
	// Sync instead.
	Take(f agent.Fence) agent.UnstoredEvents
	// Sync stores the producer's epoch and what it has appended. [agent.ErrFenced] means that some of it never will be stored.
	Sync(ctx context.Context, f agent.Fence) error
}

// Blobs is the content-addressed store: write once, verified on read.
type Blobs interface {
	// Put stores the bytes of r under their sha-256 and returns "cas://sha256:<hex>".
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
	// S3Ref returns the address of a reference's object, s3://<bucket>/<key>; empty if the store is no bucket of S3.
	S3Ref(tenant, ref string) string
	// Open returns the bytes of a reference; a foreign or unknown one is [agent.CodeNotFound].
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Runs knows the workflows behind turns, by workflow id. All of it is best effort except Start, Look and Decide.
type Runs interface {
	// Start starts the workflow of a recorded turn, or does nothing if it was started before. With t.Agent, the workflow has its search
	// attributes from the start.
	Start(ctx context.Context, t TurnRef) error
	// Look returns what is known of a workflow.
	Look(ctx context.Context, workflowID string) (WorkflowState, error)
	// Ready tells a waiting turn that it holds its session.
	Ready(ctx context.Context, workflowID string) error
	// Decide answers an approval of another turn through its workflow.
	Decide(ctx context.Context, workflowID string, d agent.Decision) (agent.DecisionVerdict, error)
	// Provided tells a turn that the result of a call which it waits for is stored.
	Provided(ctx context.Context, workflowID, approvalID string) error
	// Resolved signals to a turn what its approval was decided to be, or that its client-side tool's result is stored.
	Resolved(ctx context.Context, workflowID string, a *agent.Approval) error
	// Interrupt asks a turn to cancel.
	Interrupt(ctx context.Context, workflowID string, c agent.CancelRequest) error
	// Tokens signals a batch of a turn's tokens to the workflow that asked for them. [agent.CodeNotFound] when it is gone.
	Tokens(ctx context.Context, to agent.StreamTo, batch agent.TokenBatch) error
}

// WorkflowState is what is known of a workflow; the zero value is a workflow that does not exist.
type WorkflowState struct {
	Exists   bool
	Running  bool
	Busy     bool // a workflow task or an activity is due
	Children bool // child workflows run
}

// Middleware builds the decorators that a plan names, in its order.
type Middleware interface {
	Chain(p *agent.Plan) ([]agent.Middleware, error)
}
