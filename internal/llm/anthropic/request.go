package anthropic

import (
	"encoding/json"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
)

func params(req agent.ModelRequest) (sdk.MessageNewParams, error) {
	system, messages, err := conversation(req)
	if err != nil {
		return sdk.MessageNewParams{}, err
	}
	params := sdk.MessageNewParams{
		Model: req.Model, MaxTokens: DefaultMaxTokens, System: system, Messages: messages,
	}
	if req.MaxTokens > 0 {
		params.MaxTokens = int64(req.MaxTokens)
	}
	if req.Temperature != nil {
		params.Temperature = sdk.Float(*req.Temperature)
	}
	if params.Tools, err = tools(req.Tools); err != nil {
		return params, err
	}
	if len(req.Tools) > 0 { // without tools the API refuses a choice
		params.ToolChoice = toolChoice(req.ToolChoice)
	}
	if len(req.OutputSchema) > 0 {
		schema, err := dialog.Schema("output_schema", req.OutputSchema)
		if err != nil {
			return params, err
		}
		params.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: schema}
	}
	return params, nil
}

func tools(specs []agent.ToolSpec) ([]sdk.ToolUnionParam, error) {
	var tools []sdk.ToolUnionParam
	for i := range specs {
		schema, err := dialog.Schema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
		if err != nil {
			return nil, err
		}
		if _, ok := schema["type"]; !ok { // which the API insists on
			schema["type"] = "object"
		}
		raw, err := json.Marshal(schema)
		if err != nil {
			return nil, agent.Invalid(fmt.Sprintf("tools[%d].parameters", i), "%w", err)
		}
		tool := sdk.ToolParam{Name: specs[i].Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](json.RawMessage(raw))}
		if specs[i].Description != "" {
			tool.Description = sdk.String(specs[i].Description)
		}
		if specs[i].Strict {
			tool.Strict = sdk.Bool(true)
		}
		tools = append(tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	return tools, nil
}

func toolChoice(choice string) sdk.ToolChoiceUnionParam {
	switch choice {
	case "":
		return sdk.ToolChoiceUnionParam{}
	case "auto":
		return sdk.ToolChoiceUnionParam{OfAuto: &sdk.ToolChoiceAutoParam{}}
	case "none":
		return sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
	case "required":
		return sdk.ToolChoiceUnionParam{OfAny: &sdk.ToolChoiceAnyParam{}}
	default:
		return sdk.ToolChoiceParamOfTool(choice)
	}
}
