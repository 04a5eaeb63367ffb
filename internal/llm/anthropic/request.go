package anthropic

import (
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

func params(req agent.ModelRequest) (messageRequest, error) {
	system, messages, err := conversation(req)
	if err != nil {
		return messageRequest{}, err
	}
	params := messageRequest{
		Model: req.Model, MaxTokens: DefaultMaxTokens, System: system, Messages: messages, Stream: true, Temperature: req.Temperature,
	}
	if req.MaxTokens > 0 {
		params.MaxTokens = req.MaxTokens
	}
	if params.Tools, err = tools(req.Tools); err != nil {
		return params, err
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" { // without tools the API refuses a choice
		params.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := outputSchema(req.OutputSchema)
		if err != nil {
			return params, err
		}
		params.OutputConfig = &outputConfig{Format: outputFormat{Type: "json_schema", Schema: schema}}
	}
	return params, cache(&params, req)
}

// cache marks the ends of the stable prefix: the tools, the system prompt, the conversation so far. The API keeps what comes before each
// mark and finds it again in the next request; it allows four.
func cache(params *messageRequest, req agent.ModelRequest) error {
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
	if n := len(params.Tools); n > 0 {
		params.Tools[n-1].CacheControl = mark
	}
	if req.System != "" { // what follows it is of this conversation alone
		params.System[0].CacheControl = mark
	}
	if n := len(params.Messages); n > 0 {
		last := params.Messages[n-1].Content
		for i := range slices.Backward(last) {
			if last[i].Type != "thinking" && last[i].Type != wire.RedactedThinking { // which take none
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
		if _, ok := schema["type"]; !ok { // which the API insists on
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
