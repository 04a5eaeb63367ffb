package agent

import (
	"context"
	"time"
)

// Observer records what turns do, for traces and metrics. Activities and direct turns call it; workflow code does not, so a replay calls
// nothing. Many goroutines call its methods at once; they must not block. A function that a method returns is called exactly once, when the
// observed work ends. A context that a method returns is used for the observed work.
//
// An observer must not change the values it is given, nor read them after it has returned.
type Observer interface {
	// Carry returns the trace context of ctx for [TurnRecord.Trace], as a W3C traceparent. It returns "" if ctx is in no trace.
	Carry(ctx context.Context) string
	// Delegate returns the trace context for the turn child, which a tool call of turn t starts for another agent.
	Delegate(ctx context.Context, t *Observed, child TurnID) string
	// Work is called when an activity begins, or the same function of a direct turn.
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

// Observed identifies the turn that is observed.
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
	Parent     TurnID    // of a child turn: who asked
	Trace      string    // [TurnRecord.Trace]
	Since      time.Time // when the turn was first seen; zero: not known
}

// Work is a piece of a turn's work.
type Work struct {
	Name    string // as the activity is registered
	Turn    *Observed
	Started time.Time // zero: now
	Attempt int       // of the activity, from 1; 0 outside of one
	Step    int       // 0: of no step
}

// ModelObservation is one request to a provider. A call that is repeated, falls back, or is a middleware's own, is several.
type ModelObservation struct {
	Turn    *Observed
	Model   PlanModel
	Step    int
	Epoch   Epoch // of the step's producer: tells repetitions apart; negative for a middleware's own, as in the ledger
	Purpose string
	Request *ModelRequest
}

// The purposes of requests.
const (
	PurposeReply      = "reply"      // the step's reply
	PurposeMiddleware = "middleware" // a middleware's own, such as a summary
	PurposePrepare    = "prepare"    // before the first step
)

// ModelOutcome is the end of a request.
type ModelOutcome struct {
	Reply       *ModelReply   // what came of it, also where it broke off
	Usage       Usage         // priced
	FirstDelta  time.Duration // from the request to the first fragment; 0: there was none
	FirstOfTurn bool          // that fragment was the first that the turn showed
	Err         error         // the provider's
	Cause       error         // why the request was stopped, such as cancellation or a timeout; nil if it was not
}

// ToolObservation is one attempt of a tool call, or the turn of another agent in its place.
type ToolObservation struct {
	Turn        *Observed
	Step        int
	CallID      CallID
	Name        string
	Description string
	Toolkit     string // [PlanTool.SourceNodeName]; empty: of none
	Args        []byte
	Epoch       Epoch     // of the call's producer: tells attempts apart
	Child       TurnID    // the turn that answers the call; empty: the tool does
	Started     time.Time // zero: now
}

// ToolOutcome is the end of an attempt: a result, which may be a failure, or an error, after which the call is tried again.
type ToolOutcome struct {
	Result  *ToolResult
	Refused bool // it was not granted, or a person refused it: the tool has not run
	Cached  bool // answered from the cache of results
	Err     error
}

// TurnEnded is the end of a turn.
type TurnEnded struct {
	Turn   *Observed
	Output *AgentStepOutput
	Ended  time.Time
	// Record loads the turn's request and route, for observers that need content. It may be called only before Ended returns.
	Record func(ctx context.Context) (TurnRecord, error)
}

// Unobserved is an observer that does nothing. Embed it to implement only some of the methods.
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
