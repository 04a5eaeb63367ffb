package openai

import "encoding/json"

// fitsStrict reports whether a JSON Schema is inside the subset that OpenAI enforces: every object lists all its properties as
// required and allows no others. A schema outside it is refused with status 400 when it is sent as strict; seed 004's are outside, so
// that they go without.
func fitsStrict(schema json.RawMessage) bool {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil {
		return false
	}
	if raw, ok := s["items"]; ok && !fitsStrict(raw) {
		return false
	}
	var kind string
	if json.Unmarshal(s["type"], &kind) != nil || kind != "object" {
		return kind != ""
	}
	var properties map[string]json.RawMessage
	var required []string
	if string(s["additionalProperties"]) != "false" || json.Unmarshal(s["properties"], &properties) != nil ||
		json.Unmarshal(s["required"], &required) != nil || len(required) != len(properties) {
		return false
	}
	for _, name := range required {
		property, ok := properties[name]
		if !ok || !fitsStrict(property) {
			return false
		}
	}
	return true
}
