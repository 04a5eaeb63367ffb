package agent

import (
	"context"
	"encoding/json"
)

// Model generates one reply. Implementations make exactly one request per call and never retry: retries are middleware's.
// emit receives fragments as they arrive; an error from emit aborts the request and is returned as it is. The
// error of a provider is an [*Error] with the code, and RetryAfter where the provider named one. A connection cut in the
// middle of a stream is [CodeUnavailable], never a short success.
type Model interface {
	Generate(ctx context.Context, req ModelRequest, emit func(Delta) error) (ModelReply, error)
}

// ModelRequest is one prompt.
type ModelRequest struct {
	Profile      string          // of the plan; middleware may choose another, and its model and settings are taken then
	Model        string          // the provider's name for the model
	System       string          // the system prompt; stable per plan
	About        string          // what stands behind it, of this turn and session alone: see [ModelRequest.SystemPrompt]
	Messages     []Message       // user, assistant and tool messages in order
	Tools        []ToolSpec      // what the model may call
	ToolChoice   string          // "", "auto", "none", "required", or a tool's name
	Temperature  *float64        // nil: the provider's default
	MaxTokens    int             // 0: the provider's default
	OutputSchema json.RawMessage // JSON Schema of the answer, for a model that enforces one; empty: free text
	Cache        *PromptCache    // nil: as the provider does by itself
	Answer       []Block         // of a BeforeModel that jumps to the end; models ignore it
}

// SystemPrompt returns System and About as one text. A model that marks a prefix for its provider's cache marks the end of System.
func (r *ModelRequest) SystemPrompt() string {
	if r.System == "" || r.About == "" {
		return r.System + r.About
	}
	return r.System + "\n\n" + r.About
}

// PromptCache asks the provider to keep the stable prefix of a prompt: tools, system prompt, and the messages up to the last one.
type PromptCache struct {
	TTL string // 5m or 1h; empty: 5m
}

// Capable is a model with more or fewer capabilities than to answer and to call tools.
type Capable interface {
	Capabilities() Capabilities
}

// Capabilities are what a model can do at its provider.
type Capabilities struct {
	OutputSchema bool // it enforces ModelRequest.OutputSchema itself, also beside tools
	PromptCache  bool // it obeys ModelRequest.Cache
	InvokesTools bool // it runs tools by itself, where the runtime cannot see it
}

// Delta is a streamed fragment on its way to becoming events; never authoritative. One field is set.
type Delta struct {
	Text      string
	Reasoning string
	Block     *Block // a whole block other than text: an image, a citation, a server tool call
}

// ModelReply is the complete answer of a model.
type ModelReply struct {
	Blocks       []Block // reasoning, text and tool calls in the model's order
	Usage        Usage   // CostUSD is filled by the caller from the profile's prices
	FinishReason FinishReason
	Model        string // as the provider reports it
	Received     int64  // bytes received of a reply that was cut off, those of tool calls included; 0: unknown
	Feedback     string // of middleware that jumps to the model: what the model is told behind this reply, as a user's message
}
