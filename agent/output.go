package agent

import "encoding/json"

// TurnStatus is the end of a turn.
type TurnStatus string

// The three ends of a turn.
const (
	TurnCompleted TurnStatus = "completed"
	TurnFailed    TurnStatus = "failed"
	TurnCancelled TurnStatus = "cancelled"
)

// StopReason says why a turn ended.
type StopReason string

// The stop reasons. Those named after a limit end a turn as failed.
const (
	StopEndTurn    StopReason = "end_turn"       // the model answered without asking for tools
	StopMaxTokens  StopReason = "max_tokens"     // the model ran into its output bound
	StopFiltered   StopReason = "content_filter" // the provider's content filter cut the answer
	StopCancelled  StopReason = "cancelled"      // somebody cancelled or interrupted
	StopModelError StopReason = "model_error"    // the provider failed for good
	StopModelCalls StopReason = "model_call_limit"
	StopToolCalls  StopReason = "tool_call_limit"
	StopTokens     StopReason = "token_limit"
	StopCost       StopReason = "cost_limit"
	StopWallTime   StopReason = "wall_time_limit"
	StopIterations StopReason = "iteration_limit"

	// StopStructured: no reply satisfied the output schema. StopApprovalExpired: nobody decided in time, and the approval says that the turn
	// then fails.
	StopStructured      StopReason = "structured_output"
	StopApprovalExpired StopReason = "approval_expired"

	// StopApprovalRequired: a tool call needs an approval, and the turn does not wait for one ([ApprovalsRefuse]).
	StopApprovalRequired StopReason = "approval_required"

	StopTerminated StopReason = "terminated" // the workflow ended without a result, for example because it was terminated
	StopRefused    StopReason = "refused"    // the request was not acceptable
	StopInternal   StopReason = "internal_error"
)

// CutShort returns a sentence for people if the answer of a completed turn is not whole, "" if it is.
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

// AgentStepOutput is the result of a turn: what the workflow returns, what the terminal event carries, what the HTTP API
// answers. Every field is always present; Output and Blocks are capped and ResultRef carries the rest.
type AgentStepOutput struct {
	TurnID          TurnID          `json:"turn_id"`
	SessionID       SessionID       `json:"session_id"`
	Agent           string          `json:"agent"`
	AgentInstanceID string          `json:"agent_instance_id"`
	Status          TurnStatus      `json:"status"`
	Output          string          `json:"output"`
	Blocks          []Block         `json:"blocks"`
	Structured      json.RawMessage `json:"structured"`     // null when no schema was asked for
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

// ToolCallNote is a tool call in a result. Its input and output are in the transcript; the result has them too where
// the agent's parameter return_intermediate_steps is true.
type ToolCallNote struct {
	ID     CallID `json:"id"`
	Tool   string `json:"tool"`
	Status string `json:"status"` // success or error
	Ref    string `json:"ref,omitempty"`

	CacheHit bool `json:"cache_hit,omitempty"` // answered out of the result cache

	Input     json.RawMessage `json:"input,omitempty"`     // the arguments
	Output    json.RawMessage `json:"output,omitempty"`    // what the model was answered
	Truncated bool            `json:"truncated,omitempty"` // input and output are too large for the result
}

// ResultMetadata is the rest of a finished turn's row, besides its output.
type ResultMetadata struct {
	JobID        string          // as whoever asked for the job wrote it; empty for a turn that is no job
	JobError     *Failure        // why the work of the job failed although its turn completed; nil otherwise
	ToolCalls    json.RawMessage // [{tool, args, status, step, ref, duration_ms, cache_hit}] in the order of the calls; never nil
	TokensUsed   int64           // input and output
	CachedTokens int64           // of the input, those that the provider had cached
	CacheHit     bool            // the provider had cached some of the prompt
	ContentRef   string          // cas://… of the result's content, when it is too large for the row; empty otherwise

	PipelineCacheHit bool // a tool answered out of the result cache
}
