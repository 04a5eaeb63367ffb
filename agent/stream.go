package agent

import "errors"

// What the event log answers besides ordinary failures.
var (
	// ErrFenced tells a producer that a newer epoch of itself has begun: stop, and stop what you are doing.
	ErrFenced = errors.New("fenced: a newer epoch of this producer has begun")
	// ErrEventsNotStored says that a step is not stored because its events could not be stored with it.
	ErrEventsNotStored = errors.New("the events of the step are not stored yet")
	// ErrStreamClosed tells a producer that the stream has its terminal event.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrGap tells a reader that events it asked for have expired.
	ErrGap = errors.New("gap: events before this offset have expired")
)

// Fence is the right of one producer to append to one stream, valid until the producer begins again.
type Fence struct {
	StreamID string
	Producer string // e.g. model/2, tool/2/call_x
	Epoch    Epoch
}

// Appended is the log's answer to a batch or a touch.
type Appended struct {
	LastIndex int64 // the stream's last index
	Cancelled bool  // the stream was marked: stop soon
}

// HeldStream is a stream to which nobody adds anything, while a transaction ends it: the events of the end follow LastIndex.
type HeldStream struct {
	StreamID   string
	Owner      string // the process that holds it
	Generation int64  // of its ownership; the transaction fails when another has begun
	LastIndex  int64
}

// UnstoredEvents are events that viewers have seen and the log has not stored. The transaction that stores their step stores them too.
type UnstoredEvents interface {
	// Position returns the generation of the stream's owner and the index of the last event.
	Position() (generation, lastIndex int64)
	// Done says whether the transaction was committed. The log itself stores what is left. Only the first call counts.
	Done(committed bool)
}

// StreamClaim makes a process the owner of a stream that does not exist yet: the transaction that begins a turn writes it. The zero value claims
// nothing.
type StreamClaim struct {
	Owner   string // the process
	Reserve int64  // how many indices it may show before it stores anything
}

// StreamTail is where a stream stands.
type StreamTail struct {
	LastIndex  int64
	FirstIndex int64 // the oldest event still kept, 0 when there is none
	Closed     bool  // the terminal event is in
	Cancelled  bool
}

// TokenBatch is what a workflow that passed stream_to receives as a signal. Batches of one turn are numbered from 1
// within an attempt; a batch with a higher Attempt of the same Step voids the earlier ones of that step.
type TokenBatch struct {
	TurnID  TurnID `json:"turn_id"`
	Step    int    `json:"step"`
	Attempt int64  `json:"attempt"`
	Batch   int    `json:"batch"`
	Text    string `json:"text"`
	Done    bool   `json:"done,omitempty"` // the model call has ended

	Pending []PendingApproval `json:"pending,omitempty"` // the turn waits for a person
}

// PendingApproval names an approval that a turn waits for.
type PendingApproval struct {
	ApprovalID string `json:"approval_id"`
	CallID     CallID `json:"call_id"`
	ToolName   string `json:"tool_name"`

	Kind WaitKind `json:"kind,omitempty"`
}
