package manifest

import (
	"bytes"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// schemaFiles are the originals of docs/schemas; a test compares them, and with -update copies them there.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// kindInfo is what the package knows about a kind of document.
type kindInfo struct {
	schema string // file name without its ending
	value  any    // a new pointer to its type
}

func kinds() map[agent.Kind]kindInfo {
	return map[agent.Kind]kindInfo{
		agent.KindNode:      {"node_definition", &agent.NodeDefinition{}},
		agent.KindAgent:     {"agent_instance", &agent.AgentInstance{}},
		agent.KindBinding:   {"tool_binding", &agent.ToolBinding{}},
		agent.KindModel:     {"model_profile", &agent.ModelProfile{}},
		agent.KindRoutes:    {"route_table", &agent.RouteTable{}},
		agent.KindAuth:      {"auth_profile", &agent.AuthProfile{}},
		agent.KindKnowledge: {"knowledge_collection", &agent.KnowledgeCollection{}},
	}
}

// documentSchema is a compiled JSON Schema with its source, which has messages of its own.
type documentSchema struct {
	*schema.Schema

	source    any
	published bool // one of docs/schemas, not one that a document carries
}

// newDocumentSchema compiles a schema.
func newDocumentSchema(source any, published bool) (*documentSchema, []schema.Fault) {
	compiled, faults := schema.Compile(source, &schema.Wording{Catalog: true})
	return &documentSchema{Schema: compiled, source: source, published: published}, faults
}

// publishedSchemas holds the compiled schemas of all kinds, which never change.
//
//nolint:gochecknoglobals // a constant in all but syntax
var publishedSchemas = sync.OnceValues(func() (map[agent.Kind]*documentSchema, error) {
	all := map[agent.Kind]*documentSchema{}
	for kind, k := range kinds() {
		data, err := schemaFiles.ReadFile("schemas/" + k.schema + ".json")
		if err != nil {
			return nil, err
		}
		source, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		s, faults := newDocumentSchema(source, true)
		if len(faults) > 0 {
			return nil, fmt.Errorf("schema of %s: %s", kind, faults[0].Message())
		}
		all[kind] = s
	}
	return all, nil
})

// schemaOf returns the published schema of a kind.
func schemaOf(kind agent.Kind) (*documentSchema, error) {
	all, err := publishedSchemas()
	return all[kind], err
}

// hasField reports whether documents of the kind have a field of that name.
func hasField(kind agent.Kind, name string) bool {
	s, err := schemaOf(kind)
	if err != nil {
		return false
	}
	_, ok := s.objectAt("")["properties"].(map[string]any)[name]
	return ok
}

// objectAt returns the object of the source at a URL of the validator, nil if there is none.
func (s *documentSchema) objectAt(url string) map[string]any {
	v := s.source
	_, fragment, _ := strings.Cut(url, "#")
	for _, token := range pointerTokens(fragment) {
		switch container := v.(type) {
		case map[string]any:
			v = container[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(container) {
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

// wording returns the messages for values of this schema.
func (s *documentSchema) wording() *schema.Wording {
	w := &schema.Wording{Catalog: true, Message: s.ownMessage, Unknown: s.unknownField}
	if s.published {
		w.Ignore = isReportedElsewhere
	}
	return w
}

// isReportedElsewhere reports whether [checker.checkRules] has a better message for an error of a published schema: it says which entries
// are equal, and what depends on the value of a field.
func isReportedElsewhere(e *jsonschema.ValidationError) bool {
	_, equalEntries := e.ErrorKind.(*kind.UniqueItems)
	return equalEntries || strings.Contains(e.SchemaURL, "#/allOf/")
}

// ownMessage returns the message that the schema has for an error, empty if it has none.
func (s *documentSchema) ownMessage(e *jsonschema.ValidationError) string {
	message := ""
	switch e.ErrorKind.(type) {
	case *kind.Pattern:
		message, _ = s.objectAt(e.SchemaURL)["patternErrorMessage"].(string)
	case *kind.MinItems, *kind.MaxItems, *kind.UniqueItems, *kind.MinProperties, *kind.MaxProperties,
		*kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.Not:
		message, _ = s.objectAt(e.SchemaURL)["errorMessage"].(string)
	}
	return message
}

// unknownField returns the message for a field that a schema does not have, with the one that was probably meant.
func (s *documentSchema) unknownField(url, name string) string {
	source := s.objectAt(url)
	if source["patternProperties"] != nil { // names follow a rule: there is none to suggest
		if rule, _ := source["errorMessage"].(string); rule != "" {
			return rule
		}
	}
	fields, _ := source["properties"].(map[string]any)
	return "unknown field" + suggestField(name, fields)
}
