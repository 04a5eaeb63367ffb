package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// The bounds of a result message. The stored result, which result_ref names, is complete.
const (
	MaxResultBytes    = 4 << 20 // that [ParseResult] reads
	maxOutputBytes    = 64 << 10
	maxPreviewBytes   = 256 << 10
	maxToolCallsBytes = 256 << 10
)

// Status is the outcome of a job.
type Status string

// The outcomes of a job. A cancelled turn is a failed job with an error of the type cancelled.
const (
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
)

// Result is the output message.
type Result struct {
	Version       string          `json:"version"`
	JobID         string          `json:"job_id"`
	Status        Status          `json:"status"`
	ResultRef     string          `json:"result_ref,omitempty"` // artifact://<uuid>; cas://… of content that is too large for the row
	ResultPreview json.RawMessage `json:"result_preview,omitempty"`
	Output        string          `json:"output,omitempty"`   // the answer's text, up to 64 KiB
	Metadata      *Metadata       `json:"metadata,omitempty"` // nil: no turn ran
	Error         *agent.Failure  `json:"error,omitempty"`    // of a failed job
	CompletedAt   time.Time       `json:"completed_at"`

	// Additions to the documented message.
	Approvals []Approval `json:"approvals,omitempty"` // to be decided by a person, with an error of the type approval_required
	Waiting   bool       `json:"waiting,omitempty"`   // the job continues when they are decided, and another message with the result follows
}

// Approval is a tool call that needs a person's approval.
type Approval struct {
	ApprovalID string `json:"approval_id"`
	Tool       string `json:"tool"`
	Command    string `json:"command,omitempty"` // to approve it; empty: a decision would not help a later attempt
}

// Metadata describes how the result was made.
type Metadata struct {
	ToolCalls       json.RawMessage `json:"tool_calls"` // [{tool, args, …}]
	TokensUsed      int64           `json:"tokens_used"`
	CacheHit        bool            `json:"cache_hit"` // the provider had cached some of the prompt
	ExecutionTimeMS int64           `json:"execution_time_ms"`
	LLMModel        string          `json:"llm_model"`

	// Additions to the documented message.
	PipelineCacheHit bool `json:"pipeline_cache_hit,omitempty"` // a tool answered out of the result cache

	CachedTokens int64            `json:"cached_tokens,omitempty"`
	TurnID       agent.TurnID     `json:"turn_id,omitempty"`
	SessionID    agent.SessionID  `json:"session_id,omitempty"`
	RetryCount   int              `json:"retry_count,omitempty"` // of the answered job
	StopReason   agent.StopReason `json:"stop_reason,omitempty"`
}

// ResultOf returns the result of a job whose turn has ended. If meta is empty because the turn has no row, the output replaces it.
func ResultOf(j *Job, out *agent.AgentStepOutput, meta agent.ResultMetadata, at time.Time) Result {
	r := Result{
		Version: Version, JobID: j.JobID, Status: StatusCompleted, ResultRef: cmp.Or(meta.ContentRef, out.ResultRef), CompletedAt: messageTime(at),
		Output: clip.Prefix(out.Output, maxOutputBytes),
		Metadata: &Metadata{
			ToolCalls: meta.ToolCalls, TokensUsed: meta.TokensUsed, CacheHit: meta.CacheHit, CachedTokens: meta.CachedTokens,
			PipelineCacheHit: meta.PipelineCacheHit,
			ExecutionTimeMS:  out.ExecutionTimeMS, LLMModel: out.Model, TurnID: out.TurnID, SessionID: out.SessionID,
			RetryCount: j.RetryCount, StopReason: out.StopReason,
		},
	}
	if len(out.ResultPreview) <= maxPreviewBytes && !bytes.Equal(out.ResultPreview, []byte("null")) {
		r.ResultPreview = out.ResultPreview
	}
	if m := r.Metadata; m.ToolCalls == nil || len(m.ToolCalls) > maxToolCallsBytes {
		m.ToolCalls = toolCallNotes(out)
	}
	if meta.ToolCalls == nil {
		m := r.Metadata
		m.TokensUsed, m.CachedTokens = out.Usage.InputTokens+out.Usage.OutputTokens, out.Usage.CachedTokens
		m.CacheHit = m.CachedTokens > 0
		m.PipelineCacheHit = slices.ContainsFunc(out.ToolCalls, func(c agent.ToolCallNote) bool { return c.CacheHit })
	}
	switch {
	case out.Status != agent.TurnCompleted:
		r.Status, r.Error = StatusFailed, failure(out)
	case meta.JobError != nil:
		r.Status, r.Error = StatusFailed, meta.JobError
	}
	return r
}

// Failed returns the result of a job without a turn.
func Failed(jobID string, err error, retryable bool, at time.Time) Result {
	f := agent.FailureOf(err)
	f.Retryable = retryable
	return Result{Version: Version, JobID: jobID, Status: StatusFailed, Error: f, CompletedAt: messageTime(at)}
}

// Waiting returns the first result of a job that waits for a person. Another one follows when the approvals are decided and the turn has ended.
func Waiting(jobID string, approvals []Approval, at time.Time) Result {
	var commands []string
	for _, a := range approvals {
		commands = append(commands, a.Command)
	}
	f := &agent.Failure{
		Type: string(agent.StopApprovalRequired), Tool: approvals[0].Tool,
		Message: "the job waits for a person. To decide: " + strings.Join(commands, "; ") + ". A second message follows with the result",
	}
	return Result{Version: Version, JobID: jobID, Status: StatusFailed, Error: f, Approvals: approvals, Waiting: true, CompletedAt: messageTime(at)}
}

// failure returns the failure of a turn that did not complete, also if its output has no error.
func failure(out *agent.AgentStepOutput) *agent.Failure {
	f := agent.Failure{Type: string(out.StopReason), Message: fmt.Sprintf("the turn ended as %s: %s", out.Status, out.StopReason)}
	if out.Error != nil {
		f = *out.Error
	}
	if out.Status == agent.TurnCancelled {
		f.Type = string(agent.CodeCancelled)
	}
	return &f
}

// toolCallNotes returns the tool calls without their arguments.
func toolCallNotes(out *agent.AgentStepOutput) json.RawMessage {
	type note struct {
		Tool     string `json:"tool"`
		Status   string `json:"status"`
		CacheHit bool   `json:"cache_hit,omitempty"`
	}
	list := []note{}
	for i := range out.ToolCalls {
		c := &out.ToolCalls[i]
		list = append(list, note{Tool: c.Tool, Status: c.Status, CacheHit: c.CacheHit})
	}
	raw, err := encode(list)
	if err != nil || len(raw) > maxToolCallsBytes {
		return json.RawMessage("[]")
	}
	return raw
}

// Encode returns the message.
func (r *Result) Encode() ([]byte, error) {
	raw, err := encode(r)
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInternal, Op: "encode result", Err: err}
	}
	return raw, nil
}

// ParseResult parses a result of any 1.x and, like [Parse], ignores unknown fields.
func ParseResult(raw []byte) (Result, error) {
	if len(raw) > MaxResultBytes {
		return Result{}, agent.FieldErrorf(agent.CodeOverflow, "", "the message is %d bytes, at most %d", len(raw), MaxResultBytes)
	}
	if err := checkVersion(raw); err != nil {
		return Result{}, err
	}
	var m lenient[Result]
	if err := strictjson.Decode(raw, &m); err != nil {
		return Result{}, err
	}
	r := m.v
	switch {
	case r.JobID == "":
		return Result{}, agent.Invalid("job_id", "is missing")
	case r.Status != StatusCompleted && r.Status != StatusFailed:
		return Result{}, agent.Invalid("status", "is %.64q, want completed or failed", string(r.Status))
	case r.Status == StatusFailed && r.Error == nil:
		return Result{}, agent.Invalid("error", "is missing")
	}
	return r, nil
}

// messageTime returns a time as messages have it: UTC, in whole milliseconds.
func messageTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
