package manifest

import (
	"encoding/json"
	"path"

	"github.com/turnstone-run/turnstone/agent"
)

// Parameters checks parameters against a property schema, like [Properties.Parameters].
func Parameters(properties, parameters json.RawMessage) (json.RawMessage, agent.Faults) {
	p, faults := NewProperties(properties)
	if faults != nil {
		return nil, agent.Faults{{Message: "the node's properties are no usable schema: " + faults[0].String()}}
	}
	return p.Parameters(parameters)
}

// Schemas returns the published schemas by file name: one per kind, and catalog.json for documents of any kind.
func Schemas() (map[string][]byte, error) {
	files, err := schemaFiles.ReadDir("schemas")
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(files))
	for _, f := range files {
		if out[f.Name()], err = schemaFiles.ReadFile(path.Join("schemas", f.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PublishedSchema returns the published JSON Schema of a kind.
func PublishedSchema(kind agent.Kind) []byte {
	data, _ := schemaFiles.ReadFile("schemas/" + kinds()[kind].schema + ".json")
	return data
}
