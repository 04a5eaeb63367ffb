package agent

import (
	"encoding/json"
	"time"
)

// EventType is the kind of an [Event] (docs/design/design.md, "The event log").
type EventType string

// The event types.
const (
	EventStatus            EventType = "status"
	EventToken             EventType = "token"
	EventContent           EventType = "content"
	EventToolStart         EventType = "tool_start"
	EventToolProgress      EventType = "tool_progress"
	EventToolEnd           EventType = "tool_end"
	EventApprovalRequested EventType = "approval_requested"
	EventApprovalResolved  EventType = "approval_resolved"
	EventInputRequested    EventType = "input_requested" // the turn waits for something other than an approval; see approval.kind
	EventInputResolved     EventType = "input_resolved"
	EventRoute             EventType = "route"
	EventUsage             EventType = "usage"
	EventReset             EventType = "reset"
	EventError             EventType = "error"
)

// EventStatusValue is the state in a status event.
type EventStatusValue string

// The states; the last three are terminal.
const (
	StatusRunning   EventStatusValue = "RUNNING"
	StatusWaiting   EventStatusValue = "WAITING"
	StatusCompleted EventStatusValue = "COMPLETED"
	StatusFailed    EventStatusValue = "FAILED"
	StatusCancelled EventStatusValue = "CANCELLED"
)

// EventMeta identifies an event. The log sets StreamID, EventIndex and Time.
type EventMeta struct {
	StreamID        string    `json:"stream_id"`
	EventIndex      int64     `json:"event_index"` // increases from 1; a gap means that a process that wrote the stream has died
	TurnID          TurnID    `json:"turn_id"`
	Attempt         int64     `json:"attempt"` // the producer's epoch
	Producer        string    `json:"producer,omitempty"`
	AgentInstanceID string    `json:"agent_instance_id,omitempty"`
	Time            time.Time `json:"time"`
}

// Event is an entry of a turn's event log: meta, type, and the fields of its type.
type Event struct {
	Meta EventMeta `json:"meta"`
	Type EventType `json:"type"`

	Status EventStatusValue `json:"status,omitempty"` // status
	Reason string           `json:"reason,omitempty"` // status: why it waits, or the stop reason
	Result *AgentStepOutput `json:"result,omitempty"` // status: of a terminal event

	Text          string  `json:"text,omitempty"`           // token; tool_progress
	ContentBlocks []Block `json:"content_blocks,omitempty"` // content: whole blocks other than plain text

	ToolCallID CallID          `json:"tool_call_id,omitempty"` // tool_*
	ToolName   string          `json:"tool_name,omitempty"`    // tool_*
	Input      json.RawMessage `json:"input,omitempty"`        // tool_start: the arguments
	Output     json.RawMessage `json:"output,omitempty"`       // tool_end: the truncated output that the model sees
	Ref        string          `json:"ref,omitempty"`          // tool_end: cas:// reference of a large output
	Failed     bool            `json:"failed,omitempty"`       // tool_end

	SourceNodeName string `json:"source_node_name,omitempty"` // tool_start, tool_end: the node of the tool
	IsFromToolkit  bool   `json:"is_from_toolkit,omitempty"`  // tool_start, tool_end

	Approval *Approval       `json:"approval,omitempty"` // approval_*, input_*
	Route    json.RawMessage `json:"route,omitempty"`    // route
	Usage    *Usage          `json:"usage,omitempty"`    // usage: of one model call
	Model    string          `json:"model,omitempty"`    // usage

	Producer  string `json:"producer,omitempty"`   // reset: the producer whose events are void
	FromIndex int64  `json:"from_index,omitempty"` // reset: events from this index on are void

	Error *Failure `json:"error,omitempty"` // error
}

// Terminal reports whether the event is the last of its stream.
func (e *Event) Terminal() bool {
	if e.Type != EventStatus {
		return false
	}
	switch e.Status {
	case StatusCompleted, StatusFailed, StatusCancelled:
		return true
	default:
		return false
	}
}

// TerminalStatus returns the status in the terminal event of a turn.
func TerminalStatus(s TurnStatus) EventStatusValue {
	switch s {
	case TurnCompleted:
		return StatusCompleted
	case TurnCancelled:
		return StatusCancelled
	case TurnFailed:
		return StatusFailed
	default:
		return StatusFailed
	}
}
