package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnstone-run/turnstone/agent"
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
	cited     []agent.Annotation
	raw       string // of a kind that comes whole, with the start
	callID    string // of a result: the call it answers
	isEmitted bool   // as a whole block
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
		if b := r.block(event.Index); b != nil {
			return r.addDelta(b, &event.Delta)
		}
	case "content_block_stop":
		if b := r.block(event.Index); b != nil {
			return r.emitBlock(b)
		}
	case "message_delta":
		u := event.Usage
		r.count(u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
		if reason := event.Delta.StopReason; reason != "" {
			r.finish = finishOf(reason)
		}
	case "message_stop":
		r.stopped = true
	default: // ping, and what the API may add
	}
	return nil
}

// count records cumulative counts. An event without a count does not reset it.
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
		return r.addText(b, start.Text)
	case "thinking":
		return r.addText(b, start.Thinking)
	case "tool_use", serverToolUse:
		b.raw = start.RawJSON()
		if raw := start.JSON.Input.Raw(); raw != "" && raw != "null" {
			b.input = raw
		}
		return r.call.Count(len(b.id) + len(b.name) + len(b.input))
	default:
		b.raw, b.callID = start.RawJSON(), start.ToolUseID
		return r.call.Count(len(b.raw))
	}
}

// block finds a content block; a message may have a few hundred at most.
func (r *reply) block(index int64) *contentBlock {
	for _, b := range slices.Backward(r.blocks) {
		if b.index == index {
			return b
		}
	}
	return nil
}

func (r *reply) addDelta(b *contentBlock, delta *sdk.MessageStreamEventUnionDelta) error {
	switch delta.Type {
	case "text_delta":
		return r.addText(b, delta.Text)
	case "thinking_delta":
		return r.addText(b, delta.Thinking)
	case "input_json_delta":
		b.text.WriteString(delta.PartialJSON)
		return r.call.Count(len(delta.PartialJSON))
	case "signature_delta":
		b.signature += delta.Signature
		return r.call.Count(len(delta.Signature))
	case "citations_delta":
		raw := delta.Citation.RawJSON()
		a, ok := citation(raw)
		if !ok {
			return nil
		}
		b.cited = append(b.cited, a)
		if err := r.call.Count(len(raw)); err != nil {
			return err
		}
		return r.call.Emit(agent.Delta{Block: &agent.Block{Type: agent.BlockText, Annotations: []agent.Annotation{a}}})
	default: // what the API may add
		return nil
	}
}

// emitBlock emits a block that has ended, unless it is text, reasoning or a tool call.
func (r *reply) emitBlock(b *contentBlock) error {
	switch b.kind {
	case "text", "thinking", "tool_use":
		return nil
	}
	block, ok := r.blockOf(b)
	if b.isEmitted || !ok {
		return nil
	}
	b.isEmitted = true
	return r.call.Emit(agent.Delta{Block: &block})
}

// emitRest emits the blocks whose end was not announced.
func (r *reply) emitRest() error {
	for _, b := range r.blocks {
		if err := r.emitBlock(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) addText(b *contentBlock, s string) error {
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
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, Received: r.call.Received()}
	for _, b := range r.blocks {
		if block, ok := r.blockOf(b); ok && b.kind == "text" {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply
}

func (r *reply) complete() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, FinishReason: r.finish}
	for _, b := range r.blocks {
		if block, ok := r.blockOf(b); ok {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply
}

// blockOf is false for an empty block, which the API would refuse to take back.
func (r *reply) blockOf(b *contentBlock) (agent.Block, bool) {
	args := b.text.String()
	if args == "" {
		args = b.input
	}
	switch {
	case b.kind == "text":
		text := agent.Text(b.text.String())
		text.Annotations = b.cited
		return text, b.text.Len() > 0
	case b.kind == "thinking":
		return agent.Block{Type: agent.BlockReasoning, Reasoning: b.text.String(), Signature: b.signature}, true
	case b.kind == "tool_use":
		return wire.ToolCall(b.id, b.name, args), true
	case b.kind == serverToolUse && b.id != "" && b.name != "":
		call := wire.ToolCall(b.id, b.name, args)
		call.Type, call.Error, call.Extras = agent.BlockServerToolCall, "", extrasOf(b.raw, "id", "name", "input")
		return call, true
	case strings.HasSuffix(b.kind, resultSuffix) && b.callID != "":
		return r.serverResult(b)
	default:
		return agent.Block{Type: agent.BlockNonStandard, Value: json.RawMessage(b.raw)}, b.raw != ""
	}
}

// serverResult is the result of a tool that the provider ran.
func (r *reply) serverResult(b *contentBlock) (agent.Block, bool) {
	var parts struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal([]byte(b.raw), &parts) != nil || len(parts.Content) == 0 {
		parts.Content = json.RawMessage("null")
	}
	result := agent.Block{
		Type: agent.BlockServerToolResult, ToolCallID: agent.CallID(b.callID), Status: agent.ResultSuccess, Output: parts.Content,
		Extras: extrasOf(b.raw, "tool_use_id", "content"),
	}
	var failure struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(parts.Content, &failure) == nil && strings.HasSuffix(failure.Type, "_error") {
		result.Status = agent.ResultError
	}
	for _, call := range r.blocks {
		if call.kind == serverToolUse && call.id == b.callID {
			result.Name = call.name
		}
	}
	return result, true
}
