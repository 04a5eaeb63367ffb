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

// Path implements Dialect: the model is in it.
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

// Frames implements Dialect. A call comes whole, with the reason to stop in a frame of its own.
func (d Gemini) Frames(r Reply) []string {
	var frames []string
	var calls []*Fragment
	byIndex := map[int]*Fragment{}
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
		case e.Call != nil && byIndex[e.Call.Index] != nil:
			byIndex[e.Call.Index].Args += e.Call.Args
		case e.Call != nil:
			whole := *e.Call
			byIndex[e.Call.Index] = &whole
			calls = append(calls, &whole)
		}
	}
	for _, c := range calls {
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

// Traits implements Dialect. Signatures are those of calls, not of reasoning.
func (d Gemini) Traits() Traits {
	statuses := map[string]int{"rate_limit_error": http.StatusTooManyRequests, "invalid_request_error": http.StatusBadRequest}
	return Traits{
		Key: func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
		Fault: func(kind, message string) string {
			status := cmp.Or(statuses[kind], http.StatusServiceUnavailable)
			return d.event(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
		},
		NamesFaultKind: true,
		Malformed:      "data: {\"candidates\":[{\"cont\r\n\r\n",
		Idle:           d.part(object{"text": ""}),
		CanSend: func(e Event) bool {
			return e.Text != "" || e.Reasoning != "" || e.Call != nil || e.Image != "" || e.Audio != ""
		},
	}
}

// Refusal implements Dialect.
func (Gemini) Refusal(status int, kind, message string) string {
	return marshal(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
}

// Sent implements Dialect.
func (Gemini) Sent(body []byte) (Sent, error) {
	var req struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse *struct {
					ID       string
					Response json.RawMessage
				}
			}
		}
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		ToolConfig struct {
			FunctionCallingConfig struct {
				Mode                 string
				AllowedFunctionNames []string
			}
		}
		GenerationConfig struct {
			Temperature        *float64
			ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return Sent{}, err
	}
	s := Sent{Temperature: req.GenerationConfig.Temperature, Schema: len(req.GenerationConfig.ResponseJSONSchema) > 0}
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			s.Tools = append(s.Tools, f.Name)
		}
	}
	s.ToolChoice = strings.ToLower(req.ToolConfig.FunctionCallingConfig.Mode)
	if s.ToolChoice == "any" {
		s.ToolChoice = "required"
	}
	for _, name := range req.ToolConfig.FunctionCallingConfig.AllowedFunctionNames {
		s.ToolChoice = name
	}
	for _, c := range req.Contents {
		if c.Role == "user" && s.Parts == 0 {
			s.Parts = len(c.Parts)
		}
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				s.Results, s.Outputs = append(s.Results, p.FunctionResponse.ID), append(s.Outputs, string(p.FunctionResponse.Response))
			} else if c.Role == "user" {
				s.Last = p.Text
			}
		}
	}
	return s, nil
}
