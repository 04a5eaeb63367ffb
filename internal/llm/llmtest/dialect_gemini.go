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

// Signatures are those of calls, not of reasoning.
func (d Gemini) traits() traits {
	statuses := map[string]int{"rate_limit_error": http.StatusTooManyRequests, "invalid_request_error": http.StatusBadRequest}
	return traits{
		Key: func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
		Fault: func(kind, message string) string {
			status := cmp.Or(statuses[kind], http.StatusServiceUnavailable)
			return d.event(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
		},
		Malformed: "data: {\"candidates\":[{\"cont\r\n\r\n",
		Idle:      d.part(object{"text": ""}),
		CanSend: func(e Event) bool {
			return e.Text != "" || e.Reasoning != "" || e.Call != nil || e.Image != "" || e.Audio != ""
		},
	}
}

// Refusal implements Dialect.
func (Gemini) Refusal(status int, kind, message string) string {
	return marshal(object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}})
}

func (Gemini) read(body []byte) (sentRequest, error) {
	var req struct {
		Contents []struct {
			Parts []struct{ FunctionResponse struct{ ID string } }
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
			ResponseJSONSchema json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return sentRequest{}, err
	}
	s := sentRequest{Temperature: req.GenerationConfig.Temperature, Schema: len(req.GenerationConfig.ResponseJSONSchema) > 0}
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			s.Tools = append(s.Tools, f.Name)
		}
	}
	calling := req.ToolConfig.FunctionCallingConfig
	s.ToolChoice = strings.ToLower(calling.Mode)
	if calling.Mode == "ANY" {
		s.ToolChoice = append(calling.AllowedFunctionNames, "required")[0]
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if id := p.FunctionResponse.ID; id != "" {
				s.Results = append(s.Results, id)
			}
		}
	}
	return s, nil
}
