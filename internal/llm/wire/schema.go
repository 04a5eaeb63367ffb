package wire

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// ParseSchema returns a JSON Schema as a map for a request body, with its values unchanged. An empty schema becomes an object without properties. The
// error is [agent.CodeInvalid] with the field.
func ParseSchema(field string, raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}, nil
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || parts == nil {
		return nil, agent.Invalid(field, "is no JSON Schema object")
	}
	schema := make(map[string]any, len(parts))
	for k, v := range parts {
		schema[k] = v
	}
	return schema, nil
}
