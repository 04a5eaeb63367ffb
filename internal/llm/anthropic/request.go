package anthropic

import (
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

func requestBody(req agent.ModelRequest) (messageRequest, error) {
	system, messages, err := conversation(req)
	if err != nil {
		return messageRequest{}, err
	}
	body := messageRequest{
		Model: req.Model, MaxTokens: DefaultMaxTokens, System: system, Messages: messages, Stream: true, Temperature: req.Temperature,
	}
	if req.MaxTokens > 0 {
		body.MaxTokens = req.MaxTokens
	}
	if body.Tools, err = tools(req.Tools); err != nil {
		return body, err
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" { // the API refuses a choice without tools
		body.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := outputSchema(req.OutputSchema)
		if err != nil {
			return body, err
		}
		body.OutputConfig = &outputConfig{Format: outputFormat{Type: "json_schema", Schema: schema}}
	}
	return body, setCacheMarks(&body, req)
}

// setCacheMarks marks the ends of the tools, the stable system prompt and the conversation. The API caches what comes before each mark. It allows
// four marks.
func setCacheMarks(body *messageRequest, req agent.ModelRequest) error {
	if req.Cache == nil {
		return nil
	}
	mark := &cacheControl{Type: "ephemeral"}
	switch req.Cache.TTL {
	case "", "5m": // the API's default
	case "1h":
		mark.TTL = "1h"
	default:
		return agent.Invalid("cache.ttl", "want 5m or 1h, got %q", req.Cache.TTL)
	}
	if n := len(body.Tools); n > 0 {
		body.Tools[n-1].CacheControl = mark
	}
	if req.System != "" { // the prompt after it differs between conversations
		body.System[0].CacheControl = mark
	}
	if n := len(body.Messages); n > 0 {
		last := body.Messages[n-1].Content
		for i := range slices.Backward(last) {
			if last[i].Type != "thinking" && last[i].Type != wire.RedactedThinking { // these take no mark
				last[i].CacheControl = mark
				return nil
			}
		}
	}
	return nil
}

func tools(specs []agent.ToolSpec) ([]tool, error) {
	var tools []tool
	for i := range specs {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
		if err != nil {
			return nil, err
		}
		if _, ok := schema["type"]; !ok { // which the API requires
			schema["type"] = "object"
		}
		tools = append(tools, tool{Name: specs[i].Name, Description: specs[i].Description, Strict: specs[i].Strict, InputSchema: schema})
	}
	return tools, nil
}

func toolChoice(name string) *choice {
	switch name {
	case "auto", "none":
		return &choice{Type: name}
	case "required":
		return &choice{Type: "any"}
	default:
		return &choice{Type: "tool", Name: name}
	}
}
