package anthropic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// outputSchema fits a schema to the subset that the API enforces: objects are closed, and keywords that it does not know move to the description,
// where the model reads them. Parts that fit already stay as they are, in their own order.
func outputSchema(raw json.RawMessage) (map[string]any, error) {
	return wire.ParseSchema("output_schema", fitSchema(raw))
}

// fitSchema returns a schema with the keywords that the API knows.
func fitSchema(raw json.RawMessage) json.RawMessage {
	var given fields
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return raw // true or false
	}
	fitted := fields{}
	var moved []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		switch value := given[key]; {
		case given["$ref"] != nil && key != "$ref": // the API takes nothing beside it
		case key == "oneOf" && given["anyOf"] == nil:
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
	if string(fitted["type"]) == `"object"` && (fitted["properties"] != nil || fitted["additionalProperties"] == nil) { // else it is a dictionary
		fitted["additionalProperties"] = json.RawMessage("false")
		if fitted["properties"] == nil {
			fitted["properties"] = json.RawMessage("{}")
		}
	}
	if len(moved) > 0 {
		var description string
		_ = json.Unmarshal(fitted["description"], &description) // without one it stays empty
		fitted["description"] = jsonString(strings.TrimPrefix(description+"\n\n{"+strings.Join(moved, ", ")+"}", "\n\n"))
	}
	if maps.EqualFunc(given, fitted, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return raw
	}
	out, _ := json.Marshal(fitted) // its parts were parsed just now
	return out
}

// fitEach fits the schemas of a list or of an object.
func fitEach(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	var members fields
	var fitted any
	same := true
	fit := func(schema json.RawMessage) json.RawMessage {
		out := fitSchema(schema)
		same = same && bytes.Equal(out, schema)
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
	if same {
		return raw
	}
	out, _ := json.Marshal(fitted) // as above
	return out
}

// isEnforced reports whether the API enforces a keyword that holds no schemas.
func isEnforced(key string, value json.RawMessage) bool {
	switch key {
	case "$ref", "type", "description", "title", "enum", "const", "required", "pattern":
		return true
	case "format":
		known := []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		return slices.Contains(known, strings.Trim(string(value), `"`))
	case "minItems":
		return string(value) == "0" || string(value) == "1"
	default:
		return false
	}
}
