package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// strictDepth is how deep the API lets a strict schema nest.
const strictDepth = 10

// fitsStrict reports whether a JSON Schema is inside the subset that OpenAI enforces: an object at the root, every object lists all its
// properties as required and allows no others, and there is no keyword besides those it knows. A schema outside it is refused with status
// 400 when it is sent as strict; those of the five meta tools are outside, so they are sent without. What is doubtful counts as outside.
func fitsStrict(schema json.RawMessage) bool {
	var root struct{ Type string }
	return json.Unmarshal(schema, &root) == nil && root.Type == "object" && strictAt(schema, strictDepth)
}

func strictAt(schema json.RawMessage, depth int) bool {
	var s map[string]json.RawMessage
	if depth < 0 || json.Unmarshal(schema, &s) != nil {
		return false
	}
	shaped := false // it says what it is
	for key, raw := range s {
		switch key {
		case "type", "enum", "const":
			shaped = true
		case "$ref":
			var ref string
			if json.Unmarshal(raw, &ref) != nil || !strings.HasPrefix(ref, "#") {
				return false
			}
			shaped = true
		case "anyOf":
			var variants []json.RawMessage
			if json.Unmarshal(raw, &variants) != nil || len(variants) == 0 ||
				slices.ContainsFunc(variants, func(v json.RawMessage) bool { return !strictAt(v, depth-1) }) {
				return false
			}
			shaped = true
		case "items":
			if !strictAt(raw, depth-1) {
				return false
			}
		case "$defs", "definitions":
			if _, ok := strictAll(raw, depth); !ok {
				return false
			}
		case "format":
			if !strictFormat(raw) {
				return false
			}
		case "title", "description", "pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
			"properties", "required", "additionalProperties":
		default:
			return false
		}
	}
	return shaped && (!isObject(s["type"]) || isClosed(s, depth))
}

// isObject reports whether a type, a name or a list of names, admits objects.
func isObject(raw json.RawMessage) bool {
	var name string
	var names []string
	if json.Unmarshal(raw, &name) != nil && json.Unmarshal(raw, &names) != nil {
		return false
	}
	return name == "object" || slices.Contains(names, "object")
}

// isClosed reports whether an object requires all its properties and allows no others.
func isClosed(s map[string]json.RawMessage, depth int) bool {
	var required []string
	if string(s["additionalProperties"]) != "false" || json.Unmarshal(s["required"], &required) != nil {
		return false
	}
	properties, ok := strictAll(s["properties"], depth)
	if !ok || len(required) != len(properties) {
		return false
	}
	return !slices.ContainsFunc(required, func(name string) bool { return properties[name] == nil })
}

// strictAll checks every schema of a map of schemas.
func strictAll(raw json.RawMessage, depth int) (map[string]json.RawMessage, bool) {
	var schemas map[string]json.RawMessage
	if json.Unmarshal(raw, &schemas) != nil || schemas == nil {
		return nil, false
	}
	for _, schema := range schemas {
		if !strictAt(schema, depth-1) {
			return nil, false
		}
	}
	return schemas, true
}

func strictFormat(raw json.RawMessage) bool {
	var format string
	return json.Unmarshal(raw, &format) == nil &&
		slices.Contains([]string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}, format)
}
