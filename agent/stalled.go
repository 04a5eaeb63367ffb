package agent

// StallReason is the event that a turn's workflow may have missed.
type StallReason string

// The reasons.
const (
	StallDecided   StallReason = "decided"   // all approvals of the turn are decided, but no later step is stored
	StallCancelled StallReason = "cancelled" // the turn was cancelled
	StallSession   StallReason = "session"   // the turn now holds its session, but has not begun
)

// StalledTurn is a turn that should have continued but has not.
type StalledTurn struct {
	TurnID     TurnID
	WorkflowID string
	Reason     StallReason
}
