package openai

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// schemaName is the name the API wants for an output schema.
const schemaName = "answer"

func (m *model) params(req agent.ModelRequest) (chatRequest, error) {
	messages, err := m.messages(req)
	if err != nil {
		return chatRequest{}, err
	}
	params := chatRequest{Model: req.Model, Messages: messages, Stream: true, Temperature: req.Temperature}
	if m.usage {
		params.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if req.MaxTokens > 0 && m.official {
		params.MaxCompletionTokens = req.MaxTokens
	} else if req.MaxTokens > 0 {
		params.MaxTokens = req.MaxTokens
	}
	if params.Tools, err = tools(req.Tools); err != nil {
		return params, err
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" { // without tools the API refuses a choice
		params.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := wire.ParseSchema("output_schema", req.OutputSchema)
		if err != nil {
			return params, err
		}
		format := outputSchema{Name: schemaName, Schema: schema, Strict: fitsStrict(req.OutputSchema)}
		params.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: format}
	}
	return params, nil
}

func tools(specs []agent.ToolSpec) ([]functionTool, error) {
	var tools []functionTool
	for i := range specs {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
		if err != nil {
			return nil, err
		}
		tools = append(tools, functionTool{Type: "function", Function: function{
			Name: specs[i].Name, Description: specs[i].Description, Parameters: schema, Strict: specs[i].Strict && fitsStrict(specs[i].Parameters),
		}})
	}
	return tools, nil
}

func toolChoice(choice string) any {
	switch choice {
	case "auto", "none", "required":
		return choice
	default:
		return functionTool{Type: "function", Function: function{Name: choice}}
	}
}

// isOfficial reports whether the server is OpenAI's or Azure's. Only those know max_completion_tokens, and their newer models refuse
// max_tokens; Ollama, vLLM and the rest know max_tokens only.
func isOfficial(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}
