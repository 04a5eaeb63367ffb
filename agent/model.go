package agent

import (
	"context"
	"encoding/json"
)

// Model generates replies. Generate makes exactly one request and does not retry, because middleware does. It calls emit for each fragment. If emit
// fails, Generate aborts the request and returns the unchanged error. Errors of the provider are [*Error], with RetryAfter if the provider has set a
// delay. A connection that is lost during a stream is [CodeUnavailable], never a shortened reply.
type Model interface {
	Generate(ctx context.Context, req ModelRequest, emit func(Delta) error) (ModelReply, error)
}

// ModelRequest is a request to a model.
type ModelRequest struct {
	Profile      string          // a profile of the plan; if middleware changes it, the model and settings of that profile apply
	Model        string          // the provider's name of the model
	System       string          // the system prompt of the plan
	About        string          // the part of the system prompt that belongs to the turn and session, see [ModelRequest.SystemPrompt]
	Messages     []Message       // user, assistant and tool messages in order
	Tools        []ToolSpec      // the tools that the model may call
	ToolChoice   string          // "", "auto", "none", "required", or a tool's name
	Temperature  *float64        // nil: the provider's default
	MaxTokens    int             // 0: the provider's default
	OutputSchema json.RawMessage // JSON Schema of the answer, for models that enforce one; empty: free text
	Cache        *PromptCache    // nil: the provider's default
	Answer       []Block         // the reply of a BeforeModel that jumps to the end; models ignore it
}

// SystemPrompt returns System and About as one text. Models that mark a cacheable prefix mark the end of System.
func (r *ModelRequest) SystemPrompt() string {
	if r.System == "" || r.About == "" {
		return r.System + r.About
	}
	return r.System + "\n\n" + r.About
}

// PromptCache asks the provider to cache the prefix of a prompt: tools, system prompt and all messages.
type PromptCache struct {
	TTL string // 5m or 1h; empty: 5m
}

// Capable is implemented by models with optional capabilities.
type Capable interface {
	Capabilities() Capabilities
}

// Capabilities are the optional capabilities of a model.
type Capabilities struct {
	OutputSchema bool // it enforces ModelRequest.OutputSchema, also together with tools
	PromptCache  bool // it supports ModelRequest.Cache
	InvokesTools bool // it runs tools by itself, unseen by the runtime
}

// Delta is a streamed fragment of a reply. Exactly one field is set. The complete [ModelReply] is authoritative.
type Delta struct {
	Text      string
	Reasoning string
	Block     *Block // a complete block other than text: an image, a citation, a server tool call
}

// ModelReply is the complete answer of a model.
type ModelReply struct {
	Blocks       []Block // reasoning, text and tool calls in the model's order
	Usage        Usage   // without CostUSD, which the caller computes from the prices of the profile
	FinishReason FinishReason
	Model        string // as reported by the provider
	Received     int64  // bytes received of an interrupted reply, including tool calls; 0 if unknown
	Feedback     string // set by middleware that jumps to the model: a user message that follows the reply
}
