// Package manifest reads catalog documents from YAML or JSON text, for files and for the API. Every fault has file, line, column and path.
//
// A text is read into a tree of values with positions. The tree is checked against the JSON Schema of its kind (docs/schemas, embedded here)
// and decoded into its type in package agent. The decoded value is checked against the rules that a schema cannot express. Faults never
// quote values, because a value may be a secret in the wrong field.
//
// The YAML library is go.yaml.in/yaml/v3, unlike the configuration, which uses goccy's. Documents also come from the API, and the time of
// goccy's parser grows with the square of the nesting: 0.11 s for 16 KiB of brackets. This library refuses 1 MiB of brackets in 10 ms.
package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/turnstone-run/turnstone/agent"
)

// Document is a catalog document that passed every check that does not need other documents.
type Document struct {
	Key agent.DocumentKey // with a tenant, except for kind NodeDefinition
	// Body is the document as canonical JSON (RFC 8785). The tenant is filled in, versions are strings, tool grants are objects, and fields
	// without a value are removed.
	Body  json.RawMessage
	Value any    // a pointer to the type of Key.Kind, such as *agent.NodeDefinition
	File  string // empty if the document is not from a file
	Line  int    // the first line of the document; 0 if unknown

	root *node // nil if positions are unknown
}

// Fault returns a fault of the field at path, such as rules[2].when.expression. Its position is that of the field, or of the innermost
// enclosing value that exists. An empty path means the document.
func (d *Document) Fault(path, format string, args ...any) agent.Fault {
	f := agent.Fault{File: d.File, Document: d.Key.String(), Path: path, Message: fmt.Sprintf(format, args...)}
	if d.root != nil {
		n, _ := d.root.find(path)
		f.Line, f.Column = n.faultPosition().line, n.faultPosition().column
	}
	return f
}

// Within returns faults of the value at path, whose paths are relative to it, as faults of the document.
func (d *Document) Within(path string, faults agent.Faults) agent.Faults {
	out := make(agent.Faults, len(faults))
	for i, f := range faults {
		out[i] = d.Fault(JoinPath(path, f.Path), "%s", f.Message)
	}
	return out
}

// Decode reads a stored document. Its error is [agent.CodeInvalid] if the body is invalid, when it wraps [agent.Faults], or has another key.
func Decode(d agent.Document) (*Document, error) {
	c, faults := readSingle(d.Body)
	var def *Document
	if faults == nil {
		def, faults = withoutPositions(c.check())
	}
	if err := faults.Err(); err != nil {
		return nil, fmt.Errorf("load definition %q: %w", d.String(), err)
	}
	if def.Key != d.DocumentKey {
		return nil, fmt.Errorf("load definition %q: %w", d.String(), agent.Errorf(agent.CodeInvalid, "", "its body is %s", def.Key))
	}
	return def, nil
}

// New returns the document of a value, such as an [agent.NodeDefinition] or a pointer to one. Its field Kind may be empty. Fields that are
// empty strings count as absent.
func New(value any) (*Document, agent.Faults) {
	kind, field, ok := kindOf(value)
	if !ok {
		return nil, agent.Faults{{Message: fmt.Sprintf("a %T is no catalog document", value)}}
	}
	if field != "" && field != kind {
		return nil, agent.Faults{{Document: string(kind), Path: "kind", Message: fmt.Sprintf("want %s", kind)}}
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, agent.Faults{{Document: string(kind), Message: "cannot be written as JSON: " + err.Error()}}
	}
	doc, faults := readSingle(body)
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
	return withoutPositions(doc.check())
}

// kindOf returns the kind of a document's Go type, and the value of its field Kind. ok is false for other types.
func kindOf(value any) (kind, field agent.Kind, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(value))
	for kind, k := range kinds() {
		if v.IsValid() && v.Type() == reflect.TypeOf(k.value).Elem() {
			return kind, agent.Kind(v.FieldByName("Kind").String()), true
		}
	}
	return "", "", false
}

// withoutPositions removes lines and columns, which are useless for a text that no user wrote.
func withoutPositions(d *Document, faults agent.Faults) (*Document, agent.Faults) {
	for i := range faults {
		faults[i].Line, faults[i].Column = 0, 0
	}
	if d != nil {
		d.Line, d.root = 0, nil
	}
	return d, faults
}
