package agent

import "encoding/json"

// Dataset describes rows that a tool has stored as a JSON array in the content-addressed store. Later tools and turns read them by reference.
type Dataset struct {
	Ref      string         `json:"ref"` // cas://sha256:<hex>
	RowCount int            `json:"row_count"`
	Fields   []DatasetField `json:"fields,omitempty"` // of the first rows, in their order; at most 50
}

// DatasetField is a field of a dataset's rows.
type DatasetField struct {
	Name string `json:"name"`
	Type string `json:"type"` // string, number, boolean, object, array, null, or mixed
}

// SessionDataset is a dataset of an earlier turn of a session.
type SessionDataset struct {
	Dataset

	TurnID TurnID
	Tool   string
	Args   json.RawMessage // of the call
}

// The members of [InvocationContext].Metadata that identify the orchestrator job of a turn. Result rows have the first three. The model sees previous
// results and the workflow state.
const (
	MetaJobID           = "job_id"
	MetaRunID           = "run_id"
	MetaNodeID          = "node_id"
	MetaWorkflowTag     = "workflow_tag"
	MetaWorkflowOwner   = "workflow_owner"
	MetaRetryCount      = "retry_count"
	MetaPreviousResults = "previous_results" // [{node_id, result_ref, preview}]
	MetaWorkflowState   = "workflow_state"   // an object
)

// JobExecutionError is the type of the error of a job whose last tool call failed.
const JobExecutionError = "execution_error"
