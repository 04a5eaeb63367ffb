package wire

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// ParseSchema returns a JSON Schema as the map that request bodies hold, with its values verbatim. An empty schema means an object without
// properties. The error is [agent.CodeInvalid].
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
