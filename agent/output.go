package agent

import "encoding/json"

// TurnStatus is the final status of a turn.
type TurnStatus string

// The final statuses of a turn.
const (
	TurnCompleted TurnStatus = "completed"
	TurnFailed    TurnStatus = "failed"
	TurnCancelled TurnStatus = "cancelled"
)

// StopReason is the reason why a turn ended.
type StopReason string

// The stop reasons. A turn that reaches a limit ends as failed.
const (
	StopEndTurn    StopReason = "end_turn"       // the model answered without asking for tools
	StopMaxTokens  StopReason = "max_tokens"     // the reply reached the model's output limit
	StopFiltered   StopReason = "content_filter" // the provider's content filter stopped the reply
	StopCancelled  StopReason = "cancelled"      // the turn was cancelled or interrupted
	StopModelError StopReason = "model_error"    // the provider failed permanently
	StopModelCalls StopReason = "model_call_limit"
	StopToolCalls  StopReason = "tool_call_limit"
	StopTokens     StopReason = "token_limit"
	StopCost       StopReason = "cost_limit"
	StopWallTime   StopReason = "wall_time_limit"
	StopIterations StopReason = "iteration_limit"

	// StopStructured: no reply satisfied the output schema. StopApprovalExpired: nobody decided an approval in time, and its OnExpiry is
	// [ExpiryEnd].
	StopStructured      StopReason = "structured_output"
	StopApprovalExpired StopReason = "approval_expired"

	// StopApprovalRequired: a tool call needs approval, and the turn does not wait for it ([ApprovalsRefuse]).
	StopApprovalRequired StopReason = "approval_required"

	StopTerminated StopReason = "terminated" // the workflow ended without a result, for example by termination
	StopRefused    StopReason = "refused"    // the request was invalid
	StopInternal   StopReason = "internal_error"
)

// CutShort returns a sentence for users if the answer of a completed turn is incomplete, "" otherwise.
func (r StopReason) CutShort() string {
	switch r {
	case StopMaxTokens:
		return "The answer is cut short: it reached the model's output limit."
	case StopFiltered:
		return "The answer is cut short: the model provider's content filter stopped it."
	default:
		return ""
	}
}

// AgentStepOutput is the result of a turn in the workflow's result, the terminal event and the HTTP API. Every field is always present. Output and
// Blocks are truncated; ResultRef refers to the complete result.
type AgentStepOutput struct {
	TurnID          TurnID          `json:"turn_id"`
	SessionID       SessionID       `json:"session_id"`
	Agent           string          `json:"agent"`
	AgentInstanceID string          `json:"agent_instance_id"`
	Status          TurnStatus      `json:"status"`
	Output          string          `json:"output"`
	Blocks          []Block         `json:"blocks"`
	Structured      json.RawMessage `json:"structured"`     // null without an output schema
	ResultRef       string          `json:"result_ref"`     // artifact://<uuid>
	ResultPreview   json.RawMessage `json:"result_preview"` // {type,row_count,sample}; null without data
	ToolCalls       []ToolCallNote  `json:"tool_calls"`
	Usage           Usage           `json:"usage"`
	StopReason      StopReason      `json:"stop_reason"`
	Error           *Failure        `json:"error"`
	StreamID        string          `json:"stream_id"`
	ExecutionTimeMS int64           `json:"execution_time_ms"`
	Model           string          `json:"model"`
}

// ToolCallNote is a tool call in a result. Its input and output are in the transcript. The result has them too if the agent's parameter
// return_intermediate_steps is true.
type ToolCallNote struct {
	ID     CallID `json:"id"`
	Tool   string `json:"tool"`
	Status string `json:"status"` // success or error
	Ref    string `json:"ref,omitempty"`

	CacheHit bool `json:"cache_hit,omitempty"` // answered from the result cache

	Input     json.RawMessage `json:"input,omitempty"`     // the arguments
	Output    json.RawMessage `json:"output,omitempty"`    // the output that the model saw
	Truncated bool            `json:"truncated,omitempty"` // input and output are too large for the result
}

// ResultMetadata is the part of a stored result besides its output.
type ResultMetadata struct {
	JobID        string          // as in the request; empty if the turn is not a job
	JobError     *Failure        // why the job failed although its turn completed; may be nil
	ToolCalls    json.RawMessage // [{tool, args, status, step, ref, duration_ms, cache_hit}] in the order of the calls; never nil
	TokensUsed   int64           // input and output
	CachedTokens int64           // the part of the input that the provider had cached
	CacheHit     bool            // the provider had cached part of the prompt
	ContentRef   string          // cas:// reference of a large result; may be empty

	PipelineCacheHit bool // a tool was answered from the result cache
}
