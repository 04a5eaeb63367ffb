package agent

import "regexp"

// TurnID identifies a turn: from an inbound message to its final result. It is also the ID of the turn's stream.
type TurnID string

// WorkflowID returns the ID of the workflow that channels start for the turn.
func (t TurnID) WorkflowID() string { return "turn/" + string(t) }

// SessionID identifies a conversation. See [SessionID.Valid] for its format.
type SessionID string

// CallID identifies a tool call within a turn. The model chooses it.
type CallID string

// Epoch counts the starts of a producer in a stream, 1 for the first. See docs/design/design.md, "The event log".
type Epoch int64

// DefaultTenant is the tenant of a request that names none on a system without authentication.
const DefaultTenant = "default"

var sessionPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Valid reports whether the ID is 1 to 128 of A-Z a-z 0-9 . _ -.
func (s SessionID) Valid() bool { return sessionPattern.MatchString(string(s)) }

// ValidName reports whether s may be the ID of a turn or the name of a tenant or an agent. The format is that of a session ID.
func ValidName(s string) bool { return sessionPattern.MatchString(s) }
