package turns

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Registry finds agents and their plans. Plans are immutable and stay available by hash for as long as a turn may need them.
type Registry interface {
	// Choose returns the agent for a request: the one that the request names, or the one that the tenant's rules choose. The error is
	// [agent.CodeNotFound] with Field "agent" if there is none.
	Choose(ctx context.Context, c agent.RouteContext) (agent.RouteDecision, error)
	// Routed counts a decision. It is called once for each turn.
	Routed(d *agent.RouteDecision)
	// Resolve returns the current plan of an agent and its hash. An unknown agent is [agent.CodeNotFound] with Field "agent".
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
	// ReplacePrompt stores a copy of a plan with another system prompt, and returns it with its hash. The error is [agent.CodeInvalid] with Field
	// "prompt" if the plan has more than one system prompt, or the copy would be too large.
	ReplacePrompt(ctx context.Context, plan agent.Plan, prompt string) (agent.Plan, string, error)
	// Plan returns the plan with a hash, even if the agent has a newer one.
	Plan(ctx context.Context, hash string) (agent.Plan, error)
}

// Models finds the model of a profile in a plan.
type Models interface {
	Model(ctx context.Context, m agent.PlanModel) (agent.Model, error)
}

// Tools finds the code of granted tools.
type Tools interface {
	// Granted returns the code of a granted tool, from its toolkit.
	Granted(ctx context.Context, tenant string, t *agent.PlanTool) (agent.Tool, error)
	// List returns the tools that a dynamic toolkit has for a source, in a stable order.
	List(ctx context.Context, tenant string, s *agent.PlanSource) ([]agent.ListedTool, error)
}

// TurnStore stores turns and everything that belongs to them. Every write is atomic and idempotent on its key.
type TurnStore interface {
	TurnRecords
	StepStore
	Ledger
	ApprovalStore
	SessionMemory
	Leases
}

// TurnRecords stores turns, the queues of their sessions, transcripts and results.
type TurnRecords interface {
	// Begin records the turn once, by its TurnID, adds it to its session's queue and returns its place there. A waiting turn calls it again. When the
	// turn becomes ready, the same transaction appends its input to the transcript.
	Begin(ctx context.Context, t agent.TurnRecord) (agent.Begun, error)
	// Turn returns a turn by its id, or [agent.CodeNotFound]. The caller checks the record's Tenant.
	Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error)
	// UnfinishedChildren returns the ids of a turn's descendants that have not ended.
	UnfinishedChildren(ctx context.Context, id agent.TurnID) ([]agent.TurnID, error)
	// Finish ends the turn in one transaction: it appends the steps to the transcript, stores the result, passes the session to the next turn and
	// ends the stream with the events. A call without a result gets one that says so. The first call for a turn wins.
	Finish(ctx context.Context, f agent.FinishRecord) (agent.Finished, error)
}

// Ledger stores the costs of model calls. SaveModelStep adds the rows of calls that succeeded.
type Ledger interface {
	// ChargeUsage adds ledger rows of model calls that failed after they were billed.
	ChargeUsage(ctx context.Context, key agent.StepKey, tenant string, rows []agent.UsageEntry) error
	// BilledUsage returns the total usage of a turn and its child turns in the ledger, and the model of the turn's latest row.
	BilledUsage(ctx context.Context, id agent.TurnID) (u agent.Usage, model string, err error)
}

// StepStore stores the steps of turns.
type StepStore interface {
	// Prompt returns the messages of a model call: the transcript up to the cursor (with HistoryFresh only the turn's own input), then the turn's
	// earlier steps. Tool results follow the message with their calls, in the order of the calls. stored is the reply of the query's step, or nil if
	// there is none yet.
	Prompt(ctx context.Context, q agent.PromptQuery) (messages []agent.Message, stored *agent.ModelStep, err error)
	// ModelStep returns the reply of a step, and ToolStep the result of a call; ok is false if there is none. CallSteps returns both, or nil for a
	// missing one. CallSteps may miss a result that another process has stored.
	ModelStep(ctx context.Context, key agent.StepKey) (s agent.ModelStep, ok bool, err error)
	ToolStep(ctx context.Context, key agent.StepKey) (s agent.ToolStep, ok bool, err error)
	CallSteps(ctx context.Context, key agent.StepKey) (reply *agent.ModelStep, result *agent.ToolStep, err error)
	// SaveModelStep stores a finished model call with its ledger rows, and SaveToolStep a finished tool call. The error is [agent.ErrFenced] if the
	// producer has a newer epoch. Saving a stored step again changes nothing. The events of a step are stored in the same transaction; the error is
	// [agent.ErrEventsNotStored] if the log has to store them before the step. A step with Later set may be lost if the process dies before it stores
	// the turn's next step or end; StoreLater stores such steps at once.
	SaveModelStep(ctx context.Context, s agent.ModelStep) error
	SaveToolStep(ctx context.Context, s agent.ToolStep) error
	StoreLater(ctx context.Context, id agent.TurnID) error
	// StepMessages returns the steps of a turn before a step as the messages of a prompt, and the last step from which a rerun can begin.
	StepMessages(ctx context.Context, id agent.TurnID, before int) (messages []agent.Message, last int, err error)
	// Steps returns all finished steps of a turn in order.
	Steps(ctx context.Context, id agent.TurnID) ([]agent.ModelStep, []agent.ToolStep, error)
}

// ApprovalStore stores approvals and the calls of client-side tools.
type ApprovalStore interface {
	// SaveApproval records once that a call waits for a person. Approvals lists the approvals of a turn.
	SaveApproval(ctx context.Context, tenant string, a agent.Approval) error
	Approvals(ctx context.Context, id agent.TurnID) ([]agent.Approval, error)
	// ResolveApproval stores a decision. The error is [agent.CodeNotFound] for an unknown approval, and [agent.CodeConflict] if the turn has ended or
	// the approval is decided. The same decision by the same person is accepted again.
	ResolveApproval(ctx context.Context, id agent.TurnID, d agent.Decision) (agent.Approval, error)
	// Approval returns an approval by its id. The error is [agent.CodeNotFound] with Field "approval_id" if the tenant does not have it.
	Approval(ctx context.Context, tenant, id string) (agent.Approval, error)
	// ExpireApprovals decides the undecided approvals of a step that have expired, as their OnExpiry says, in the name of [agent.ExpiredBy]. It
	// returns all approvals of the step that have expired, now or before, and the time until the next one expires, 0 if none will.
	ExpireApprovals(ctx context.Context, id agent.TurnID, step int) (expired []agent.Approval, next time.Duration, err error)
	// PendingBelow lists the undecided approvals of a turn and of its child turns, by step.
	PendingBelow(ctx context.Context, id agent.TurnID) ([]agent.Approval, error)
	// Remembered returns the remembered decisions of a session for calls with these keys.
	Remembered(ctx context.Context, tenant string, s agent.SessionID, keys []agent.RememberKey) ([]agent.Remembered, error)
}

// SessionMemory stores the data of sessions and turns besides messages and steps.
type SessionMemory interface {
	// SavePrepared stores the result of a turn's preparation, unless one is stored, with its ledger rows as step 0. Prepared returns it.
	SavePrepared(ctx context.Context, p agent.Prepared) error
	Prepared(ctx context.Context, id agent.TurnID) (p agent.Prepared, ok bool, err error)
	// SaveTurnTools stores the tools that a turn's dynamic toolkits have when it begins, unless some are stored, and returns what is stored. TurnTools
	// returns that, too.
	SaveTurnTools(ctx context.Context, id agent.TurnID, t agent.TurnTools) (agent.TurnTools, error)
	TurnTools(ctx context.Context, id agent.TurnID) (t agent.TurnTools, ok bool, err error)
	// CallCounts counts the model replies and, by tool, the tool calls of the session's finished turns.
	CallCounts(ctx context.Context, tenant string, s agent.SessionID) (agent.CallCounts, error)
	// SetNote stores a small JSON document with a session, by name. Note returns it, or nil if there is none.
	SetNote(ctx context.Context, tenant string, s agent.SessionID, name string, body json.RawMessage) error
	Note(ctx context.Context, tenant string, s agent.SessionID, name string) (json.RawMessage, error)
	// Datasets returns the newest datasets, at most n, of the session's turns that finished before a turn, newest first.
	Datasets(ctx context.Context, tenant string, s agent.SessionID, before agent.TurnID, n int) ([]agent.SessionDataset, error)
}

// Leases records which direct turns have a process that runs them.
type Leases interface {
	// Renew extends the leases of direct turns, and returns those that still hold their sessions.
	Renew(ctx context.Context, ids []agent.TurnID, until time.Time) (held []agent.TurnID, err error)
	// HandOver makes a direct turn a durable one, which has no lease.
	HandOver(ctx context.Context, id agent.TurnID, workflowID string, why agent.Fallback) error
}

// Schemas checks documents against JSON Schemas. path begins the Field of its errors.
type Schemas interface {
	// CheckSchema returns an error if a schema cannot be used for a structured answer, such as one that does not describe an object.
	CheckSchema(path string, schema json.RawMessage) error
	// Check returns an [agent.CodeInvalid] error if a document does not satisfy a schema. Its text tells a model or a person what to change.
	Check(path string, schema, document json.RawMessage) error
}

// Knowledge searches collections.
type Knowledge interface {
	Search(ctx context.Context, q agent.KnowledgeQuery) ([]agent.Passage, error)
}

// EventLog is the log of the events of all turns (docs/design/design.md, "The event log"). The id of a stream is the id of its turn.
type EventLog interface {
	StreamOwner
	ProducerLog

	// Cancel marks a stream as cancelled: every later Append and Touch returns Cancelled. It is idempotent and does nothing to a closed stream.
	Cancel(ctx context.Context, streamID string) error
	// Close appends events, the last of which is terminal. The first call wins; another one does nothing.
	Close(ctx context.Context, streamID string, events []agent.Event) error
	// Follow yields the events after an index in their order, waits for new ones, and ends after the terminal event. A stream that does not exist yet
	// has no events. The error is [agent.ErrGap] if events after the index have expired. A slow consumer delays nobody else. Follow calls
	// [agent.Waiting] each time before it waits.
	Follow(ctx context.Context, streamID string, after int64) iter.Seq2[agent.Event, error]
	// Tail returns the position and state of a stream.
	Tail(ctx context.Context, streamID string) (agent.StreamTail, error)
}

// StreamOwner begins and ends streams within the transactions that begin and end their turns.
type StreamOwner interface {
	// Claim returns what the transaction that begins a turn has to write so that this process owns the turn's stream from the beginning. After the
	// commit the caller must call Claimed.
	Claim() agent.StreamClaim
	Claimed(streamID string)
	// Hold stores the events of a stream and blocks further ones until LetGo, for a caller that ends the stream in its own transaction. If Hold returns
	// nil, another process may still add events, and the transaction has to read the stream's position.
	Hold(ctx context.Context, streamID string) (*agent.HeldStream, error)
	// LetGo releases a held stream and shows followers the events that have ended it. Without events the stream has not ended and continues.
	LetGo(held *agent.HeldStream, events []agent.Event)
}

// ProducerLog takes the events of producers.
type ProducerLog interface {
	// Begin starts a new epoch of a producer, one higher than the last, and fences off all earlier ones. An epoch above 1 is stored when Begin returns;
	// from then on no process can store anything for earlier epochs. The error is [agent.ErrStreamClosed] after the terminal event. While other
	// producers may be writing, a producer must call Sync before it appends: if the process is lost, only the first of the producers that were not
	// stored is reset when it begins again.
	Begin(ctx context.Context, streamID, producer string) (agent.Fence, agent.Appended, error)
	// Reset appends a reset{producer, from_index} event if earlier epochs have written events that are still valid. A producer calls it after Begin and
	// before it appends, unless the events of the earlier epoch shall stay valid.
	Reset(ctx context.Context, f agent.Fence) (agent.Appended, error)
	// Append adds a batch. It is idempotent by producer, epoch and batch: a repeated batch changes nothing and gets the same answer. Followers see the
	// events at once; they may be stored a moment later. Indices are contiguous unless a process that wrote the stream was lost. After
	// [agent.ErrFenced] or [agent.ErrStreamClosed] the producer must stop.
	Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error)
	// Touch returns, without writing, whether the producer may continue.
	Touch(ctx context.Context, f agent.Fence) (agent.Appended, error)
	// Take returns the events of a producer's stream that followers have seen but that are not stored. The log does not store them before their Done is
	// called. If Take returns nil, the caller has to call Sync instead.
	Take(f agent.Fence) agent.UnstoredEvents
	// Sync stores the producer's epoch and its events. [agent.ErrFenced] means that some of them will never be stored.
	Sync(ctx context.Context, f agent.Fence) error
}

// Blobs is a content-addressed store. Content is written once and verified when it is read.
type Blobs interface {
	// Put stores the bytes of r under their SHA-256 and returns "cas://sha256:<hex>".
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
	// S3Ref returns the address of a reference's object, s3://<bucket>/<key>, or "" if the store is not an S3 bucket.
	S3Ref(tenant, ref string) string
	// Open returns the bytes of a reference. The error is [agent.CodeNotFound] if the tenant does not have it.
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Runs starts, inspects and signals the workflows of turns, by workflow id. Everything but Start, Look and Decide is best effort.
type Runs interface {
	// Start starts the workflow of a recorded turn, or does nothing if it was started before. If t.Agent is set, the workflow has its search attributes
	// from the start.
	Start(ctx context.Context, t TurnRef) error
	// Look returns the state of a workflow.
	Look(ctx context.Context, workflowID string) (WorkflowState, error)
	// Ready tells a waiting turn that it holds its session.
	Ready(ctx context.Context, workflowID string) error
	// Decide decides an approval of another turn through that turn's workflow.
	Decide(ctx context.Context, workflowID string, d agent.Decision) (agent.DecisionVerdict, error)
	// Provided tells a turn that the result of a client-side tool that it waits for is stored.
	Provided(ctx context.Context, workflowID, approvalID string) error
	// Resolved signals a decision to the turn that waits for it, or that the result of its client-side tool is stored.
	Resolved(ctx context.Context, workflowID string, a *agent.Approval) error
	// Interrupt asks a turn to cancel.
	Interrupt(ctx context.Context, workflowID string, c agent.CancelRequest) error
	// Tokens signals a batch of a turn's tokens to the workflow that asked for them. The error is [agent.CodeNotFound] if that workflow is gone.
	Tokens(ctx context.Context, to agent.StreamTo, batch agent.TokenBatch) error
}

// WorkflowState is the state of a workflow. The zero value means that the workflow does not exist.
type WorkflowState struct {
	Exists   bool
	Running  bool
	Busy     bool // a workflow task or an activity is pending
	Children bool // child workflows are running
}

// Middleware builds the middleware that a plan names, in the plan's order.
type Middleware interface {
	Chain(p *agent.Plan) ([]agent.Middleware, error)
}
