package agent

import "regexp"

// TurnID names one turn: one inbound message to one final result. It is also the turn's stream id.
type TurnID string

// WorkflowID returns the id of the workflow that doors start for the turn.
func (t TurnID) WorkflowID() string { return "turn/" + string(t) }

// SessionID names a conversation on the wire; see [SessionID.Valid] for its shape.
type SessionID string

// CallID names one tool call within a turn; it is the id that the model gave.
type CallID string

// Epoch fences one producer's (re)start in a stream: 1 for the first start, then one more for each. See docs/design/design.md, "The event log".
type Epoch int64

// DefaultTenant is the tenant of a request that names none on a system without authentication.
const DefaultTenant = "default"

var sessionPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Valid reports whether the id is 1 to 128 of A-Z a-z 0-9 . _ -.
func (s SessionID) Valid() bool { return sessionPattern.MatchString(string(s)) }

// ValidName reports whether s may name a turn, a tenant or an agent: the same shape as a session id.
func ValidName(s string) bool { return sessionPattern.MatchString(s) }
