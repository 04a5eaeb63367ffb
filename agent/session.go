package agent

import (
	"encoding/json"
	"time"
)

// CallCounts counts the calls of a session's finished turns, for limits that span turns.
type CallCounts struct {
	Model int
	Tools []ToolCount
}

// ToolCount is the number of calls of a tool.
type ToolCount struct {
	Tool  string
	Calls int
}

// RememberKey identifies calls for which a decision may be remembered.
type RememberKey struct {
	Tool     string
	ArgsHash string // sha256 of the canonical arguments
}

// Remembered is a decision that applies to later calls of its session.
type Remembered struct {
	Key      RememberKey  // an empty ArgsHash means all calls of the tool
	Decision DecisionKind // approve or reject
	Message  string
	By       string
}

// ApprovalQuery selects approvals, oldest first.
type ApprovalQuery struct {
	Tenant    string
	TurnID    TurnID    // empty: all
	SessionID SessionID // empty: all
	State     string    // pending or decided; empty: both
	After     string    // Next of the previous page
	Limit     int       // 0: 50; at most 500
}

// ApprovalPage is a page of approvals.
type ApprovalPage struct {
	Approvals []Approval `json:"approvals"`
	Next      string     `json:"next,omitempty"`
}

// SessionExport is all stored data of a session.
type SessionExport struct {
	Tenant    string          `json:"tenant"`
	SessionID SessionID       `json:"session_id"`
	Title     string          `json:"title,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	Messages  []ExportMessage `json:"messages"`
	Turns     []ExportTurn    `json:"turns"`
	Approvals []Approval      `json:"approvals"`
	Notes     []SessionNote   `json:"notes"` // notes of middleware, such as summaries

	InactiveAt *time.Time `json:"inactive_at,omitempty"` // when it became inactive; a later message makes it active again

	References []Reference `json:"references"` // sources that tools have found
}

// ExportMessage is a message of a transcript.
type ExportMessage struct {
	Message

	Position  int64     `json:"position"`
	TurnID    TurnID    `json:"turn_id"`
	CreatedAt time.Time `json:"created_at"`
}

// ExportTurn is a turn with its result.
type ExportTurn struct {
	TurnID     TurnID           `json:"turn_id"`
	State      string           `json:"state"`
	Agent      string           `json:"agent"`
	Channel    string           `json:"channel,omitempty"`
	UserID     string           `json:"user_id,omitempty"`
	CreatedAt  time.Time        `json:"created_at"`
	FinishedAt *time.Time       `json:"finished_at,omitempty"`
	Output     *AgentStepOutput `json:"output,omitempty"`
}

// SessionNote is a small JSON value that middleware stores with a session.
type SessionNote struct {
	Name      string          `json:"name"`
	Body      json.RawMessage `json:"body"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// SessionDeleted has the numbers of deleted records of a session.
type SessionDeleted struct {
	SessionID SessionID `json:"session_id"`
	Turns     int       `json:"turns"`
	Messages  int       `json:"messages"`
	Blobs     int       `json:"blobs"` // blobs without other references
	Refs      []string  `json:"-"`     // the references of the blobs
}
