package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

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
	input     json.RawMessage // arguments that came whole, with the start
	signature string
	cited     []agent.Annotation
	raw       json.RawMessage // of a kind that comes whole, with the start
	callID    string          // of a result: the call it answers
	isEmitted bool            // as a whole block
}

// add takes one event. Those without a name or data are no part of the protocol.
func (r *reply) add(e ssestream.Event) error {
	switch {
	case e.Type == "error":
		return r.call.StreamError(e.Data)
	case e.Type == "", e.Type == "ping", len(bytes.TrimSpace(e.Data)) == 0:
		return nil
	}
	var event event
	if err := wire.Decode(e.Data, &event); err != nil {
		return r.call.Malformed(err)
	}
	return r.addEvent(&event)
}

func (r *reply) addEvent(event *event) error {
	switch event.Type {
	case "message_start":
		if event.Message.Model != "" {
			r.model = event.Message.Model
		}
		r.count(&event.Message.Usage)
	case "content_block_start":
		return r.start(event.Index, event.ContentBlock)
	case "content_block_delta":
		if b := r.block(event.Index); b != nil {
			return r.addDelta(b, &event.Delta)
		}
	case "content_block_stop":
		if b := r.block(event.Index); b != nil {
			return r.emitBlock(b)
		}
	case "message_delta":
		r.count(&event.Usage)
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
func (r *reply) count(u *usage) {
	r.input = max(r.input, u.InputTokens)
	r.created = max(r.created, u.CacheCreationInputTokens)
	r.usage.CachedTokens = max(r.usage.CachedTokens, u.CacheReadInputTokens)
	r.usage.OutputTokens = max(r.usage.OutputTokens, u.OutputTokens)
	r.usage.ReasoningTokens = max(r.usage.ReasoningTokens, u.OutputTokensDetails.ThinkingTokens)
	r.usage.InputTokens = r.input + r.created + r.usage.CachedTokens
}

func (r *reply) start(index int64, raw json.RawMessage) error {
	var start blockStart
	_ = wire.Decode(raw, &start) // what cannot be read has no type
	b := &contentBlock{index: index, kind: start.Type, id: start.ID, name: start.Name, signature: start.Signature, raw: raw}
	r.blocks = append(r.blocks, b)
	switch b.kind {
	case "text":
		return r.addText(b, start.Text)
	case "thinking":
		return r.addText(b, start.Thinking)
	case "tool_use", serverToolUse:
		b.input = start.Input
		return r.call.Count(len(b.id) + len(b.name) + len(b.input))
	default:
		b.callID = start.ToolUseID
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

func (r *reply) addDelta(b *contentBlock, delta *delta) error {
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
		a, ok := citation(delta.Citation)
		if !ok {
			return nil
		}
		b.cited = append(b.cited, a)
		if err := r.call.Count(len(delta.Citation)); err != nil {
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

func finishOf(reason string) agent.FinishReason {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return agent.FinishLength
	case "tool_use":
		return agent.FinishToolCalls
	case "refusal":
		return agent.FinishContentFilter
	default: // end_turn, stop_sequence, pause_turn
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

// end returns the reply. streamError is how the stream ended.
func (r *reply) end(streamError error) (agent.ModelReply, error) {
	if streamError != nil {
		streamError = r.call.Malformed(streamError)
	}
	if err := r.call.Failure(streamError); err != nil {
		return r.partial(), err
	}
	if r.finish == "" {
		return r.partial(), r.call.Cut()
	}
	if err := r.emitRest(); err != nil {
		return r.partial(), r.call.Failure(err)
	}
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, FinishReason: r.finish}
	for _, b := range r.blocks {
		if block, ok := r.blockOf(b); ok {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply, nil
}

// blockOf is false for an empty block, which the API would refuse to take back.
func (r *reply) blockOf(b *contentBlock) (agent.Block, bool) {
	args := b.text.String()
	if args == "" {
		args = string(b.input)
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
		return agent.Block{Type: agent.BlockNonStandard, Value: b.raw}, len(b.raw) > 0
	}
}

// serverResult is the result of a tool that the provider ran.
func (r *reply) serverResult(b *contentBlock) (agent.Block, bool) {
	var parts struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(b.raw, &parts) != nil || len(parts.Content) == 0 {
		parts.Content = json.RawMessage("null")
	}
	result := agent.Block{
		Type: agent.BlockServerToolResult, ToolCallID: agent.CallID(b.callID), Status: agent.ResultSuccess, Output: parts.Content,
		Extras: extrasOf(b.raw, "tool_use_id", "content"),
	}
	var failure struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(parts.Content, &failure) == nil && strings.HasSuffix(failure.Type, errorSuffix) {
		result.Status = agent.ResultError
	}
	for _, call := range r.blocks {
		if call.kind == serverToolUse && call.id == b.callID {
			result.Name = call.name
		}
	}
	return result, true
}
