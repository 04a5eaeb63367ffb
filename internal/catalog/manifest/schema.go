package manifest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/agent"
)

// schemaFiles are the originals of docs/schemas; a test compares them, and with -update copies them there.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// schemaName is the name of a kind's schema, without its ending.
func schemaName(kind agent.Kind) string {
	switch kind {
	case agent.KindNode:
		return "node_definition"
	case agent.KindAgent:
		return "agent_instance"
	case agent.KindBinding:
		return "tool_binding"
	case agent.KindModel:
		return "model_profile"
	case agent.KindRoutes:
		return "route_table"
	case agent.KindAuth:
		return "auth_profile"
	case agent.KindKnowledge:
		return "knowledge_collection"
	default:
		return ""
	}
}

// Schema returns the published JSON Schema (draft 2020-12) of a kind, nil for an unknown one. The bytes are the caller's.
func Schema(kind agent.Kind) []byte {
	data, err := schemaFiles.ReadFile("schemas/" + schemaName(kind) + ".json")
	if err != nil {
		return nil
	}
	return data
}

// schema is a compiled JSON Schema beside its source, which has the words for faults.
type schema struct {
	compiled *jsonschema.Schema
	source   any
	url      string
	own      bool // one of the published ones
}

// published holds the compiled schemas: they never change.
//
//nolint:gochecknoglobals // a constant in all but syntax
var published = sync.OnceValues(func() (map[agent.Kind]*schema, error) {
	all := make(map[agent.Kind]*schema, len(agent.Kinds()))
	for _, kind := range agent.Kinds() {
		source, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(kind)))
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		s := &schema{source: source, url: "turnstone:///" + schemaName(kind) + ".json", own: true}
		if s.compiled, err = newCompiler(s.url, source).Compile(s.url); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		all[kind] = s
	}
	return all, nil
})

func schemaOf(kind agent.Kind) (*schema, error) {
	all, err := published()
	return all[kind], err
}

// fieldOf reports whether the kind's documents have a field of that name.
func fieldOf(kind agent.Kind, name string) bool {
	s, err := schemaOf(kind)
	if err != nil {
		return false
	}
	_, ok := s.at("")["properties"].(map[string]any)[name]
	return ok
}

var errRemote = errors.New("other documents are not read")

// noLoader keeps the library from reading files and the network.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

func newCompiler(url string, source any) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	_ = c.AddResource(url, source) // fails for an address that is taken or malformed: Compile says so as well
	return c
}

// at is the source's object at an address that the validator gives; nil when it lies elsewhere.
func (s *schema) at(url string) map[string]any {
	v := s.source
	for _, token := range pointer(strings.TrimPrefix(url, s.url)) {
		switch container := v.(type) {
		case map[string]any:
			v = container[token]
		case []any:
			i, ok := index(token, len(container))
			if !ok {
				return nil
			}
			v = container[i]
		default:
			return nil
		}
	}
	object, _ := v.(map[string]any)
	return object
}
