package workflows

import (
	"slices"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// The names that clients, histories and the command line use. Never change one.
const (
	TaskQueue = "turnstone"

	AgentTurnType       = "AgentTurn"
	ConversationType    = "Conversation"
	DefinedWorkflowType = "DefinedWorkflow"
	ScheduledRunType    = "ScheduledRun"

	IntelligentProcessType = "IntelligentProcess"

	UpdateDecide  = "decide"  // also a signal
	UpdateProvide = "provide" // also a signal
	UpdateCancel  = "cancel"  // also a signal
	UpdateMessage = "message"
	UpdateAnswer  = "answer" // also a signal
	QueryState    = "state"
	SignalReady   = "ready"
	SignalTokens  = "tokens"
	SignalClose   = "close"

	AttributeTenant     = "TurnstoneTenant"
	AttributeAgent      = "TurnstoneAgent"
	AttributeSession    = "TurnstoneSession"
	AttributeStatus     = "TurnstoneStatus"
	AttributeStopReason = "TurnstoneStopReason"
)

// ConversationID returns the workflow id of a session's conversation.
func ConversationID(tenant string, s agent.SessionID) string {
	return "conversation/" + tenant + "/" + string(s)
}

// acts is the nil-typed handle through which workflows name activities: a rename is a compile error.
var acts *activities.Activities //nolint:gochecknoglobals // always nil: it only names methods

// definitionActivities is the handle of the activities of DefinedWorkflow.
var definitionActivities *activities.Definitions //nolint:gochecknoglobals // as above

// SearchAttributes returns the names and types of the search attributes of turns; all are keywords.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	all := map[string]enumspb.IndexedValueType{}
	for _, name := range slices.Concat(TurnAttributeNames(), StatusAttributeNames()) {
		all[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return all
}

// TurnAttributeNames returns the search attributes that every turn has.
func TurnAttributeNames() []string {
	return []string{AttributeTenant, AttributeAgent, AttributeSession}
}

// StatusAttributeNames returns the search attributes of turns that waited or did not complete. Namespaces that were set up for v0.1.0 lack them.
func StatusAttributeNames() []string { return []string{AttributeStatus, AttributeStopReason} }
