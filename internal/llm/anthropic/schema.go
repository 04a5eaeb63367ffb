package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// outputSchema fits a schema to the subset that the API enforces, as its SDKs do: objects are closed, and keywords it does not know move
// to the description. One that fits already goes as it is, in its own order.
func outputSchema(raw json.RawMessage) (map[string]any, error) {
	schema, err := wire.ParseSchema("output_schema", raw)
	if err != nil {
		return nil, err
	}
	var model *jsonschema.Schema
	if json.Unmarshal(raw, &model) != nil { // it has a shape that this model has not, such as a list of types: the API is to judge
		return schema, nil
	}
	known, err := json.Marshal(model)
	if err != nil {
		return schema, nil //nolint:nilerr // likewise
	}
	fitted, ok := fitSchema(parseNumbers(known)).(map[string]any)
	if !ok || reflect.DeepEqual(parseNumbers(raw), any(fitted)) {
		return schema, nil
	}
	return fitted, nil
}

// parseNumbers parses JSON and keeps its numbers as they are written.
func parseNumbers(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // it was parsed before
	return v
}

// fitSchema returns a schema with the keywords that the API knows. It is true if they say nothing.
func fitSchema(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok { // true or false
		return schema
	}
	if ref := s["$ref"]; ref != nil { // which takes nothing beside it
		return map[string]any{"$ref": ref}
	}
	moved := map[string]any{}
	for key, value := range s {
		switch key {
		case "$defs", "type", "anyOf", "oneOf", "allOf", "description", "title", "enum", "const", "properties", "additionalProperties", "required",
			"items", "minItems", "format", "pattern":
		default:
			moveKeyword(s, moved, key, value)
		}
	}
	if s["anyOf"] == nil && s["oneOf"] != nil {
		s["anyOf"] = s["oneOf"]
	}
	delete(s, "oneOf")
	fitSchemas(s)
	if s["type"] == nil && s["anyOf"] == nil && s["allOf"] == nil && s["enum"] == nil && s["const"] == nil {
		return true
	}
	fitType(s, moved)
	describeMoved(s, moved)
	return s
}

func moveKeyword(from, to map[string]any, key string, value any) {
	to[key] = value
	delete(from, key)
}

// fitSchemas fits the definitions and the variants of a schema.
func fitSchemas(s map[string]any) {
	fitAll(s["$defs"])
	if all, ok := s["allOf"].([]any); ok {
		for i := range all {
			all[i] = fitSchema(all[i])
		}
	}
	variants, _ := s["anyOf"].([]any)
	var kept []any
	for _, v := range variants {
		if v = fitSchema(v); v != true { // a variant that says nothing would match everything
			kept = append(kept, v)
		}
	}
	if s["anyOf"] = kept; kept == nil {
		delete(s, "anyOf")
	}
}

func fitAll(schemas any) {
	byName, _ := schemas.(map[string]any)
	for name, schema := range byName {
		byName[name] = fitSchema(schema)
	}
}

// fitType fits what belongs to the type of a schema.
func fitType(s, moved map[string]any) {
	switch s["type"] {
	case "object":
		if values := s["additionalProperties"]; s["properties"] == nil && values != nil { // a dictionary
			s["additionalProperties"] = fitSchema(values)
			return
		}
		if s["properties"] == nil {
			s["properties"] = map[string]any{}
		}
		fitAll(s["properties"])
		s["additionalProperties"] = false
	case "string":
		known := []any{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		if format := s["format"]; format != nil && !slices.Contains(known, format) {
			moveKeyword(s, moved, "format", format)
		}
	case "array":
		if items := s["items"]; items != nil {
			s["items"] = fitSchema(items)
		}
		if n := s["minItems"]; n != nil && n != json.Number("0") && n != json.Number("1") {
			moveKeyword(s, moved, "minItems", n)
		}
	}
}

// describeMoved appends the keywords that the API does not know to the description.
func describeMoved(s, moved map[string]any) {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(moved)) {
		text, ok := moved[key].(string)
		if !ok {
			raw, _ := json.Marshal(moved[key]) // it was parsed from JSON
			text = string(raw)
		}
		parts = append(parts, fmt.Sprintf("%s: %s", key, text))
	}
	if len(parts) == 0 {
		return
	}
	text := "{" + strings.Join(parts, ", ") + "}"
	if before, _ := s["description"].(string); before != "" {
		text = before + "\n\n" + text
	}
	s["description"] = text
}
