package agent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// MaxRunInput bounds the encoded input of a run, in bytes.
const MaxRunInput = 256 << 10

// RunStatus is the status of a run of a definition, or of a visit of a node.
type RunStatus string

// The statuses.
const (
	RunRunning   RunStatus = "running"
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
)

// RunRequest is the input of the workflow DefinedWorkflow.
type RunRequest struct {
	RunID   string            `json:"run_id,omitempty"` // empty: the ID of the first execution of the workflow
	Owner   string            `json:"workflow_owner,omitempty"`
	Tag     string            `json:"workflow_tag"`
	Version int64             `json:"version,omitempty"` // 0: the newest version when the run begins
	Input   json.RawMessage   `json:"input,omitempty"`
	Context InvocationContext `json:"context,omitzero"`
}

// Run is an execution of a definition. It keeps the version that it began with.
type Run struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"` // of Temporal
	WorkflowKey
	Version    int64           `json:"version"`
	Status     RunStatus       `json:"status"`
	Input      json.RawMessage `json:"input,omitempty"`
	UserID     string          `json:"user_id,omitempty"`
	Schedule   string          `json:"schedule,omitempty"` // the ID of the schedule that started it
	Error      *Failure        `json:"error"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Steps      []RunStep       `json:"steps,omitempty"` // only if a single run is read
}

// BegunWith reports whether an input equals the input of the run as JSON. An empty input equals null. Numbers are equal if their texts are.
func (r *Run) BegunWith(input json.RawMessage) bool {
	runValue, isValidRun := decodeExact(r.Input)
	value, isValid := decodeExact(input)
	return isValidRun && isValid && reflect.DeepEqual(runValue, value)
}

// decodeExact decodes JSON without converting its numbers. ok is false if it is invalid.
func decodeExact(raw json.RawMessage) (v any, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err == nil
}

// RunStep is a visit of a node.
type RunStep struct {
	NodeID     string          `json:"node_id"`
	Visit      int             `json:"visit"` // 1 for the first
	Type       string          `json:"type"`
	Status     RunStatus       `json:"status"`
	Outcome    string          `json:"outcome,omitempty"` // of a condition: true or false
	Output     json.RawMessage `json:"output,omitempty"`  // the input of the following nodes, without stored rows
	Ref        string          `json:"ref,omitempty"`     // cas:// reference of stored rows; may be empty
	TurnID     TurnID          `json:"turn_id,omitempty"` // of an agent node
	Error      *Failure        `json:"error,omitempty"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
}

// RunResult is the result of the workflow DefinedWorkflow.
type RunResult struct {
	RunID   string    `json:"run_id"`
	Owner   string    `json:"workflow_owner"`
	Tag     string    `json:"workflow_tag"`
	Version int64     `json:"version"`
	Status  RunStatus `json:"status"`
	Steps   int       `json:"steps"` // number of visits
	Error   *Failure  `json:"error"`
}

// RunQuery selects runs, newest first.
type RunQuery struct {
	Tenant string
	Owner  string
	Tag    string
	Status RunStatus
	Page
}

// RunPage is a page of runs without their steps.
type RunPage struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next_page_token"`
}
