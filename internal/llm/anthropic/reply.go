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

// reply collects the events of one message.
type reply struct {
	call        *wire.Call
	model       string
	blocks      []*contentBlock // in order of appearance
	usage       agent.Usage
	input       int64 // tokens, without those of the cache
	cacheWrites int64 // tokens written to the cache
	finish      agent.FinishReason
	hasEnded    bool
}

// contentBlock is the part of a block that has arrived.
type contentBlock struct {
	index     int64
	kind      string
	id, name  string
	text      strings.Builder // text, thinking or arguments, depending on the kind
	input     json.RawMessage // arguments in the start of the block
	signature string
	citations []agent.Annotation
	raw       json.RawMessage // the start of the block
	callID    string          // of a result
	isEmitted bool            // as a whole block
}

// add adds one event. It ignores events without a name or data.
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
		r.setUsage(&event.Message.Usage)
	case "content_block_start":
		return r.startBlock(event.Index, event.ContentBlock)
	case "content_block_delta":
		if b := r.findBlock(event.Index); b != nil {
			return r.addDelta(b, &event.Delta)
		}
	case "content_block_stop":
		if b := r.findBlock(event.Index); b != nil {
			return r.emitBlock(b)
		}
	case "message_delta":
		r.setUsage(&event.Usage)
		if reason := event.Delta.StopReason; reason != "" {
			r.finish = finishOf(reason)
		}
	case "message_stop":
		r.hasEnded = true
	default: // ping, and new events
	}
	return nil
}

// setUsage sets the usage. Events have cumulative counts, and may leave some out.
func (r *reply) setUsage(u *usage) {
	r.input = max(r.input, u.InputTokens)
	r.cacheWrites = max(r.cacheWrites, u.CacheCreationInputTokens)
	r.usage.CachedTokens = max(r.usage.CachedTokens, u.CacheReadInputTokens)
	r.usage.OutputTokens = max(r.usage.OutputTokens, u.OutputTokens)
	r.usage.ReasoningTokens = max(r.usage.ReasoningTokens, u.OutputTokensDetails.ThinkingTokens)
	r.usage.InputTokens = r.input + r.cacheWrites + r.usage.CachedTokens
}

func (r *reply) startBlock(index int64, raw json.RawMessage) error {
	var start blockStart
	_ = wire.Decode(raw, &start) // an unreadable block has no type
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

// findBlock returns the last content block with an index, nil if there is none.
func (r *reply) findBlock(index int64) *contentBlock {
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
		a, ok := citationAnnotation(delta.Citation)
		if !ok {
			return nil
		}
		b.citations = append(b.citations, a)
		if err := r.call.Count(len(delta.Citation)); err != nil {
			return err
		}
		return r.call.Emit(agent.Delta{Block: &agent.Block{Type: agent.BlockText, Annotations: []agent.Annotation{a}}})
	default: // new types
		return nil
	}
}

// emitBlock emits a complete block once, unless it is text, thinking or a tool call.
func (r *reply) emitBlock(b *contentBlock) error {
	switch b.kind {
	case "text", "thinking", "tool_use":
		return nil
	}
	block, ok := r.agentBlock(b)
	if b.isEmitted || !ok {
		return nil
	}
	b.isEmitted = true
	return r.call.Emit(agent.Delta{Block: &block})
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

// partial returns the text that has arrived. A partial reply is never used as an answer, so it has no tool calls and no thinking.
func (r *reply) partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, Received: r.call.Received()}
	for _, b := range r.blocks {
		if block, ok := r.agentBlock(b); ok && b.kind == "text" {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply
}

// end returns the reply after a stream that ended with streamError.
func (r *reply) end(streamError error) (agent.ModelReply, error) {
	if streamError != nil {
		streamError = r.call.Malformed(streamError)
	}
	if err := r.call.Failure(streamError); err != nil {
		return r.partial(), err
	}
	if r.finish == "" {
		return r.partial(), r.call.Incomplete()
	}
	for _, b := range r.blocks { // the end of a block may not have been sent
		if err := r.emitBlock(b); err != nil {
			return r.partial(), r.call.Failure(err)
		}
	}
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, FinishReason: r.finish}
	for _, b := range r.blocks {
		if block, ok := r.agentBlock(b); ok {
			reply.Blocks = append(reply.Blocks, block)
		}
	}
	return reply, nil
}

// agentBlock returns a content block as an [agent.Block], false for an empty one, which the API would refuse to take back.
func (r *reply) agentBlock(b *contentBlock) (agent.Block, bool) {
	args := b.text.String()
	if args == "" {
		args = string(b.input)
	}
	switch {
	case b.kind == "text":
		text := agent.Text(b.text.String())
		text.Annotations = b.citations
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

// serverResult returns the result of a tool that the provider ran.
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
