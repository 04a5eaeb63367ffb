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
	// maxSchemaSize bounds the number of values of a schema, which is the cost of checking one value. The target of a $ref counts each time.
	maxSchemaSize = 5_000
	// maxWork bounds the size of a schema times the number of values to check. It takes about a second.
	maxWork = 2_000_000
)

// propertySchema is a JSON Schema that a document contains.
type propertySchema struct {
	*documentSchema // nil until the schema is compiled

	root   *node
	sizes  map[*node]int // of the measured schemas; -1 while a schema is being measured
	work   int           // remaining work for checks of defaults
	faults []locatedFault
}

// CheckSchema returns the faults of a JSON Schema of draft 2020-12, 2019-09 or 7. The schema must describe an object, compile, have a bounded
// size and no references to other documents or to itself, and its defaults must satisfy it. Paths are relative to the schema.
func CheckSchema(text json.RawMessage) agent.Faults {
	s, faults := newPropertySchema(text)
	if faults != nil {
		return faults
	}
	if s.compile() {
		s.checkDefaults(s.root, "", "#")
	}
	return faultsWithoutPosition(s.faults)
}

// newPropertySchema reads a schema and checks it except for its keywords and defaults.
func newPropertySchema(raw json.RawMessage) (*propertySchema, agent.Faults) {
	if len(raw) > maxSchemaBytes {
		return nil, agent.Faults{{Message: fmt.Sprintf("the schema has %d bytes, at most %d are allowed", len(raw), maxSchemaBytes)}}
	}
	doc, faults := readSingle(raw)
	if faults != nil {
		return nil, faults
	}
	s := &propertySchema{root: doc.root, sizes: map[*node]int{}, work: maxWork, faults: doc.faults}
	if len(s.faults) == 0 && s.checkShape() && s.measure(s.root, "") > maxSchemaSize {
		s.fault("", "is too large: more than %d values with what its references name", maxSchemaSize)
	}
	return s, faultsWithoutPosition(s.faults)
}

// spend subtracts the cost of checking a number of values against a schema from the remaining work, and reports whether that was enough.
func (s *propertySchema) spend(n *node, values int) bool {
	s.work -= s.sizes[n] * values
	return s.work >= 0
}

// faultsWithoutPosition returns faults without positions, for a text that no user wrote.
func faultsWithoutPosition(faults []locatedFault) agent.Faults {
	var out agent.Faults
	for i, f := range sortByPosition(faults) {
		if i == maxDocumentFaults {
			return append(out, agent.Fault{Message: fmt.Sprintf("and %d more faults", len(faults)-i)})
		}
		out = append(out, agent.Fault{Path: f.path, Message: f.message})
	}
	return out
}

func (s *propertySchema) fault(path, format string, args ...any) {
	n, _ := s.root.find(path)
	s.faults = append(s.faults, locatedFault{n.faultPosition(), path, fmt.Sprintf(format, args...)})
}

// drafts returns the versions of JSON Schema that a schema may have.
func drafts() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema",
	}
}

// checkShape checks the root of the schema. It returns false if the root is not an object.
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

// visitSubschemas calls visit for every schema directly within n, with its path and its JSON Pointer.
func visitSubschemas(n *node, path, pointer string, visit func(sub *node, path, pointer string)) {
	for _, m := range n.members {
		memberPath, memberPointer := child(path, m.name), appendToken(pointer, m.name)
		switch m.name {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			for _, sub := range m.value.members {
				visit(sub.value, child(memberPath, sub.name), appendToken(memberPointer, sub.name))
			}
		case "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames",
			"not", "if", "then", "else", "contentSchema", "allOf", "anyOf", "oneOf", "prefixItems":
			if m.value.form != formArray {
				visit(m.value, memberPath, memberPointer)
			}
			for i, sub := range m.value.items {
				visit(sub, item(memberPath, i), fmt.Sprintf("%s/%d", memberPointer, i))
			}
		}
	}
}

// measure returns the number of values of a schema, including the targets of its references. It adds faults for references to other documents
// and for cycles.
func (s *propertySchema) measure(n *node, path string) int {
	if size, isMeasured := s.sizes[n]; isMeasured {
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
		if target := s.resolveRef(ref.text); target != nil {
			size += s.measure(target, child(path, "$ref"))
		} else {
			s.fault(child(path, "$ref"), "want #/… to a schema of this document: others are not read")
		}
	}
	visitSubschemas(n, path, "", func(sub *node, path, _ string) {
		size += s.measure(sub, path) - sub.count()
	})
	size = min(size, maxSchemaSize+1)
	s.sizes[n] = size
	return size
}

// resolveRef returns the target of a reference, nil if it is outside the schema.
func (s *propertySchema) resolveRef(ref string) *node {
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return nil
	}
	n, _ := s.root.findTokens(pointerTokens(strings.TrimPrefix(ref, "#")))
	return n
}

// compile compiles the schema. It returns false after adding faults.
func (s *propertySchema) compile() bool {
	compiled, faults := newDocumentSchema(s.root.value(), false)
	s.documentSchema = compiled
	s.addFaults("", faults)
	return len(faults) == 0
}

// addFaults adds faults of the value at path, at most one for each field.
func (s *propertySchema) addFaults(path string, found []schema.Fault) {
	n, _ := s.root.find(path)
	s.faults = append(s.faults, locateFaults(n, path, found)...)
}

// locateFaults returns faults of value n at path with their positions, at most one for each field.
func locateFaults(n *node, path string, found []schema.Fault) []locatedFault {
	var out []locatedFault
	reported := map[string]bool{}
	for _, f := range sortFaults(found) {
		target, relative := n.findTokens(f.Tokens)
		if target == nil {
			target, relative = n, ""
		}
		pos := target.faultPosition()
		if f.Name != "" {
			if field := target.member(f.Name); field != nil {
				pos = field.keyPos
			}
			relative = child(relative, f.Name)
		}
		if full := JoinPath(path, relative); !reported[full] {
			reported[full] = true
			out = append(out, locatedFault{pos, full, f.Message()})
		}
	}
	return out
}

// checkDefaults checks every default against its schema. pointer is the JSON Pointer of n.
func (s *propertySchema) checkDefaults(n *node, path, pointer string) {
	if value := n.member("default"); value != nil {
		defaultPath := child(path, "default")
		if !s.spend(n, value.count()) {
			s.fault(defaultPath, "is too large to be checked")
			return
		}
		found, _, err := s.FaultsAt(pointer, value.value(), s.wording())
		if err != nil {
			s.fault(defaultPath, "cannot be checked: its schema is of no use")
			return
		}
		s.addFaults(defaultPath, found)
	}
	visitSubschemas(n, path, pointer, s.checkDefaults)
}
