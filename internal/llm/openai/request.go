package openai

import (
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// schemaName is the name the API wants for an output schema.
const schemaName = "answer"

func (m *model) params(req agent.ModelRequest) (sdk.ChatCompletionNewParams, error) {
	messages, err := m.messages(req)
	if err != nil {
		return sdk.ChatCompletionNewParams{}, err
	}
	params := sdk.ChatCompletionNewParams{
		Model:    req.Model,
		Messages: messages,
	}
	if m.usage {
		params.StreamOptions = sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}
	}
	if req.Temperature != nil {
		params.Temperature = sdk.Float(*req.Temperature)
	}
	if req.MaxTokens > 0 && m.official {
		params.MaxCompletionTokens = sdk.Int(int64(req.MaxTokens))
	} else if req.MaxTokens > 0 {
		params.MaxTokens = sdk.Int(int64(req.MaxTokens))
	}
	if params.Tools, err = tools(req.Tools); err != nil {
		return params, err
	}
	if len(req.Tools) > 0 { // without tools the API refuses a choice
		params.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := wire.ParseSchema("output_schema", req.OutputSchema)
		if err != nil {
			return params, err
		}
		format := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: schemaName, Schema: schema}
		if fitsStrict(req.OutputSchema) {
			format.Strict = sdk.Bool(true)
		}
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: format}
	}
	return params, nil
}

func tools(specs []agent.ToolSpec) ([]sdk.ChatCompletionToolUnionParam, error) {
	var tools []sdk.ChatCompletionToolUnionParam
	for i := range specs {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
		if err != nil {
			return nil, err
		}
		f := shared.FunctionDefinitionParam{Name: specs[i].Name, Parameters: schema}
		if specs[i].Description != "" {
			f.Description = sdk.String(specs[i].Description)
		}
		if specs[i].Strict && fitsStrict(specs[i].Parameters) {
			f.Strict = sdk.Bool(true)
		}
		tools = append(tools, sdk.ChatCompletionFunctionTool(f))
	}
	return tools, nil
}

func toolChoice(choice string) sdk.ChatCompletionToolChoiceOptionUnionParam {
	switch choice {
	case "":
		return sdk.ChatCompletionToolChoiceOptionUnionParam{}
	case "auto", "none", "required":
		return sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String(choice)}
	default:
		return sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: choice})
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
