package offline

import (
	"encoding/json"
	"strings"
)

// schema has the keywords of JSON Schema that [document] takes into account.
type schema struct {
	Type       any                        `json:"type"` // a name, or a list of names
	Enum       []json.RawMessage          `json:"enum"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	Minimum    *float64                   `json:"minimum"`
}

// document returns a small JSON document of a schema. It has the required fields, and strings are text.
func document(part json.RawMessage, text string) json.RawMessage {
	var s schema
	_ = json.Unmarshal(part, &s) // without a valid schema the document is a string
	name, _ := s.Type.(string)
	if names, ok := s.Type.([]any); ok && len(names) > 0 {
		name, _ = names[0].(string)
	}
	var v any = strings.TrimSpace(text)
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case name == "object" || s.Properties != nil:
		fields := map[string]json.RawMessage{}
		for _, field := range s.Required {
			fields[field] = document(s.Properties[field], text)
		}
		v = fields
	case name == "array":
		v = []json.RawMessage{document(s.Items, text)}
	case name == "boolean":
		v = false
	case name == "integer" || name == "number":
		if v = 0; s.Minimum != nil {
			v = *s.Minimum
		}
	}
	raw, _ := json.Marshal(v) // never fails, because its parts are valid JSON
	return raw
}
