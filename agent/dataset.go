package agent

import "encoding/json"

// Dataset describes rows that a tool has put into the content-addressed store, for later tools and turns to read by reference.
// What is stored is a JSON array of the rows.
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

// SessionDataset is a dataset that an earlier turn of a session left.
type SessionDataset struct {
	Dataset

	TurnID TurnID
	Tool   string
	Args   json.RawMessage // of the call
}

// The names under which [InvocationContext].Metadata says which job of an orchestrator a turn is. Result rows carry the
// first three; previous results and the state of the workflow are shown to the model.
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
