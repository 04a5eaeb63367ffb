package offline

import (
	"encoding/json"
	"strings"
)

// structuredTool is the name of the tool by which runtimes ask for a document where a provider enforces no schema; underscores may follow.
const structuredTool = "structured_response"

// responseFormat is how the answer shall be written.
type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

func checkFormat(f *responseFormat) *apiError {
	const param = "response_format"
	switch {
	case f == nil || f.Type == "text":
		return nil
	case f.Type != "json_schema":
		return badRequest(param, "unsupported_value", "Unsupported value: the offline model answers in text or by a JSON schema.")
	case f.JSONSchema == nil:
		return badRequest(param+".json_schema", "missing_required_parameter", "Missing required parameter: 'response_format.json_schema'.")
	case !functionName.MatchString(f.JSONSchema.Name):
		return badRequest(param+".json_schema.name", "invalid_value",
			"Invalid 'response_format.json_schema.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(f.JSONSchema.Schema, &object) != nil || object == nil {
		return badRequest(param+".json_schema.schema", "invalid_type", "Invalid type for 'response_format.json_schema.schema': expected an object.")
	}
	return nil
}

// wanted is the schema of the document that the request wants, nil for none, and the tool that takes it, "" when it is the answer's text.
func (r *request) wanted() (schema json.RawMessage, tool string) {
	if f := r.ResponseFormat; f != nil && f.JSONSchema != nil && f.Type == "json_schema" {
		return f.JSONSchema.Schema, ""
	}
	var choice string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(r.ToolChoice, &choice) != nil {
		_ = json.Unmarshal(r.ToolChoice, &named) // anything else forces nothing
	}
	for i := range r.Tools {
		f := &r.Tools[i].Function
		forced := choice == "required" || named.Function.Name == f.Name
		if forced && strings.TrimRight(f.Name, "_") == structuredTool {
			return f.Parameters, f.Name
		}
	}
	return nil, ""
}

// structure makes the document of the answer, where one is wanted and no tool has to be called first.
func (r *reply) structure(req *request) *apiError {
	schema, tool := req.wanted()
	if len(r.calls) > 0 || schema == nil && tool == "" {
		return nil
	}
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	doc, err := document(schema, factsOf(req, r))
	switch {
	case err == nil && tool == "":
		r.text = string(doc)
	case err == nil:
		r.text = ""
		r.calls = []toolCall{{ID: callID(req, 0), Type: "function", Function: function{Name: tool, Arguments: string(doc)}}}
	case tool == "":
		return badRequest("response_format", "", "Invalid schema for response_format '%s': %.300s.", req.ResponseFormat.JSONSchema.Name, err.Error())
	default:
		return badRequest("tools", "invalid_function_parameters", "Invalid schema for function '%s': %.300s.", tool, err.Error())
	}
	return nil
}
