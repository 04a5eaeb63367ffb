package llmtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Gemini is the dialect of Google's streamGenerateContent.
type Gemini struct{}

// BaseURL implements Dialect.
func (Gemini) BaseURL(server string) string { return server + "/v1beta" }

// Path implements Dialect.
func (Gemini) Path() string { return "/v1beta/models/*:streamGenerateContent" }

// ContentType implements Dialect.
func (Gemini) ContentType() string { return "text/event-stream" }

func (Gemini) event(fields object) string { return "data: " + marshal(fields) + "\r\n\r\n" }

func (d Gemini) part(p object) string {
	return d.event(object{
		"candidates":    []object{{"content": object{"role": "model", "parts": []object{p}}, "index": 0}},
		"usageMetadata": object{"promptTokenCount": 1, "totalTokenCount": 1}, "modelVersion": ModelName, "responseId": "r1",
	})
}

// Frames implements Dialect. It sends each call whole, after all text, and the finish reason in a separate frame.
func (d Gemini) Frames(r Reply) []string {
	var frames []string
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			frames = append(frames, d.part(object{"text": e.Text}))
		case e.Reasoning != "":
			frames = append(frames, d.part(object{"text": e.Reasoning, "thought": true}))
		case e.Image != "":
			frames = append(frames, d.part(object{"inlineData": object{"mimeType": "image/png", "data": e.Image}}))
		case e.Audio != "":
			frames = append(frames, d.part(object{"inlineData": object{"mimeType": "audio/pcm", "data": e.Audio}}))
		}
	}
	for _, c := range wholeCalls(r.Events) {
		call := object{"id": c.ID, "name": c.Name}
		if json.Valid([]byte(c.Args)) {
			call["args"] = json.RawMessage(c.Args)
		}
		frames = append(frames, d.part(object{"functionCall": call}))
	}
	reason := map[agent.FinishReason]string{agent.FinishLength: "MAX_TOKENS", agent.FinishContentFilter: "SAFETY"}[r.Finish]
	if reason == "" {
		reason = "STOP"
	}
	return append(frames, d.event(object{
		"candidates": []object{{"content": object{"role": "model", "parts": []object{{"text": ""}}}, "finishReason": reason, "index": 0}},
		"usageMetadata": object{
			"promptTokenCount": r.Usage.InputTokens, "cachedContentTokenCount": r.Usage.CachedTokens,
			"candidatesTokenCount": r.Usage.OutputTokens - r.Usage.ReasoningTokens, "thoughtsTokenCount": r.Usage.ReasoningTokens,
		},
		"modelVersion": ModelName, "responseId": "r1",
	}))
}

// In this dialect calls have signatures, and reasoning has none.
func (d Gemini) traits() traits {
	statuses := map[string]int{"rate_limit_error": http.StatusTooManyRequests, "invalid_request_error": http.StatusBadRequest}
	return traits{
		APIKey: func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
		StreamError: func(kind, message string) string {
			status := cmp.Or(statuses[kind], http.StatusServiceUnavailable)
			return d.event(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
		},
		Malformed: "data: {\"candidates\":[{\"cont\r\n\r\n",
		KeepAlive: d.part(object{"text": ""}),
		Query: `{
			temperature: .generationConfig.temperature, has_schema: (.generationConfig.responseJsonSchema != null),
			tools: [.tools[]?.functionDeclarations[].name],
			tool_choice: (.toolConfig.functionCallingConfig
				| if .mode == "ANY" then .allowedFunctionNames[0] // "required" else .mode // "" | ascii_downcase end),
			results: [.contents[].parts[].functionResponse.id // empty]
		}`,
		CanSend: func(e Event) bool {
			return e.Text != "" || e.Reasoning != "" || e.Call != nil || e.Image != "" || e.Audio != ""
		},
	}
}

// Refusal implements Dialect.
func (Gemini) Refusal(status int, kind, message string) string {
	return marshal(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
}
