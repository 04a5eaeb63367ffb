package llmtest

import (
	"net/http"
	"strings"
)

// OpenAI is the dialect of chat completions.
type OpenAI struct{}

// BaseURL implements Dialect.
func (OpenAI) BaseURL(server string) string { return server + "/v1" }

// Path implements Dialect.
func (OpenAI) Path() string { return "/v1/chat/completions" }

// ContentType implements Dialect.
func (OpenAI) ContentType() string { return "text/event-stream; charset=utf-8" }

func (OpenAI) chunk(choices []object, usage any) string {
	return "data: " + marshal(object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764547200, "model": ModelName,
		"service_tier": "default", "system_fingerprint": "fp_1", "choices": choices, "usage": usage,
	}) + "\n\n"
}

func (d OpenAI) delta(delta object, finish any) string {
	return d.chunk([]object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, nil)
}

// Frames implements Dialect.
func (d OpenAI) Frames(r Reply) []string {
	frames := []string{": keep-alive\n\n", d.delta(object{"role": "assistant", "content": "", "refusal": nil}, nil)}
	begun := map[int]bool{} // by call index
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			frames = append(frames, d.delta(object{"content": e.Text}, nil))
		case e.Reasoning != "":
			frames = append(frames, d.delta(object{"reasoning_content": e.Reasoning}, nil))
		case e.Citation != nil:
			frames = append(frames, d.delta(object{"annotations": []object{{"type": "url_citation", "url_citation": object{
				"url": e.Citation.URL, "title": e.Citation.Title, "start_index": e.Citation.StartIndex, "end_index": e.Citation.EndIndex,
			}}}}, nil))
		case e.Image != "":
			frames = append(frames, d.delta(object{"images": []object{{
				"type": "image_url", "image_url": object{"url": "data:image/png;base64," + e.Image},
			}}}, nil))
		case e.Audio != "":
			frames = append(frames, d.delta(object{"audio": object{"id": "audio_1", "data": e.Audio}}, nil))
		case e.Call != nil:
			call := object{"index": e.Call.Index, "function": object{"arguments": e.Call.Args}}
			if !begun[e.Call.Index] {
				call = object{
					"index": e.Call.Index, "id": e.Call.ID, "type": "function",
					"function": object{"name": e.Call.Name, "arguments": e.Call.Args},
				}
			}
			begun[e.Call.Index] = true
			frames = append(frames, d.delta(object{"tool_calls": []object{call}}, nil))
		}
	}
	return append(frames, d.delta(object{}, string(r.Finish)), d.chunk([]object{}, object{
		"prompt_tokens": r.Usage.InputTokens, "completion_tokens": r.Usage.OutputTokens,
		"total_tokens":              r.Usage.InputTokens + r.Usage.OutputTokens,
		"prompt_tokens_details":     object{"cached_tokens": r.Usage.CachedTokens, "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": r.Usage.ReasoningTokens, "audio_tokens": 0},
	}), "data: [DONE]\n\n")
}

// OpenAI itself sends no images; some gateways do.
func (OpenAI) traits() traits {
	return traits{
		APIKey: func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		StreamError: func(kind, message string) string {
			return "data: " + marshal(object{"error": object{"message": message, "type": kind, "param": nil, "code": nil}}) + "\n\n"
		},
		Malformed: "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"ind\n\n",
		KeepAlive: ": keep-alive\n\n",
		Query: `{
			temperature, tools: [.tools[]?.function.name], has_schema: (.response_format.type == "json_schema"),
			tool_choice: (.tool_choice | if type == "object" then .function.name else . // "" end),
			results: [.messages[].tool_call_id // empty]
		}`,
		CanSend: func(e Event) bool {
			return e.Redacted == "" && e.ServerCall == nil && e.ServerResult == nil && e.Unknown == nil && e.Signature == ""
		},
	}
}

// Refusal implements Dialect.
func (OpenAI) Refusal(_ int, kind, message string) string {
	return marshal(object{"error": object{"message": message, "type": "invalid_request_error", "param": nil, "code": kind}})
}
