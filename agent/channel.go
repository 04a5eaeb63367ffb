package agent

import (
	"context"
	"iter"
)

// Channel is a way in: it turns native messages into envelopes and events into native answers, and holds no agent logic.
type Channel interface {
	Serve(ctx context.Context, in Inbox) error
}

// Envelope is one message with addressing.
type Envelope struct {
	Channel   string      // http, grpc, cli, telegram, …
	Sender    string      // who, for the audit trail; empty when unknown
	Principal Principal   // by which credential; zero: the channel itself answers for the request
	RequestID string      // id of the request that carried it, for the audit trail; may be empty
	Remote    string      // the sender's network address, for the audit trail; may be empty
	Request   TurnRequest // tenant and user already taken from the credential where there is one
}

// Receipt says which turn a submitted envelope became.
type Receipt struct {
	TurnID    TurnID    `json:"turn_id"`
	SessionID SessionID `json:"session_id"`
	StreamID  string    `json:"stream_id"`
	Joined    bool      `json:"-"` // the turn existed already

	// StartUnknown says that the turn may have been recorded without being started. If so, upkeep starts it within seconds.
	StartUnknown bool `json:"-"`
}

// Inbox is the one invocation path: every door submits here.
type Inbox interface {
	// Submit checks the request and starts its turn, or joins the turn that was started with the same id before.
	Submit(ctx context.Context, e Envelope) (Receipt, error)
	// Follow yields the turn's events after an index, in order, until the terminal one. It calls the function of [OnWait].
	Follow(ctx context.Context, id TurnID, after int64) iter.Seq2[Event, error]
	// Decide answers an approval.
	Decide(ctx context.Context, id TurnID, d Decision) error
	// Cancel asks the turn to stop; what it produced is stored.
	Cancel(ctx context.Context, id TurnID, c CancelRequest) error
}

type onWait struct{}

// OnWait returns a context for Follow of an [Inbox]. Follow then calls wait each time before it waits for events, so that a caller that sends
// events in batches can send the ones it has.
func OnWait(ctx context.Context, wait func()) context.Context {
	return context.WithValue(ctx, onWait{}, wait)
}

// Waiting calls the function of [OnWait], if the context has one.
func Waiting(ctx context.Context) {
	if wait, ok := ctx.Value(onWait{}).(func()); ok {
		wait()
	}
}
