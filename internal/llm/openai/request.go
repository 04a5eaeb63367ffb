package openai

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// schemaName is the name of an output schema, which the API requires.
const schemaName = "answer"

func (m *model) requestBody(req agent.ModelRequest) (chatRequest, error) {
	messages, err := m.messages(req)
	if err != nil {
		return chatRequest{}, err
	}
	body := chatRequest{Model: req.Model, Messages: messages, Stream: true, Temperature: req.Temperature}
	if m.asksUsage {
		body.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if req.MaxTokens > 0 && m.isOfficial {
		body.MaxCompletionTokens = req.MaxTokens
	} else if req.MaxTokens > 0 {
		body.MaxTokens = req.MaxTokens
	}
	if body.Tools, err = tools(req.Tools); err != nil {
		return body, err
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" { // the API refuses a choice without tools
		body.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := wire.ParseSchema("output_schema", req.OutputSchema)
		if err != nil {
			return body, err
		}
		format := outputSchema{Name: schemaName, Schema: schema, Strict: isStrict(req.OutputSchema)}
		body.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: format}
	}
	return body, nil
}

func tools(specs []agent.ToolSpec) ([]functionTool, error) {
	var tools []functionTool
	for i := range specs {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
		if err != nil {
			return nil, err
		}
		tools = append(tools, functionTool{Type: "function", Function: function{
			Name: specs[i].Name, Description: specs[i].Description, Parameters: schema, Strict: specs[i].Strict && isStrict(specs[i].Parameters),
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

// isOfficial reports whether the server is OpenAI's or Azure's. Their newer models take max_completion_tokens only; other servers take max_tokens only.
func isOfficial(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}
