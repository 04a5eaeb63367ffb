package agent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// MaxRunInput bounds the input of a run in bytes, as it is encoded for Temporal.
const MaxRunInput = 256 << 10

// RunStatus says where a run of a defined workflow, or one visit of its nodes, stands.
type RunStatus string

// The statuses.
const (
	RunRunning   RunStatus = "running"
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
)

// RunRequest is the input of the workflow DefinedWorkflow, typed by hand on the command line.
type RunRequest struct {
	RunID   string            `json:"run_id,omitempty"` // empty: the workflow's first run id
	Owner   string            `json:"workflow_owner,omitempty"`
	Tag     string            `json:"workflow_tag"`
	Version int64             `json:"version,omitempty"` // 0: the newest when the run begins
	Input   json.RawMessage   `json:"input,omitempty"`
	Context InvocationContext `json:"context,omitzero"`
}

// Run is one execution of a definition. It keeps the version that it began with.
type Run struct {
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"` // Temporal's
	WorkflowKey
	Version    int64           `json:"version"`
	Status     RunStatus       `json:"status"`
	Input      json.RawMessage `json:"input,omitempty"`
	UserID     string          `json:"user_id,omitempty"`
	Schedule   string          `json:"schedule,omitempty"` // the id of the schedule that started it
	Error      *Failure        `json:"error"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Steps      []RunStep       `json:"steps,omitempty"` // where one run is asked for
}

// BegunWith reports whether an input is, as JSON, the one that the run was begun with; none is null. Numbers are compared by their digits.
func (r *Run) BegunWith(input json.RawMessage) bool {
	own, ok := digits(r.Input)
	other, also := digits(input)
	return ok && also && reflect.DeepEqual(own, other)
}

// digits is JSON with its numbers as they are written, ok false when it does not parse.
func digits(raw json.RawMessage) (v any, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err == nil
}

// RunStep is one visit of a node.
type RunStep struct {
	NodeID     string          `json:"node_id"`
	Visit      int             `json:"visit"` // 1 for the first
	Type       string          `json:"type"`
	Status     RunStatus       `json:"status"`
	Outcome    string          `json:"outcome,omitempty"` // of a condition: true or false
	Output     json.RawMessage `json:"output,omitempty"`  // what the nodes behind it are given; small: rows are behind Ref
	Ref        string          `json:"ref,omitempty"`     // cas:// of its rows
	TurnID     TurnID          `json:"turn_id,omitempty"` // of an agent node
	Error      *Failure        `json:"error,omitempty"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
}

// RunResult is what DefinedWorkflow returns.
type RunResult struct {
	RunID   string    `json:"run_id"`
	Owner   string    `json:"workflow_owner"`
	Tag     string    `json:"workflow_tag"`
	Version int64     `json:"version"`
	Status  RunStatus `json:"status"`
	Steps   int       `json:"steps"` // visits
	Error   *Failure  `json:"error"`
}

// RunQuery lists runs, newest first.
type RunQuery struct {
	Tenant string
	Owner  string
	Tag    string
	Status RunStatus
	Page
}

// RunPage is a part of a list; its runs have no steps.
type RunPage struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next_page_token"`
}
