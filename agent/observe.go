package agent

import (
	"context"
	"time"
)

// Observer records the work of turns for traces and metrics. Activities and direct turns call it. Workflow code does not, so a replay makes no calls.
// Its methods are called concurrently and must not block. A returned function is called exactly once, when the observed work ends. A returned context
// is used for the observed work.
//
// An observer must not change its arguments, nor read them after it has returned.
type Observer interface {
	// Carry returns the trace context of ctx for [TurnRecord.Trace] as a W3C traceparent, "" if ctx has none.
	Carry(ctx context.Context) string
	// Delegate returns the trace context for turn child, which a tool call of turn t starts for another agent.
	Delegate(ctx context.Context, t *Observed, child TurnID) string
	// Work is called when an activity, or the corresponding work of a direct turn, begins.
	Work(ctx context.Context, w Work) (context.Context, func(error))
	// Request is called when a request to a model's provider begins.
	Request(ctx context.Context, r ModelObservation) (context.Context, func(ModelOutcome))
	// Tool is called when an attempt of a tool call begins.
	Tool(ctx context.Context, t ToolObservation) (context.Context, func(ToolOutcome))
	// Decided is called when a person has decided an approval, or when it has expired.
	Decided(ctx context.Context, t *Observed, a *Approval)
	// Ended is called once when a turn has ended.
	Ended(ctx context.Context, e TurnEnded)
}

// Observed identifies an observed turn.
type Observed struct {
	TurnID     TurnID
	Tenant     string
	SessionID  SessionID
	UserID     string
	Agent      string
	InstanceID string
	PlanHash   string
	WorkflowID string
	Channel    string
	Mode       Mode
	Parent     TurnID    // the turn that delegated to this turn; may be empty
	Trace      string    // [TurnRecord.Trace]
	Since      time.Time // when the turn was accepted; zero if unknown
}

// Work is a piece of a turn's work.
type Work struct {
	Name    string // the name of the activity
	Turn    *Observed
	Started time.Time // zero: now
	Attempt int       // of the activity, from 1; 0 in a direct turn
	Step    int       // 0 if the work belongs to no step
}

// ModelObservation is one request to a provider. A model call makes several requests if it is retried or falls back, or if middleware calls models.
type ModelObservation struct {
	Turn    *Observed
	Model   PlanModel
	Step    int
	Epoch   Epoch // of the step's producer; distinguishes retries; negative for calls of middleware, as in the ledger
	Purpose string
	Request *ModelRequest
}

// The purposes of requests.
const (
	PurposeReply      = "reply"      // the reply of a step
	PurposeMiddleware = "middleware" // a call of middleware, such as a summary
	PurposePrepare    = "prepare"    // a call of the turn's preparation
)

// ModelOutcome is the end of a request.
type ModelOutcome struct {
	Reply       *ModelReply   // the reply, or the received part of it
	Usage       Usage         // priced
	FirstDelta  time.Duration // from the request to the first fragment; 0 if there was none
	FirstOfTurn bool          // the first fragment is also the first of the turn
	Err         error         // of the provider
	Cause       error         // why the request was stopped, such as cancellation or a timeout; nil if it was not
}

// ToolObservation is one attempt of a tool call, or the turn of another agent that answers it.
type ToolObservation struct {
	Turn        *Observed
	Step        int
	CallID      CallID
	Name        string
	Description string
	Toolkit     string // [PlanTool.SourceNodeName]; may be empty
	Args        []byte
	Epoch       Epoch     // of the call's producer; distinguishes attempts
	Child       TurnID    // the turn that answers the call; empty if the tool does
	Started     time.Time // zero: now
}

// ToolOutcome is the end of an attempt: a result, which may be a failure, or an error, after which the call is retried.
type ToolOutcome struct {
	Result  *ToolResult
	Refused bool // the tool has not run, because it was not granted or was rejected
	Cached  bool // answered from the result cache
	Err     error
}

// TurnEnded is the end of a turn.
type TurnEnded struct {
	Turn   *Observed
	Output *AgentStepOutput
	Ended  time.Time
	// Record loads the turn's request and route. It must not be called after Ended has returned.
	Record func(ctx context.Context) (TurnRecord, error)
}

// Unobserved is an observer that does nothing. Embed it to implement only some methods.
type Unobserved struct{}

// Carry implements [Observer].
func (Unobserved) Carry(context.Context) string { return "" }

// Delegate implements [Observer].
func (Unobserved) Delegate(context.Context, *Observed, TurnID) string { return "" }

// Work implements [Observer].
func (Unobserved) Work(ctx context.Context, _ Work) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// Request implements [Observer].
func (Unobserved) Request(ctx context.Context, _ ModelObservation) (context.Context, func(ModelOutcome)) {
	return ctx, func(ModelOutcome) {}
}

// Tool implements [Observer].
func (Unobserved) Tool(ctx context.Context, _ ToolObservation) (context.Context, func(ToolOutcome)) {
	return ctx, func(ToolOutcome) {}
}

// Decided implements [Observer].
func (Unobserved) Decided(context.Context, *Observed, *Approval) {}

// Ended implements [Observer].
func (Unobserved) Ended(context.Context, TurnEnded) {}
