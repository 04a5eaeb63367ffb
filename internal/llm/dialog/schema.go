package dialog

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Schema returns a JSON Schema as the map that SDKs want, its values verbatim; an empty one is that of an object without properties.
// The error is [agent.CodeInvalid].
func Schema(field string, raw json.RawMessage) (map[string]any, error) {
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
