package agent

import (
	"context"
	"iter"
)

// Channel connects users to agents: it converts native messages to envelopes, and events to native answers.
type Channel interface {
	Serve(ctx context.Context, in Inbox) error
}

// Envelope is a message and its sender.
type Envelope struct {
	Channel   string      // http, grpc, cli, telegram, …
	Sender    string      // for the audit trail; empty if unknown
	Principal Principal   // the caller; zero: the channel itself is responsible for the request
	RequestID string      // for the audit trail; may be empty
	Remote    string      // the sender's network address, for the audit trail; may be empty
	Request   TurnRequest // tenant and user are those of the credential, if there is one
}

// Receipt identifies the turn of a submitted envelope.
type Receipt struct {
	TurnID    TurnID    `json:"turn_id"`
	SessionID SessionID `json:"session_id"`
	StreamID  string    `json:"stream_id"`
	Joined    bool      `json:"-"` // the turn already existed

	// StartUnknown means that the turn may be recorded but not started. Then the runtime starts it within seconds.
	StartUnknown bool `json:"-"`
}

// Inbox is the invocation path that all channels share.
type Inbox interface {
	// Submit checks the request and starts its turn, or joins the existing turn of the same ID.
	Submit(ctx context.Context, e Envelope) (Receipt, error)
	// Follow yields the turn's events after an index, in order, up to the terminal event. It calls the function of [OnWait].
	Follow(ctx context.Context, id TurnID, after int64) iter.Seq2[Event, error]
	// Decide decides an approval.
	Decide(ctx context.Context, id TurnID, d Decision) error
	// Cancel stops the turn. What it has produced is stored.
	Cancel(ctx context.Context, id TurnID, c CancelRequest) error
}

type onWait struct{}

// OnWait returns a context for [Inbox].Follow. Follow calls wait each time before it waits for events, so that a caller can flush the events that
// it has collected.
func OnWait(ctx context.Context, wait func()) context.Context {
	return context.WithValue(ctx, onWait{}, wait)
}

// Waiting calls the function of [OnWait], if ctx has one.
func Waiting(ctx context.Context) {
	if wait, ok := ctx.Value(onWait{}).(func()); ok {
		wait()
	}
}
