package agent

// StallReason says what a turn's workflow may not have been told.
type StallReason string

// The reasons.
const (
	StallDecided   StallReason = "decided"   // all its approvals are decided, and no later step is stored
	StallCancelled StallReason = "cancelled" // its stream is marked
	StallSession   StallReason = "session"   // it was handed its session and has not begun
)

// StalledTurn is a turn that has not gone on since the store has a reason for it to.
type StalledTurn struct {
	TurnID     TurnID
	WorkflowID string
	Reason     StallReason
}
