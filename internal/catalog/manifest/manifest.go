// Package manifest reads catalog documents from YAML or JSON text, for files and for the API. Every fault has file, line, column and path.
//
// A text becomes a tree of values with places. The tree is checked against the JSON Schema of its kind (docs/schemas, embedded here), then
// decoded into the type of package agent, which is checked for what a schema cannot express. Faults repeat no values: any of them may be a
// secret in the wrong place.
//
// The YAML library is go.yaml.in/yaml/v3, not goccy's as for the configuration. Documents come from the API as well, and the time of goccy's
// parser grows with the square of the nesting: 0.11 s for 16 KiB of brackets. This one refuses 1 MiB of them in 10 ms.
package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/turnstone-run/turnstone/agent"
)

// Document is a catalog document that passed every check that needs no other document.
type Document struct {
	Key agent.DocumentKey // the tenant filled in, for all kinds but NodeDefinition
	// Body is the document as canonical JSON (RFC 8785), with the tenant filled in, a number as version turned into a string, the bare name
	// of a tool grant into an object, and without fields that have no value.
	Body  json.RawMessage
	Value any    // a pointer: *agent.NodeDefinition, *agent.AgentInstance and so on by Key.Kind
	File  string // empty: not from a file
	Line  int    // where it begins, from 1; 0: unknown

	root *node // with places; nil if they are unknown
}

// Fault returns a fault about the field at path, such as rules[2].when.expression, with the place of that field or of the nearest one
// around it. An empty path means the document.
func (d *Document) Fault(path, format string, args ...any) agent.Fault {
	f := agent.Fault{File: d.File, Document: d.Key.String(), Path: path, Message: fmt.Sprintf(format, args...)}
	if d.root != nil {
		n, _ := d.root.find(path)
		f.Line, f.Column = n.where().line, n.where().column
	}
	return f
}

// Within returns faults about a part of the document as faults of the document. at is the path of the part.
func (d *Document) Within(at string, faults agent.Faults) agent.Faults {
	out := make(agent.Faults, len(faults))
	for i, f := range faults {
		out[i] = d.Fault(join(at, f.Path), "%s", f.Message)
	}
	return out
}

// Decode reads a stored document. Its error is [agent.CodeInvalid] and wraps [agent.Faults]; it is [agent.CodeInvalid] too if the body
// belongs to another key.
func Decode(d agent.Document) (*Document, error) {
	def, faults := parseSingle(d.Body)
	if err := faults.Err(); err != nil {
		return nil, fmt.Errorf("load definition %q: %w", d.String(), err)
	}
	if def.Key != d.DocumentKey {
		return nil, fmt.Errorf("load definition %q: %w", d.String(), agent.Errorf(agent.CodeInvalid, "", "its body is %s", def.Key))
	}
	return def, nil
}

// New returns the document of a value: an [agent.NodeDefinition] or another of the seven kinds, or a pointer to one. Its Kind may be empty.
// Empty strings of fields that JSON cannot leave out count as absent.
func New(value any) (*Document, agent.Faults) {
	kind, given, ok := kindOf(value)
	if !ok {
		return nil, agent.Faults{{Message: fmt.Sprintf("a %T is no catalog document", value)}}
	}
	if given != "" && given != kind {
		return nil, agent.Faults{{Document: string(kind), Path: "kind", Message: fmt.Sprintf("want %s", kind)}}
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, agent.Faults{{Document: string(kind), Message: "cannot be written as JSON: " + err.Error()}}
	}
	doc, faults := read(body)
	if faults != nil {
		return nil, faults
	}
	kept := doc.root.members[:0]
	for _, m := range doc.root.members {
		switch {
		case m.name == "kind":
			m.value.text = string(kind)
		case m.value.form == formText && m.value.text == "":
			continue
		}
		kept = append(kept, m)
	}
	doc.root.members = kept
	return withoutPlaces(doc.check())
}

// kindOf returns the kind of a value or of what it points to, and the kind in its field.
func kindOf(value any) (kind, given agent.Kind, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(value))
	for kind, k := range kinds() {
		if v.IsValid() && v.Type() == reflect.TypeOf(k.value).Elem() {
			return kind, agent.Kind(v.FieldByName("Kind").String()), true
		}
	}
	return "", "", false
}

// parseSingle returns the only document of a JSON text.
func parseSingle(body []byte) (*Document, agent.Faults) {
	doc, faults := read(body)
	if faults != nil {
		return nil, faults
	}
	return withoutPlaces(doc.check())
}

// withoutPlaces removes the lines and columns of a text that no person wrote.
func withoutPlaces(d *Document, faults agent.Faults) (*Document, agent.Faults) {
	for i := range faults {
		faults[i].Line, faults[i].Column = 0, 0
	}
	if d != nil {
		d.Line, d.root = 0, nil
	}
	return d, faults
}
