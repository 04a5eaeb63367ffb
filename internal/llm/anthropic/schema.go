package anthropic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// outputSchema returns a schema in the subset that the API enforces. Objects allow no other properties. Keywords that the API does not know move to
// the description, where the model reads them. Parts that are in the subset stay unchanged, also in their order.
func outputSchema(raw json.RawMessage) (map[string]any, error) {
	return wire.ParseSchema("output_schema", fitSchema(raw))
}

// fitSchema returns a schema in the subset.
func fitSchema(raw json.RawMessage) json.RawMessage {
	var schema fields
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		return raw // true or false
	}
	fitted := fields{}
	var moved []string
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[key]; {
		case schema["$ref"] != nil && key != "$ref": // the API takes no keyword beside $ref
		case key == "oneOf" && schema["anyOf"] == nil:
			fitted["anyOf"] = fitEach(value)
		case key == "items", key == "additionalProperties":
			fitted[key] = fitSchema(value)
		case key == "properties", key == "$defs", key == "anyOf", key == "allOf":
			fitted[key] = fitEach(value)
		case isEnforced(key, value):
			fitted[key] = value
		default:
			moved = append(moved, key+": "+string(value))
		}
	}
	isDictionary := fitted["properties"] == nil && fitted["additionalProperties"] != nil
	if string(fitted["type"]) == `"object"` && !isDictionary {
		fitted["additionalProperties"] = json.RawMessage("false")
		if fitted["properties"] == nil {
			fitted["properties"] = json.RawMessage("{}")
		}
	}
	if len(moved) > 0 {
		var description string
		_ = json.Unmarshal(fitted["description"], &description) // empty if there is none
		fitted["description"] = jsonString(strings.TrimPrefix(description+"\n\n{"+strings.Join(moved, ", ")+"}", "\n\n"))
	}
	if maps.EqualFunc(schema, fitted, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return raw
	}
	out, _ := json.Marshal(fitted) // its values have been parsed
	return out
}

// fitEach returns a list or an object of schemas with each schema in the subset.
func fitEach(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	var members fields
	var fitted any
	isSame := true
	fit := func(schema json.RawMessage) json.RawMessage {
		out := fitSchema(schema)
		isSame = isSame && bytes.Equal(out, schema)
		return out
	}
	if json.Unmarshal(raw, &list) == nil {
		for i := range list {
			list[i] = fit(list[i])
		}
		fitted = list
	} else if json.Unmarshal(raw, &members) == nil {
		for name := range members {
			members[name] = fit(members[name])
		}
		fitted = members
	}
	if isSame {
		return raw
	}
	out, _ := json.Marshal(fitted) // its values have been parsed
	return out
}

// isEnforced reports whether the API enforces a keyword whose value contains no schemas.
func isEnforced(key string, value json.RawMessage) bool {
	switch key {
	case "$ref", "type", "description", "title", "enum", "const", "required", "pattern":
		return true
	case "format":
		enforced := []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		return slices.Contains(enforced, strings.Trim(string(value), `"`))
	case "minItems":
		return string(value) == "0" || string(value) == "1"
	default:
		return false
	}
}
