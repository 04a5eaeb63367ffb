// Package job has the messages of the job protocol 1.x, by which an orchestrator uses agents: a [Job] becomes an [agent.Envelope], and the end of
// its turn becomes a [Result].
//
// Minor versions only add optional fields, so every 1.x is read, and unknown fields are ignored at every level. A job must have a version, an id and
// a prompt:
//
//	{"version": "1.0", "job_id": "test-job-123", "prompt": "fetch flights, sort by price, top 3"}
package job

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Version is the version that this package writes.
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
	TimeoutSec    int       `json:"timeout_sec"` // without the time in which a person decides
	RetryCount    int       `json:"retry_count"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
}

// Context is the context of a job.
type Context struct {
	PreviousResults []PreviousResult `json:"previous_results,omitempty"`
	WorkflowState   json.RawMessage  `json:"workflow_state,omitempty"` // an object
	SessionID       string           `json:"session_id,omitempty"`     // a valid [agent.SessionID]; empty: a new session
	Agent           string           `json:"agent,omitempty"`          // empty: routing decides
}

// PreviousResult is the result of an earlier node of the orchestrator's workflow.
type PreviousResult struct {
	NodeID    string          `json:"node_id,omitempty"`
	ResultRef string          `json:"result_ref,omitempty"`
	Preview   json.RawMessage `json:"preview,omitempty"`
}

// Encode returns the message, with the default version and timeout if the job has none. It returns the error of [Parse] for an invalid job.
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

// encode returns v as JSON without escapes for <, > and &, so that a message stays the same when it is read and written again.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
