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

// schemaFiles are the originals of docs/schemas. TestPublishedSchemas compares the copies, and updates them with -update.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// kindInfo describes a kind of document.
type kindInfo struct {
	schema string // the name of the schema's file, without .json
	value  any    // a pointer to a new value of the Go type
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

// documentSchema is a compiled JSON Schema and its source, which may define error messages.
type documentSchema struct {
	*schema.Schema

	source      any
	isPublished bool // from docs/schemas rather than from a document
}

func newDocumentSchema(source any, isPublished bool) (*documentSchema, []schema.Fault) {
	compiled, faults := schema.Compile(source, &schema.Wording{Catalog: true})
	return &documentSchema{Schema: compiled, source: source, isPublished: isPublished}, faults
}

// publishedSchemas returns the compiled schemas of all kinds.
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

// objectAt returns the object of the source that a URL of the validator points to, nil if there is none.
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

// wording returns the error messages for values of this schema.
func (s *documentSchema) wording() *schema.Wording {
	w := &schema.Wording{Catalog: true, Message: s.customMessage, Unknown: s.unknownField}
	if s.isPublished {
		w.Ignore = isReportedElsewhere
	}
	return w
}

// isReportedElsewhere reports whether [checker.checkRules] has a better message for an error of a published schema: for equal entries, and
// for rules that depend on the value of a field.
func isReportedElsewhere(e *jsonschema.ValidationError) bool {
	_, equalEntries := e.ErrorKind.(*kind.UniqueItems)
	return equalEntries || strings.Contains(e.SchemaURL, "#/allOf/")
}

// customMessage returns the message that the schema defines for an error, empty if it defines none.
func (s *documentSchema) customMessage(e *jsonschema.ValidationError) string {
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

// unknownField returns the message for a field that a schema does not have, with a suggestion if a field has a similar name.
func (s *documentSchema) unknownField(url, name string) string {
	source := s.objectAt(url)
	if source["patternProperties"] != nil { // no names to suggest
		if rule, _ := source["errorMessage"].(string); rule != "" {
			return rule
		}
	}
	fields, _ := source["properties"].(map[string]any)
	return "unknown field" + suggestField(name, fields)
}
