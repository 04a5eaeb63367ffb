package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxStrictDepth is how deep a strict schema may nest.
const maxStrictDepth = 10

// isStrict reports whether a JSON Schema is in the subset that OpenAI enforces: the root is an object, every object requires all its properties and
// allows no others, and all keywords are known to the API. The API refuses other schemas with status 400 if they are sent as strict.
func isStrict(schema json.RawMessage) bool {
	var root struct{ Type string }
	return json.Unmarshal(schema, &root) == nil && root.Type == "object" && isStrictPart(schema, maxStrictDepth)
}

// isStrictPart is isStrict for a schema within another one, which may nest depth levels deep.
func isStrictPart(schema json.RawMessage, depth int) bool {
	var s map[string]json.RawMessage
	if depth < 0 || json.Unmarshal(schema, &s) != nil {
		return false
	}
	hasType := false
	for key, raw := range s {
		switch key {
		case "type", "enum", "const":
			hasType = true
		case "$ref":
			var ref string
			if json.Unmarshal(raw, &ref) != nil || !strings.HasPrefix(ref, "#") {
				return false
			}
			hasType = true
		case "anyOf":
			var variants []json.RawMessage
			if json.Unmarshal(raw, &variants) != nil || len(variants) == 0 ||
				slices.ContainsFunc(variants, func(v json.RawMessage) bool { return !isStrictPart(v, depth-1) }) {
				return false
			}
			hasType = true
		case "items":
			if !isStrictPart(raw, depth-1) {
				return false
			}
		case "$defs", "definitions":
			if _, ok := strictParts(raw, depth); !ok {
				return false
			}
		case "format":
			if !isStrictFormat(raw) {
				return false
			}
		case "title", "description", "pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
			"properties", "required", "additionalProperties":
		default:
			return false
		}
	}
	return hasType && (!isObject(s["type"]) || isClosed(s, depth))
}

// isObject reports whether a type, which is a name or a list of names, includes objects.
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
	properties, ok := strictParts(s["properties"], depth)
	if !ok || len(required) != len(properties) {
		return false
	}
	return !slices.ContainsFunc(required, func(name string) bool { return properties[name] == nil })
}

// strictParts returns a map of schemas, false if one of them is not strict.
func strictParts(raw json.RawMessage, depth int) (map[string]json.RawMessage, bool) {
	var schemas map[string]json.RawMessage
	if json.Unmarshal(raw, &schemas) != nil || schemas == nil {
		return nil, false
	}
	for _, schema := range schemas {
		if !isStrictPart(schema, depth-1) {
			return nil, false
		}
	}
	return schemas, true
}

func isStrictFormat(raw json.RawMessage) bool {
	var format string
	return json.Unmarshal(raw, &format) == nil &&
		slices.Contains([]string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}, format)
}
