package agent

// ModelCalls says how the workflow of a turn runs its model calls.
type ModelCalls string

// The ways to run model calls.
const (
	ModelCallsAuto     ModelCalls = "auto"     // as local activities while the model's recent calls are short
	ModelCallsLocal    ModelCalls = "local"    // as local activities: fewer history events, but a running call cannot be seen
	ModelCallsActivity ModelCalls = "activity" // as normal activities
)
