package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The bounds of a document that is made of a schema.
const (
	maxSchema      = 256 << 10 // bytes
	maxSchemaDepth = 40        // of the document, and of references and combinations within one place of it
	schemaBudget   = 8 << 20   // bytes read of the schema and written of the document, see [maker.spend]
)

var (
	errNever  = errors.New("nothing satisfies it")
	errBudget = errors.New("what it asks for is too large")
	errDeep   = errors.New("it nests without end")
)

// place is what a schema asks of one place of the document: the keywords of the schema itself, of what it refers to and of the parts of
// allOf, brought together.
type place struct {
	keywords   map[string]json.RawMessage // all that are not below
	names      []string                   // of properties, in order
	properties map[string]json.RawMessage
	required   []string
	choices    [][]json.RawMessage // of each anyOf and oneOf, the alternatives
}

// read brings a schema together.
func (m *maker) read(raw json.RawMessage, depth int) (*place, error) {
	p := &place{keywords: map[string]json.RawMessage{}, properties: map[string]json.RawMessage{}}
	return p, m.merge(p, raw, depth)
}

// merge adds what a schema asks for to p.
func (m *maker) merge(p *place, raw json.RawMessage, depth int) error {
	if err := m.spend(len(raw)); err != nil {
		return err
	}
	if depth > maxSchemaDepth {
		return errDeep
	}
	var own map[string]json.RawMessage
	switch {
	case string(raw) == "true":
		return nil
	case string(raw) == "false":
		return errNever
	case json.Unmarshal(raw, &own) != nil || own == nil:
		return errors.New("it is no schema")
	}
	for _, name := range memberNames(raw) { // in order, so that the same schema always makes the same document
		if err := m.keyword(p, name, own[name], depth); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) keyword(p *place, name string, value json.RawMessage, depth int) error {
	switch name {
	case "$ref", "$dynamicRef":
		target, err := m.resolve(value)
		if err != nil {
			return err
		}
		return m.merge(p, target, depth+1)
	case "allOf":
		parts, err := list(name, value)
		for i := 0; i < len(parts) && err == nil; i++ {
			err = m.merge(p, parts[i], depth+1)
		}
		return err
	case "anyOf", "oneOf":
		choice, err := list(name, value)
		p.choices = append(p.choices, choice)
		return err
	case "properties":
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return fmt.Errorf("its %s are no object", name)
		}
		for _, n := range memberNames(value) {
			if _, there := p.properties[n]; !there {
				p.names = append(p.names, n)
			}
			p.properties[n] = both(p.properties[n], members[n])
		}
	case "required":
		var names []string
		if json.Unmarshal(value, &names) != nil {
			return errors.New("its required is no list of names")
		}
		for _, n := range names {
			if !slices.Contains(p.required, n) {
				p.required = append(p.required, n)
			}
		}
	default:
		p.keywords[name] = narrower(name, p.keywords[name], value)
	}
	return nil
}

func list(name string, value json.RawMessage) ([]json.RawMessage, error) {
	var parts []json.RawMessage
	if json.Unmarshal(value, &parts) != nil || len(parts) == 0 {
		return nil, fmt.Errorf("its %s is no list of schemas", name)
	}
	return parts, nil
}

// both is a schema that asks for what two ask for.
func both(a, b json.RawMessage) json.RawMessage {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return slices.Concat([]byte(`{"allOf":[`), a, []byte{','}, b, []byte(`]}`))
}

// narrower is the stricter of two values of a keyword; of those that cannot be compared it is the first.
func narrower(name string, a, b json.RawMessage) json.RawMessage {
	if len(a) == 0 {
		return b
	}
	switch name {
	case "items", "contains", "additionalProperties":
		return both(a, b)
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		x, okX := rational(a)
		y, okY := rational(b)
		if okX && okY && (strings.HasPrefix(name, "max") || name == "exclusiveMaximum") == (x.Cmp(y) > 0) {
			return b
		}
	case "enum":
		var x, y []json.RawMessage
		if json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil {
			return encoded(slices.DeleteFunc(x, func(v json.RawMessage) bool { return !holds(y, v) }), a)
		}
	case "type":
		y := typesOf(b)
		x := slices.DeleteFunc(typesOf(a), func(t string) bool {
			return !slices.Contains(y, t) && (t != "integer" || !slices.Contains(y, "number"))
		})
		if slices.Contains(typesOf(a), "number") && slices.Contains(y, "integer") && !slices.Contains(x, "integer") {
			x = append(x, "integer")
		}
		return encoded(x, a)
	}
	return a
}

func encoded(v any, instead json.RawMessage) json.RawMessage {
	if raw, err := encode(v); err == nil {
		return raw
	}
	return instead
}

// typesOf reads the keyword type: a name or a list of names.
func typesOf(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var several []string
	_ = json.Unmarshal(raw, &several) // anything else is no type
	return several
}

// resolve finds what a reference within the schema points to: "#", or "#" and a JSON pointer.
func (m *maker) resolve(value json.RawMessage) (json.RawMessage, error) {
	var ref string
	if json.Unmarshal(value, &ref) != nil {
		return nil, errors.New("its $ref is no string")
	}
	if found, ok := m.refs[ref]; ok {
		return found, nil
	}
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("its $ref %q does not point into it", clipRunes(ref, 100))
	}
	at := m.root
	if pointer != "" {
		for step := range strings.SplitSeq(pointer[1:], "/") {
			if err := m.spend(len(at)); err != nil {
				return nil, err
			}
			if at = member(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); at == nil {
				return nil, fmt.Errorf("its $ref %q points to nothing", clipRunes(ref, 100))
			}
		}
	}
	m.refs[ref] = at
	return at, nil
}

// member is one of an object or a list, nil when it has none such.
func member(raw json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		return object[name]
	}
	var items []json.RawMessage
	i, err := strconv.Atoi(name)
	if err != nil || json.Unmarshal(raw, &items) != nil || i < 0 || i >= len(items) {
		return nil
	}
	return items[i]
}
