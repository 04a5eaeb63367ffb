package manifest

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Properties is a compiled property schema of a node. It is safe for concurrent use.
type Properties struct{ schema *propertySchema }

// NewProperties compiles a property schema. An empty schema allows no parameters. Paths of faults are relative to the schema.
func NewProperties(text json.RawMessage) (*Properties, agent.Faults) {
	if isNull(text) {
		text = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	s, faults := newPropertySchema(text)
	if faults != nil {
		return nil, faults
	}
	s.refuseUnlisted()
	if !s.compile() {
		return nil, faultsWithoutPosition(s.faults)
	}
	return &Properties{schema: s}, nil
}

// Parameters checks parameters against the schema and returns them with its defaults, as canonical JSON. Paths of faults are relative to the
// parameters: temperature, tools[0].name.
//
// Defaults are added at every level that exists: an absent object without a default stays absent. A schema that lists properties refuses
// others unless it explicitly allows them, so that misspelt names are found.
func (p *Properties) Parameters(parameters json.RawMessage) (json.RawMessage, agent.Faults) {
	if isNull(parameters) {
		parameters = json.RawMessage("{}")
	}
	doc, faults := readSingle(parameters)
	switch {
	case faults != nil:
		return nil, faults
	case len(doc.faults) > 0:
		return nil, faultsWithoutPosition(doc.faults)
	}
	f := &filler{propertySchema: p.schema, work: maxWork}
	f.fill(doc.root, p.schema.root)
	if f.work < p.schema.sizes[p.schema.root]*doc.root.count() {
		return nil, agent.Faults{{Message: "are too many to be checked against this schema"}}
	}
	if found, valid := p.schema.Faults(doc.root.value(), p.schema.wording()); !valid {
		return nil, faultsWithoutPosition(locateFaults(doc.root, "", found))
	}
	out, err := doc.root.canonical()
	if err != nil {
		return nil, agent.Faults{{Message: "cannot be written as JSON: " + err.Error()}}
	}
	return out, nil
}

// refuseUnlisted forbids parameters that the schema does not list, unless the schema has a rule for them.
func (s *propertySchema) refuseUnlisted() {
	if s.root.member("properties") == nil {
		return
	}
	for _, name := range []string{
		"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "dependencies",
	} {
		if s.root.member(name) != nil {
			return
		}
	}
	s.root.members = append(s.root.members, member{"additionalProperties", &node{form: formBool}})
}

// filler adds defaults to the parameters of one call.
type filler struct {
	*propertySchema

	work int // remaining work; negative if it was exceeded
}

// fill adds the defaults of schema n to a value. It follows the keywords that always apply: properties, items, $ref and allOf.
func (f *filler) fill(value, n *node) {
	if n == nil || n.form != formObject || f.work < 0 {
		return
	}
	f.work--
	if ref := n.member("$ref"); ref != nil {
		f.fill(value, f.resolveRef(ref.text))
	}
	if all := n.member("allOf"); all != nil {
		for _, part := range all.items {
			f.fill(value, part)
		}
	}
	if properties := n.member("properties"); properties != nil && value.form == formObject {
		for _, p := range properties.members {
			v := value.member(p.name)
			if v == nil {
				d := f.defaultOf(p.value)
				if d == nil {
					continue
				}
				f.work -= d.count()
				if f.work < 0 {
					return
				}
				v = d.clone()
				value.members = append(value.members, member{p.name, v})
			}
			f.fill(v, p.value)
		}
	}
	if items := n.member("items"); items != nil && value.form == formArray {
		for _, item := range value.items {
			f.fill(item, items)
		}
	}
}

// defaultOf returns the default of a schema, or of the schema it refers to, nil if there is none.
func (s *propertySchema) defaultOf(n *node) *node {
	for n != nil && n.form == formObject {
		if d := n.member("default"); d != nil {
			return d
		}
		ref := n.member("$ref")
		if ref == nil {
			return nil
		}
		n = s.resolveRef(ref.text)
	}
	return nil
}
