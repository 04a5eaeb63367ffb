package bedrock

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// event is the payload of an event of any type.
type event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *struct {
			ID   string `json:"toolUseId"`
			Name string `json:"name"`
		} `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		Reasoning struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string `json:"stopReason"`
	Usage      struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadInputTokens"`
		CacheWrite int64 `json:"cacheWriteInputTokens"`
	} `json:"usage"`
	Message string `json:"message"`
}

// block is the part of a content block that has arrived.
type block struct {
	index              int
	text, args         strings.Builder
	reasoning          strings.Builder
	signature          string
	id, name           string
	isCall, isThinking bool
}

// reply collects the events of one reply.
type reply struct {
	call     *wire.Call
	model    string
	blocks   []*block // in order of appearance
	usage    agent.Usage
	hasUsage bool // the last event of the stream has come
	finish   agent.FinishReason
}

// add adds the payload of an event or exception.
func (r *reply) add(messageType, name string, payload []byte) error {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		return r.call.Malformed(err)
	}
	if messageType != "event" {
		return r.call.StreamError(exceptionError(name, e.Message))
	}
	switch name {
	case "contentBlockStart":
		if e.Start.ToolUse != nil {
			b := r.block(e.Index)
			b.isCall, b.id, b.name = true, e.Start.ToolUse.ID, e.Start.ToolUse.Name
			return r.call.Count(len(b.id) + len(b.name))
		}
	case "contentBlockDelta":
		return r.addDelta(&e)
	case "messageStop":
		r.finish = finishOf(e.StopReason)
	case "metadata":
		u := &e.Usage
		r.hasUsage = true
		r.usage = agent.Usage{InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output, CachedTokens: u.CacheRead}
	}
	return nil
}

func (r *reply) addDelta(e *event) error {
	b := r.block(e.Index)
	switch d := &e.Delta; {
	case d.Text != "":
		b.text.WriteString(d.Text)
		return r.call.Emit(agent.Delta{Text: d.Text})
	case d.ToolUse != nil:
		b.isCall = true
		b.args.WriteString(d.ToolUse.Input)
		return r.call.Count(len(d.ToolUse.Input))
	case d.Reasoning.Text != "":
		b.isThinking = true
		b.reasoning.WriteString(d.Reasoning.Text)
		return r.call.Emit(agent.Delta{Reasoning: d.Reasoning.Text})
	case d.Reasoning.Signature != "":
		b.isThinking = true
		b.signature += d.Reasoning.Signature
		return r.call.Count(len(d.Reasoning.Signature))
	}
	return nil
}

// block returns the block with an index. It adds one if there is none.
func (r *reply) block(index int) *block {
	if i := slices.IndexFunc(r.blocks, func(b *block) bool { return b.index == index }); i >= 0 {
		return r.blocks[i]
	}
	b := &block{index: index}
	r.blocks = append(r.blocks, b)
	return b
}

// exceptionError returns an exception of the stream as JSON for [wire.Call.StreamError], with the HTTP status that belongs to it.
func exceptionError(exception, message string) []byte {
	status := map[string]int{
		"throttlingException": 429, "validationException": 400, "accessDeniedException": 403, "resourceNotFoundException": 404,
		"serviceQuotaExceededException": 429, "modelTimeoutException": 408,
	}[exception]
	if status == 0 {
		status = 503
	}
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": exception + ": " + message}}) // cannot fail
	return b
}

func finishOf(reason string) agent.FinishReason {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return agent.FinishLength
	case "tool_use":
		return agent.FinishToolCalls
	case "content_filtered", "guardrail_intervened":
		return agent.FinishContentFilter
	default:
		return agent.FinishStop
	}
}

// partial returns the text and reasoning that have arrived, without signatures and tool calls.
func (r *reply) partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, Received: r.call.Received()}
	for _, b := range r.blocks {
		if b.reasoning.Len() > 0 {
			reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockReasoning, Reasoning: b.reasoning.String()})
		}
		if b.text.Len() > 0 {
			reply.Blocks = append(reply.Blocks, agent.Text(b.text.String()))
		}
	}
	return reply
}

// complete returns the whole reply.
func (r *reply) complete() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, FinishReason: r.finish}
	for _, b := range r.blocks {
		switch {
		case b.isCall:
			reply.Blocks = append(reply.Blocks, wire.ToolCall(b.id, b.name, b.args.String()))
		case b.isThinking:
			reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockReasoning, Reasoning: b.reasoning.String(), Signature: b.signature})
		case b.text.Len() > 0:
			reply.Blocks = append(reply.Blocks, agent.Text(b.text.String()))
		}
	}
	return reply
}
