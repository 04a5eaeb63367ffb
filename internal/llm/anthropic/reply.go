package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// reply gathers the events of one message.
type reply struct {
	call    *wire.Call
	model   string
	blocks  []*contentBlock // in order of appearance
	usage   agent.Usage
	created int64 // tokens written to the cache and read from it, which the API counts beside its input tokens
	input   int64
	finish  agent.FinishReason
	stopped bool
}

// contentBlock is a block of the message as far as it has arrived.
type contentBlock struct {
	index     int64
	kind      string
	id, name  string
	text      strings.Builder // text, thinking, or the arguments, by kind
	input     string          // arguments that came whole, with the start
	signature string
	raw       json.RawMessage // of a kind we do not know
}

func (r *reply) add(event *sdk.MessageStreamEventUnion) error {
	switch event.Type {
	case "message_start":
		if event.Message.Model != "" {
			r.model = event.Message.Model
		}
		u := event.Message.Usage
		r.count(u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	case "content_block_start":
		return r.start(event.Index, &event.ContentBlock)
	case "content_block_delta":
		return r.grow(event.Index, &event.Delta)
	case "message_delta":
		u := event.Usage
		r.count(u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
		if reason := event.Delta.StopReason; reason != "" {
			r.finish = finishOf(reason)
		}
	case "message_stop":
		r.stopped = true
	default: // content_block_stop, ping, and what the API may add
	}
	return nil
}

// count takes cumulative counts; an event that leaves one out does not reset it.
func (r *reply) count(input, created, read, output, thinking int64) {
	r.input = max(r.input, input)
	r.created = max(r.created, created)
	r.usage.CachedTokens = max(r.usage.CachedTokens, read)
	r.usage.OutputTokens = max(r.usage.OutputTokens, output)
	r.usage.ReasoningTokens = max(r.usage.ReasoningTokens, thinking)
	r.usage.InputTokens = r.input + r.created + r.usage.CachedTokens
}

func (r *reply) start(index int64, start *sdk.ContentBlockStartEventContentBlockUnion) error {
	b := &contentBlock{index: index, kind: start.Type, id: start.ID, name: start.Name, signature: start.Signature}
	r.blocks = append(r.blocks, b)
	switch b.kind {
	case "text":
		return r.write(b, start.Text)
	case "thinking":
		return r.write(b, start.Thinking)
	case "tool_use":
		if raw := start.JSON.Input.Raw(); raw != "" && raw != "null" {
			b.input = raw
		}
		return r.call.Count(len(b.id) + len(b.name) + len(b.input))
	default:
		b.raw = json.RawMessage(start.RawJSON())
		return r.call.Count(len(b.raw))
	}
}

func (r *reply) grow(index int64, delta *sdk.MessageStreamEventUnionDelta) error {
	var b *contentBlock
	for _, known := range r.blocks {
		if known.index == index {
			b = known
		}
	}
	if b == nil {
		return nil
	}
	switch delta.Type {
	case "text_delta":
		return r.write(b, delta.Text)
	case "thinking_delta":
		return r.write(b, delta.Thinking)
	case "input_json_delta":
		b.text.WriteString(delta.PartialJSON)
		return r.call.Count(len(delta.PartialJSON))
	case "signature_delta":
		b.signature += delta.Signature
		return r.call.Count(len(delta.Signature))
	default: // citations
		return nil
	}
}

func (r *reply) write(b *contentBlock, s string) error {
	if s == "" {
		return nil
	}
	b.text.WriteString(s)
	if b.kind == "thinking" {
		return r.call.Emit(agent.Delta{Reasoning: s})
	}
	return r.call.Emit(agent.Delta{Text: s})
}

func finishOf(reason sdk.StopReason) agent.FinishReason {
	switch reason {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return agent.FinishLength
	case sdk.StopReasonToolUse:
		return agent.FinishToolCalls
	case sdk.StopReasonRefusal:
		return agent.FinishContentFilter
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence, sdk.StopReasonPauseTurn:
		return agent.FinishStop
	default:
		return agent.FinishStop
	}
}

// partial is the reply so far: never authoritative, hence without tool calls and without thinking that lacks its signature.
func (r *reply) partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model}
	for _, b := range r.blocks {
		if b.kind == "text" && b.text.Len() > 0 {
			reply.Blocks = append(reply.Blocks, agent.Text(b.text.String()))
		}
	}
	return reply
}

func (r *reply) whole() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, FinishReason: r.finish}
	for _, b := range r.blocks {
		if block, ok := b.block(); ok {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply
}

// block is false for an empty one, which the API would refuse to take back.
func (b *contentBlock) block() (agent.Block, bool) {
	switch b.kind {
	case "text":
		return agent.Text(b.text.String()), b.text.Len() > 0
	case "thinking":
		return agent.Block{Type: agent.BlockReasoning, Reasoning: b.text.String(), Signature: b.signature}, true
	case redactedThinking:
		return agent.Block{Type: agent.BlockReasoning, Extras: b.raw}, true
	case "tool_use":
		args := b.text.String()
		if args == "" {
			args = b.input
		}
		return dialog.Call(b.id, b.name, args), true
	default:
		return agent.Block{Type: agent.BlockNonStandard, Value: b.raw}, len(b.raw) > 0
	}
}
