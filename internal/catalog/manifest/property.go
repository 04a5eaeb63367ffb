package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// Bounds of the schemas in documents.
const (
	maxSchemaBytes = 256 << 10
	// maxSchemaSize bounds the values of a schema, and with it the cost of checking one value. What a $ref names counts each time.
	maxSchemaSize = 5_000
	// maxWork bounds the size of the schema times the number of values: about a second.
	maxWork = 2_000_000
)

// propertySchema is a JSON Schema that a document carries.
type propertySchema struct {
	*documentSchema // nil until it is compiled

	root   *node
	sizes  map[*node]int // of the schemas that were measured; -1 while one is being measured
	work   int           // what may still be spent on checks of defaults
	faults []locatedFault
}

// CheckSchema returns what is wrong with a JSON Schema of draft 2020-12, 2019-09 or 7: it must describe an object, compile, refer neither to
// other documents nor to itself, have a bounded size, and its defaults must satisfy it. Paths are within the schema.
func CheckSchema(text json.RawMessage) agent.Faults {
	s, faults := newPropertySchema(text)
	if faults != nil {
		return faults
	}
	if s.compile() {
		s.checkDefaults(s.root, "", "#")
	}
	return plainFaults(s.faults)
}

// newPropertySchema reads a schema and checks all but its keywords and defaults.
func newPropertySchema(raw json.RawMessage) (*propertySchema, agent.Faults) {
	if len(raw) > maxSchemaBytes {
		return nil, agent.Faults{{Message: fmt.Sprintf("the schema has %d bytes, at most %d are allowed", len(raw), maxSchemaBytes)}}
	}
	doc, faults := read(raw)
	if faults != nil {
		return nil, faults
	}
	s := &propertySchema{root: doc.root, sizes: map[*node]int{}, work: maxWork, faults: doc.faults}
	if len(s.faults) == 0 && s.checkShape() && s.measure(s.root, "") > maxSchemaSize {
		s.fault("", "is too large: more than %d values with what its references name", maxSchemaSize)
	}
	return s, plainFaults(s.faults)
}

// spend subtracts the cost of checking values against a schema from the work that is left, and reports whether it was enough.
func (s *propertySchema) spend(n *node, values int) bool {
	s.work -= s.sizes[n] * values
	return s.work >= 0
}

// plainFaults returns faults without places: no person wrote the text.
func plainFaults(faults []locatedFault) agent.Faults {
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
	s.faults = append(s.faults, locatedFault{n.where(), path, fmt.Sprintf(format, args...)})
}

// drafts returns the versions of JSON Schema that a schema may name.
func drafts() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema",
	}
}

// checkShape checks the outermost schema.
func (s *propertySchema) checkShape() bool {
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

// subschemas calls visit for every schema directly within n, with its path and its pointer.
func subschemas(n *node, path, at string, visit func(sub *node, path, at string)) {
	for _, m := range n.members {
		where, to := child(path, m.name), appendToken(at, m.name)
		switch m.name {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			for _, sub := range m.value.members {
				visit(sub.value, child(where, sub.name), appendToken(to, sub.name))
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

// measure returns the number of values of a schema, including those behind references. It adds faults for references to other documents and
// for cycles.
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

// target returns the schema that a reference leads to, nil if it leads outside.
func (s *propertySchema) target(ref string) *node {
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return nil
	}
	n, _ := s.root.route(pointerTokens(strings.TrimPrefix(ref, "#")))
	return n
}

// compile compiles the schema, or adds faults and returns false.
func (s *propertySchema) compile() bool {
	compiled, faults := newDocumentSchema(s.root.value(), false)
	s.documentSchema = compiled
	s.addFaults("", faults)
	return len(faults) == 0
}

// addFaults adds faults of the value at path, one for each field.
func (s *propertySchema) addFaults(path string, found []schema.Fault) {
	n, _ := s.root.find(path)
	s.faults = append(s.faults, locate(n, path, found)...)
}

// locate returns faults of the value at path with their places, one for each field.
func locate(n *node, path string, found []schema.Fault) []locatedFault {
	var out []locatedFault
	known := map[string]bool{}
	for _, f := range sortFaults(found) {
		last, way := n.route(f.Tokens)
		if last == nil {
			last, way = n, ""
		}
		at := last.where()
		if f.Name != "" {
			if field := last.member(f.Name); field != nil {
				at = field.key
			}
			way = child(way, f.Name)
		}
		if full := join(path, way); !known[full] {
			known[full] = true
			out = append(out, locatedFault{at, full, f.Message()})
		}
	}
	return out
}

// checkDefaults checks every default against its schema. fragment is the JSON Pointer of n.
func (s *propertySchema) checkDefaults(n *node, path, fragment string) {
	if value := n.member("default"); value != nil {
		where := child(path, "default")
		if !s.spend(n, value.count()) {
			s.fault(where, "is too large to be checked")
			return
		}
		found, _, err := s.FaultsAt(fragment, value.value(), s.wording())
		if err != nil {
			s.fault(where, "cannot be checked: its schema is of no use")
			return
		}
		s.addFaults(where, found)
	}
	subschemas(n, path, fragment, s.checkDefaults)
}
