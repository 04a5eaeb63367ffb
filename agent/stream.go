package agent

import "errors"

// The errors of the event log.
var (
	// ErrFenced tells a producer that a newer epoch of it has begun, so that it must stop.
	ErrFenced = errors.New("fenced: a newer epoch of this producer has begun")
	// ErrEventsNotStored means that a step was not stored because its events could not be stored with it.
	ErrEventsNotStored = errors.New("the events of the step are not stored yet")
	// ErrStreamClosed means that the stream already has its terminal event.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrGap means that requested events have expired.
	ErrGap = errors.New("gap: events before this offset have expired")
)

// Fence is the right of a producer to append to a stream. It is valid until the producer starts a newer epoch.
type Fence struct {
	StreamID string
	Producer string // e.g. model/2, tool/2/call_x
	Epoch    Epoch
}

// Appended is the result of appending events or renewing a producer.
type Appended struct {
	LastIndex int64 // the stream's last index
	Cancelled bool  // the turn was cancelled: the producer should stop
}

// HeldStream is a stream that is locked against appends while a transaction ends it. The events of the end follow LastIndex.
type HeldStream struct {
	StreamID   string
	Owner      string // the process that owns it
	Generation int64  // of its ownership; the transaction fails if another has begun
	LastIndex  int64
}

// UnstoredEvents are events that have been sent to viewers but are not stored. The transaction that stores their step stores them too.
type UnstoredEvents interface {
	// Position returns the generation of the stream's owner and the index of the last event.
	Position() (generation, lastIndex int64)
	// Done must be called with the outcome of the transaction. The log then stores remaining events itself. Only the first call counts.
	Done(committed bool)
}

// StreamClaim makes a process the owner of a new stream in the transaction that begins a turn. The zero value claims nothing.
type StreamClaim struct {
	Owner   string // the claiming process
	Reserve int64  // the number of indexes that it may use before it stores events
}

// StreamTail is the end of a stream.
type StreamTail struct {
	LastIndex  int64
	FirstIndex int64 // of the oldest stored event; 0 if there is none
	Closed     bool  // the stream has its terminal event
	Cancelled  bool
}

// TokenBatch is the signal that the workflow of stream_to receives. Batches are numbered from 1 within an attempt. A batch with a higher Attempt voids
// the earlier batches of its Step.
type TokenBatch struct {
	TurnID  TurnID `json:"turn_id"`
	Step    int    `json:"step"`
	Attempt int64  `json:"attempt"`
	Batch   int    `json:"batch"`
	Text    string `json:"text"`
	Done    bool   `json:"done,omitempty"` // the model call has ended

	Pending []PendingApproval `json:"pending,omitempty"` // the approvals that the turn waits for
}

// PendingApproval is an approval that a turn waits for.
type PendingApproval struct {
	ApprovalID string `json:"approval_id"`
	CallID     CallID `json:"call_id"`
	ToolName   string `json:"tool_name"`

	Kind WaitKind `json:"kind,omitempty"`
}
