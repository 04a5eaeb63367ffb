package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the schemas that documents carry.
const (
	maxSchemaBytes = 256 << 10
	// maxSchemaSize counts the values of a schema, those behind a $ref each time that it is named: what one value may cost to check.
	maxSchemaSize = 5_000
	// maxWork bounds size of the schema times number of values: about a second.
	maxWork = 2_000_000
)

const schemaURL = "turnstone:///schema"

// propertySchema is a JSON Schema that a document carries.
type propertySchema struct {
	schema

	root     *node
	compiler *jsonschema.Compiler
	sizes    map[*node]int // of schemas whose size is known; -1 while it is being counted
	work     int           // what may still be spent on defaults
	faults   []located
}

// CheckSchema says what keeps a JSON Schema of draft 2020-12, 2019-09 or 7 from being used: it must describe an object, compile, refer
// to nothing outside and not to itself, be of bounded size, and its defaults must satisfy it. Paths are within the schema.
func CheckSchema(schema json.RawMessage) agent.Faults {
	s, faults := newPropertySchema(schema)
	if faults != nil {
		return faults
	}
	if s.compile() {
		s.defaults(s.root, "", "#")
	}
	return plainFaults(s.faults)
}

// newPropertySchema reads a schema and checks everything but its keywords and defaults.
func newPropertySchema(raw json.RawMessage) (*propertySchema, agent.Faults) {
	if len(raw) > maxSchemaBytes {
		return nil, agent.Faults{{Message: fmt.Sprintf("the schema has %d bytes, at most %d are allowed", len(raw), maxSchemaBytes)}}
	}
	doc, faults := read(raw)
	if faults != nil {
		return nil, faults
	}
	s := &propertySchema{schema: schema{url: schemaURL}, root: doc.root, sizes: map[*node]int{}, work: maxWork, faults: doc.faults}
	if len(s.faults) == 0 && s.shape() && s.measure(s.root, "") > maxSchemaSize {
		s.fault("", "is too large: more than %d values with what its references name", maxSchemaSize)
	}
	return s, plainFaults(s.faults)
}

// spend takes the cost of checking values against a schema from what is left; false when it is not enough.
func (s *propertySchema) spend(schema *node, values int) bool {
	s.work -= s.sizes[schema] * values
	return s.work >= 0
}

// plainFaults drops places: the text was not a person's.
func plainFaults(faults []located) agent.Faults {
	var out agent.Faults
	for i, f := range sorted(faults) {
		if i == maxDocumentFaults {
			return append(out, agent.Fault{Message: fmt.Sprintf("and %d more faults", len(faults)-i)})
		}
		out = append(out, agent.Fault{Path: f.path, Message: f.message})
	}
	return out
}

func (s *propertySchema) fault(path, format string, args ...any) {
	n, _ := s.root.find(path)
	s.faults = append(s.faults, located{n.where(), path, fmt.Sprintf(format, args...)})
}

// drafts are the versions of JSON Schema that may be named.
func drafts() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema",
	}
}

// shape checks what must hold of the outermost schema.
func (s *propertySchema) shape() bool {
	if s.root.form != formObject {
		s.fault("", "want a JSON Schema of an object, got %s", s.root.form)
		return false
	}
	if draft := s.root.member("$schema"); draft != nil && !slices.Contains(drafts(), strings.TrimSuffix(draft.text, "#")) {
		s.fault("$schema", "want %s, or leave it out", drafts()[0])
	}
	if t := s.root.member("type"); t == nil || t.text != "object" {
		s.fault("type", `want "object"`)
	}
	s.root.members = slices.DeleteFunc(s.root.members, func(m member) bool { return m.name == "$id" })
	return true
}

// subschemas calls visit with every schema directly within n, its path and its pointer.
func subschemas(n *node, path, at string, visit func(sub *node, path, at string)) {
	for _, m := range n.members {
		where, to := child(path, m.name), fragment(at, m.name)
		switch m.name {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			for _, sub := range m.value.members {
				visit(sub.value, child(where, sub.name), fragment(to, sub.name))
			}
		case "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames",
			"not", "if", "then", "else", "contentSchema", "allOf", "anyOf", "oneOf", "prefixItems":
			if m.value.form != formArray {
				visit(m.value, where, to)
			}
			for i, sub := range m.value.items {
				visit(sub, item(where, i), fmt.Sprintf("%s/%d", to, i))
			}
		}
	}
}

// measure counts the values of a schema, those behind references included, and refuses references that lead outside or in a circle.
func (s *propertySchema) measure(n *node, path string) int {
	if size, known := s.sizes[n]; known {
		if size < 0 {
			s.fault(path, "refers to itself: recursive schemas are not supported")
			return 0
		}
		return size
	}
	s.sizes[n] = -1
	size := n.count()
	for _, m := range n.members {
		if path != "" && m.name == "$id" || strings.HasPrefix(m.name, "$dynamic") || strings.HasPrefix(m.name, "$recursive") {
			s.fault(child(path, m.name), "is not supported")
		}
	}
	if ref := n.member("$ref"); ref != nil && ref.form == formText {
		if target := s.target(ref.text); target != nil {
			size += s.measure(target, child(path, "$ref"))
		} else {
			s.fault(child(path, "$ref"), "want #/… to a schema of this document: others are not read")
		}
	}
	subschemas(n, path, "", func(sub *node, path, _ string) {
		size += s.measure(sub, path) - sub.count()
	})
	size = min(size, maxSchemaSize+1)
	s.sizes[n] = size
	return size
}

// target follows a reference within the schema.
func (s *propertySchema) target(ref string) *node {
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return nil
	}
	n, _ := s.root.route(pointer(ref))
	return n
}

func (s *propertySchema) compile() bool {
	s.source = s.root.value()
	s.compiler = newCompiler(s.url, s.source)
	var err error
	if s.compiled, err = s.compiler.Compile(s.url); err == nil {
		return true
	}
	broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		s.fault("", "is no usable JSON Schema")
		return false
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](broken.Err); ok {
		meta := &schema{url: s.url}
		s.add("", meta.flatten(invalid))
	}
	if len(s.faults) == 0 {
		s.fault("", "is no valid JSON Schema")
	}
	return false
}

// add turns flaws of a part at path into faults, each field once.
func (s *propertySchema) add(path string, found []flaw) {
	at, _ := s.root.find(path)
	s.faults = append(s.faults, locate(at, path, found)...)
}

// locate gives flaws of the value at path their places, each field once.
func locate(n *node, path string, found []flaw) []located {
	var out []located
	known := map[string]bool{}
	for _, f := range found {
		last, way := n.route(f.tokens)
		if f.lost {
			last, way = n.owner(f.name, "")
		}
		if last == nil {
			last, way = n, ""
		}
		at := last.where()
		if f.name != "" {
			if field := last.member(f.name); field != nil {
				at = field.key
			}
			way = child(way, f.name)
		}
		if full := join(path, way); !known[full] {
			known[full] = true
			out = append(out, located{at, full, f.message})
		}
	}
	return out
}

// owner is the first object within n that has a member of that name. The validator gives no sure way to a member whose name is refused:
// it goes on to change the one that it has given.
func (n *node) owner(name, path string) (*node, string) {
	if n.member(name) != nil {
		return n, path
	}
	for _, m := range n.members {
		if found, way := m.value.owner(name, child(path, m.name)); found != nil {
			return found, way
		}
	}
	for i, entry := range n.items {
		if found, way := entry.owner(name, item(path, i)); found != nil {
			return found, way
		}
	}
	return nil, ""
}

// defaults checks every default against the schema that it stands in.
func (s *propertySchema) defaults(n *node, path, at string) {
	if value := n.member("default"); value != nil {
		where := child(path, "default")
		if !s.spend(n, value.count()) {
			s.fault(where, "is too large to be checked")
			return
		}
		part, err := s.compiler.Compile(s.url + at)
		if err != nil {
			s.fault(where, "cannot be checked: its schema is of no use")
			return
		}
		sub := &schema{compiled: part, source: s.source, url: s.url}
		found, refused := sub.flaws(value.value())
		if refused && len(found) == 0 {
			found = []flaw{{message: schemaRefuses}}
		}
		s.add(where, found)
	}
	subschemas(n, path, at, func(sub *node, path, at string) { s.defaults(sub, path, at) })
}
