package anthropic

import (
	"bytes"
	"encoding/json"
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
	fitted, ok := fitSchema(knownKeywords(raw)).(map[string]any)
	if !ok || reflect.DeepEqual(parseNumbers(raw), any(fitted)) {
		return schema, nil
	}
	return fitted, nil
}

// knownKeywords returns a schema with the keywords of the standard alone. It is nil for a schema of a shape that the library does not know, such
// as a list of types: the API is to judge it.
func knownKeywords(raw json.RawMessage) any {
	var known *jsonschema.Schema
	if json.Unmarshal(raw, &known) != nil {
		return nil
	}
	b, _ := json.Marshal(known) // it was parsed just now
	return parseNumbers(b)
}

// parseNumbers parses JSON and keeps its numbers as they are written.
func parseNumbers(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // it was parsed before
	return v
}

// fitSchema returns a schema, which it may change, with the keywords that the API knows. It is true if they say nothing.
func fitSchema(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok { // true or false
		return schema
	}
	if ref := s["$ref"]; ref != nil { // which takes nothing beside it
		return map[string]any{"$ref": ref}
	}
	if s["anyOf"] == nil && s["oneOf"] != nil {
		s["anyOf"] = s["oneOf"]
	}
	delete(s, "oneOf")
	var moved []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		value, known := fitKeyword(s["type"], key, s[key])
		if s[key] = value; !known {
			moved = append(moved, key+": "+textOf(value))
		}
		if !known || value == nil {
			delete(s, key)
		}
	}
	if s["type"] == nil && s["anyOf"] == nil && s["allOf"] == nil && s["enum"] == nil && s["const"] == nil {
		return true
	}
	if s["type"] == "object" && s["properties"] == nil && s["additionalProperties"] == nil {
		s["properties"] = map[string]any{}
	}
	if s["type"] == "object" && s["properties"] != nil { // otherwise it is a dictionary
		s["additionalProperties"] = false
	}
	if len(moved) > 0 {
		description, _ := s["description"].(string)
		s["description"] = strings.TrimPrefix(description+"\n\n{"+strings.Join(moved, ", ")+"}", "\n\n")
	}
	return s
}

// fitKeyword fits one keyword of a schema of a type. known reports whether the API takes it.
func fitKeyword(kind any, key string, value any) (fitted any, known bool) {
	switch key {
	case "type", "description", "title", "enum", "const", "required", "pattern":
		return value, true
	case "additionalProperties", "items":
		return fitSchema(value), true
	case "properties", "$defs":
		schemas, _ := value.(map[string]any)
		for name, schema := range schemas {
			schemas[name] = fitSchema(schema)
		}
		return value, true
	case "allOf", "anyOf":
		return fitVariants(key, value), true
	case "format":
		known := []any{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		return value, kind != "string" || slices.Contains(known, value)
	case "minItems":
		return value, kind != "array" || value == json.Number("0") || value == json.Number("1")
	default:
		return value, false
	}
}

// fitVariants fits a list of schemas. In anyOf, one that says nothing would match everything: it is left out.
func fitVariants(key string, value any) any {
	var kept []any
	variants, _ := value.([]any)
	for _, v := range variants {
		if v = fitSchema(v); key != "anyOf" || v != true {
			kept = append(kept, v)
		}
	}
	if kept == nil {
		return nil
	}
	return kept
}

func textOf(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	raw, _ := json.Marshal(value) // it was parsed from JSON
	return string(raw)
}
