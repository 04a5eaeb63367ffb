package library

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// PutRequest makes a definition be what it says, as a whole.
type PutRequest struct {
	agent.WorkflowKey // Owner empty: [agent.DefaultWorkflowOwner]

	Definition  json.RawMessage // an [agent.WorkflowDefinition]
	Description string
	BaseVersion int64 // the version that was looked at: another one is a conflict; 0: the newest
	By          string
	Idempotency string // the same key changes once; empty: none
	DryRun      bool   // say what would be
	OnlyNew     bool   // conflict when there is a definition that is not deleted
}

// DeleteRequest takes a definition out of use. Its history stays, and its runs go on.
type DeleteRequest struct {
	agent.WorkflowKey // Owner empty: the one owner of the tag

	Description string
	BaseVersion int64
	By          string
	Idempotency string
}
