package anthropic

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
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
		schema, err := outputSchema(req.OutputSchema)
		if err != nil {
			return params, err
		}
		params.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: schema}
	}
	return params, cache(&params, req)
}

// outputSchema fits a schema to the subset that the API enforces, as its SDK does: objects are closed, and keywords it does not know move
// to the description. One that fits already goes as it is, in its own order.
func outputSchema(raw json.RawMessage) (map[string]any, error) {
	schema, err := wire.ParseSchema("output_schema", raw)
	if err != nil {
		return nil, err
	}
	fitted, _ := sdk.BetaJSONSchemaOutputFormat(schema).Schema.(map[string]any)
	if fitted == nil { // it has a shape that the SDK's model of a schema has not, such as a list of types: the API is to judge
		return schema, nil
	}
	var before any
	if err := json.Unmarshal(raw, &before); err != nil {
		return nil, agent.Invalid("output_schema", "%w", err)
	}
	if reflect.DeepEqual(before, any(fitted)) {
		return schema, nil
	}
	return fitted, nil
}

// cache marks the ends of the stable prefix: the tools, the system prompt, the conversation so far. The API keeps what comes before each
// mark and finds it again in the next request; it allows four.
func cache(params *sdk.MessageNewParams, req agent.ModelRequest) error {
	if req.Cache == nil {
		return nil
	}
	mark := sdk.NewCacheControlEphemeralParam()
	switch req.Cache.TTL {
	case "", "5m": // the API's default
	case "1h":
		mark.TTL = sdk.CacheControlEphemeralTTLTTL1h
	default:
		return agent.Invalid("cache.ttl", "want 5m or 1h, got %q", req.Cache.TTL)
	}
	if n := len(params.Tools); n > 0 {
		*params.Tools[n-1].GetCacheControl() = mark
	}
	if req.System != "" { // what follows it is of this conversation alone
		params.System[0].CacheControl = mark
	}
	if n := len(params.Messages); n > 0 {
		last := params.Messages[n-1].Content
		for _, block := range slices.Backward(last) {
			if at := block.GetCacheControl(); at != nil { // thinking takes none
				*at = mark
				return nil
			}
		}
	}
	return nil
}

func tools(specs []agent.ToolSpec) ([]sdk.ToolUnionParam, error) {
	var tools []sdk.ToolUnionParam
	for i := range specs {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), specs[i].Parameters)
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
