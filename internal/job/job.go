// Package job is the message protocol 1.x of an orchestrator's jobs: a [Job] comes in, becomes an [agent.Envelope], and
// its turn's end goes out as a [Result].
//
// Version 1.x only ever adds optional fields, so any 1.x is read, and fields that are not known here are ignored at every level. All that
// a job must have is its version, its id and a prompt:
//
//	{"version": "1.0", "job_id": "test-job-123", "prompt": "fetch flights, sort by price, top 3"}
package job

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Version is what this package writes.
const Version = "1.0"

// The bounds of a message.
const (
	MaxMessageBytes    = 1 << 20
	MaxPromptBytes     = 256 << 10
	MaxIDBytes         = 256 // of each of the ids and names
	MaxRefBytes        = 1024
	MaxPreviousResults = 100
	MaxDepth           = 64 // of nested objects and arrays
	MaxTimeoutSec      = 86_400
	MaxRetryCount      = 100

	DefaultTimeoutSec = 300
)

// Job is the input message.
type Job struct {
	Version       string    `json:"version"`
	JobID         string    `json:"job_id"`
	RunID         string    `json:"run_id,omitempty"`
	NodeID        string    `json:"node_id,omitempty"`
	WorkflowTag   string    `json:"workflow_tag,omitempty"`
	WorkflowOwner string    `json:"workflow_owner,omitempty"`
	UserID        string    `json:"user_id,omitempty"`
	Prompt        string    `json:"prompt"`
	Context       Context   `json:"context,omitzero"`
	TimeoutSec    int       `json:"timeout_sec"` // of work; the time that a person takes to decide is not counted
	RetryCount    int       `json:"retry_count"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
}

// Context is what the job builds on.
type Context struct {
	PreviousResults []PreviousResult `json:"previous_results,omitempty"`
	WorkflowState   json.RawMessage  `json:"workflow_state,omitempty"` // an object
	SessionID       string           `json:"session_id,omitempty"`     // as [agent.SessionID.Valid] wants it; empty: a session of the job's own
	Agent           string           `json:"agent,omitempty"`          // empty: routing decides
}

// PreviousResult is what an earlier node of the orchestrator's workflow left.
type PreviousResult struct {
	NodeID    string          `json:"node_id,omitempty"`
	ResultRef string          `json:"result_ref,omitempty"`
	Preview   json.RawMessage `json:"preview,omitempty"`
}

// Encode writes the message. A job without a version or a timeout gets the usual ones; what [Parse] would refuse is refused here as it would
// be there.
func (j *Job) Encode() ([]byte, error) {
	full := *j
	if full.Version == "" {
		full.Version = Version
	}
	if full.TimeoutSec == 0 {
		full.TimeoutSec = DefaultTimeoutSec
	}
	raw, err := encode(full)
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInvalid, Op: "encode job", Err: err}
	}
	if _, err := Parse(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// encode writes JSON as it was given, < > and & too: what was read and is written again stays the same.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
