package llmtest

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// Anthropic is the dialect of the messages API.
type Anthropic struct{}

// BaseURL implements Dialect.
func (Anthropic) BaseURL(server string) string { return server }

// Path implements Dialect.
func (Anthropic) Path() string { return "/v1/messages" }

// ContentType implements Dialect.
func (Anthropic) ContentType() string { return "text/event-stream; charset=utf-8" }

func event(kind string, fields object) string {
	fields["type"] = kind
	return "event: " + kind + "\ndata: " + marshal(fields) + "\n\n"
}

// Frames implements Dialect. Consecutive fragments of text or of reasoning share a content block. The blocks of calls stay open to the end, so that
// fragments of several calls may interleave.
func (Anthropic) Frames(r Reply) []string {
	w := &anthropicWriter{blocks: map[int]int{}}
	w.add(event("message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": ModelName, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": r.Usage.InputTokens - r.Usage.CachedTokens, "cache_creation_input_tokens": 0,
			"cache_read_input_tokens": r.Usage.CachedTokens, "output_tokens": 1, "service_tier": "standard",
		},
	}}), event("ping", object{}))
	for _, e := range r.Events {
		w.writeEvent(e)
	}
	w.endBlock()
	for _, index := range w.calls {
		w.add(event("content_block_stop", object{"index": index}))
	}
	w.add(event("message_delta", object{
		"delta": object{"stop_reason": anthropicReasons[r.Finish], "stop_sequence": nil},
		"usage": object{"output_tokens": r.Usage.OutputTokens, "output_tokens_details": object{"thinking_tokens": r.Usage.ReasoningTokens}},
	}), event("message_stop", object{}))
	return w.frames
}

var anthropicReasons = map[agent.FinishReason]string{
	agent.FinishStop: "end_turn", agent.FinishToolCalls: "tool_use", agent.FinishLength: "max_tokens", agent.FinishContentFilter: "refusal",
}

type anthropicWriter struct {
	frames []string
	next   int         // index of the next content block
	open   string      // kind of the open text or thinking block; empty: none is open
	blocks map[int]int // call index → content block index
	calls  []int       // content block indexes
}

func (w *anthropicWriter) add(frames ...string) { w.frames = append(w.frames, frames...) }

func (w *anthropicWriter) endBlock() {
	if w.open != "" {
		w.add(event("content_block_stop", object{"index": w.next - 1}))
	}
	w.open = ""
}

func (w *anthropicWriter) startBlock(kind string, block object) {
	if w.open == kind {
		return
	}
	w.endBlock()
	w.add(event("content_block_start", object{"index": w.next, "content_block": block}))
	w.next++
	w.open = kind
}

func (w *anthropicWriter) writeDelta(index int, delta object) {
	w.add(event("content_block_delta", object{"index": index, "delta": delta}))
}

func (w *anthropicWriter) writeEvent(e Event) {
	switch {
	case e.Text != "":
		w.startBlock("text", object{"type": "text", "text": ""})
		w.writeDelta(w.next-1, object{"type": "text_delta", "text": e.Text})
	case e.Reasoning != "":
		w.startBlock("thinking", object{"type": "thinking", "thinking": "", "signature": ""})
		w.writeDelta(w.next-1, object{"type": "thinking_delta", "thinking": e.Reasoning})
	case e.Signature != "":
		w.writeDelta(w.next-1, object{"type": "signature_delta", "signature": e.Signature})
	case e.Citation != nil:
		w.writeDelta(w.next-1, object{"type": "citations_delta", "citation": webCitation(e.Citation)})
	case e.Call != nil:
		w.writeCall("tool_use", e.Call)
	case e.ServerCall != nil:
		w.writeCall("server_tool_use", e.ServerCall)
	case e.Redacted != "":
		w.writeBlock(object{"type": "redacted_thinking", "data": e.Redacted})
	case e.ServerResult != nil:
		r := e.ServerResult
		w.writeBlock(object{"type": r.Kind, "tool_use_id": r.CallID, "content": r.Content, "caller": object{"type": "direct"}})
	case e.Unknown != nil:
		w.writeBlock(e.Unknown)
	}
}

func webCitation(a *agent.Annotation) object {
	return object{
		"type": "web_search_result_location", "url": a.URL, "title": a.Title, "cited_text": a.CitedText, "encrypted_index": "ZW5jcnlwdGVk",
	}
}

// writeBlock writes a whole content block.
func (w *anthropicWriter) writeBlock(b any) {
	w.endBlock()
	w.add(event("content_block_start", object{"index": w.next, "content_block": b}), event("content_block_stop", object{"index": w.next}))
	w.next++
}

func (w *anthropicWriter) writeCall(kind string, f *Fragment) {
	index, ok := w.blocks[f.Index]
	if !ok {
		w.endBlock()
		index = w.next
		w.next++
		w.blocks[f.Index] = index
		w.calls = append(w.calls, index)
		w.add(event("content_block_start", object{
			"index": index, "content_block": object{"type": kind, "id": f.ID, "name": f.Name, "input": object{}},
		}))
	}
	w.writeDelta(index, object{"type": "input_json_delta", "partial_json": f.Args})
}

func (Anthropic) traits() traits {
	return traits{
		APIKey: func(h http.Header) string { return h.Get("X-Api-Key") },
		StreamError: func(kind, message string) string {
			return event("error", object{"error": object{"type": kind, "message": message}})
		},
		Malformed: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"ind\n\n",
		KeepAlive: event("ping", object{}),
		Query: `[.messages[].content[]] as $blocks | {
			temperature, tools: [.tools[]?.name], has_schema: (.output_config.format.type == "json_schema"),
			tool_choice: (.tool_choice | if .type == "any" then "required" else .name // .type // "" end),
			results: [$blocks[] | select(.type == "tool_result").tool_use_id],
			signature: (first($blocks[] | select(.type == "thinking").signature) // "")
		}`,
		SignsReasoning: true,
		CanSend:        func(e Event) bool { return e.Image == "" && e.Audio == "" },
	}
}

// Refusal implements Dialect.
func (Anthropic) Refusal(_ int, kind, message string) string {
	return marshal(object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_1"})
}
