package agent

// StallReason is the news that a turn's workflow may have missed.
type StallReason string

// The reasons.
const (
	StallDecided   StallReason = "decided"   // all its approvals are decided, and no later step is stored
	StallCancelled StallReason = "cancelled" // its stream is marked
	StallSession   StallReason = "session"   // it was handed its session and has not begun
)

// StalledTurn is a turn that should have gone on and has not.
type StalledTurn struct {
	TurnID     TurnID
	WorkflowID string
	Reason     StallReason
}
