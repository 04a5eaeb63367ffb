package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maker makes a document that satisfies a schema out of what is known. The keywords not, if, dependentRequired, dependentSchemas,
// patternProperties, propertyNames and unevaluated… are passed over, and of oneOf the first alternative that can be made is taken, also where another fits too.
type maker struct {
	root  json.RawMessage
	known *facts
	refs  map[string]json.RawMessage
	left  int // of schemaBudget
}

// spot says where in the document a value stands.
type spot struct {
	name  string // of the nearest property above it
	depth int
	nth   int // in a list whose items must differ
}

func (s spot) below(name string) spot { return spot{name: name, depth: s.depth + 1, nth: s.nth} }

// document makes one. An error says what is wrong with the schema.
func document(schema json.RawMessage, known *facts) (json.RawMessage, error) {
	m := &maker{root: schema, known: known, refs: map[string]json.RawMessage{}, left: schemaBudget}
	if len(schema) > maxSchema {
		return nil, errBudget
	}
	return m.make(schema, spot{})
}

// spend takes n bytes, and something for the work itself, from the budget.
func (m *maker) spend(n int) error {
	const work = 400
	if m.left -= work + n; m.left < 0 {
		return errBudget
	}
	return nil
}

func (m *maker) make(schema json.RawMessage, at spot) (json.RawMessage, error) {
	p, err := m.read(schema, 0)
	if err != nil {
		return nil, err
	}
	return m.value(p, at)
}

// value makes the value of a place: with each alternative, each type in turn, until one can be made. Null comes last.
func (m *maker) value(p *place, at spot) (json.RawMessage, error) {
	if at.depth > maxSchemaDepth {
		return nil, errDeep
	}
	if len(p.choices) > 0 {
		return m.alternative(p, at)
	}
	if v, ok := p.keywords["const"]; ok {
		return v, m.spend(len(v))
	}
	types := typesOf(p.keywords["type"])
	if len(types) == 0 {
		if _, typed := p.keywords["type"]; typed {
			return nil, errNever
		}
		types = p.guess()
	}
	if raw, ok := p.keywords["enum"]; ok {
		return m.chosen(p, raw, types, at)
	}
	err := errNever
	for _, t := range nullLast(types) {
		var v json.RawMessage
		if v, err = m.typed(p, t, at); err == nil {
			return v, m.spend(len(v))
		}
	}
	return nil, err
}

func nullLast(types []string) []string {
	types = slices.Clone(types)
	slices.SortStableFunc(types, func(a, b string) int {
		switch {
		case a == b || a != "null" && b != "null":
			return 0
		case a == "null":
			return 1
		default:
			return -1
		}
	})
	return types
}

// alternative takes the first of anyOf or oneOf that can be made, those that are null last.
func (m *maker) alternative(p *place, at spot) (json.RawMessage, error) {
	err := errNever
	for _, wantNull := range []bool{false, true} {
		for _, choice := range p.choices[0] {
			q := p.clone()
			q.choices = q.choices[1:]
			if err = m.merge(q, choice, 0); err != nil {
				continue
			}
			if slices.Equal(typesOf(q.keywords["type"]), []string{"null"}) != wantNull {
				continue
			}
			var v json.RawMessage
			if v, err = m.value(q, spot{name: at.name, depth: at.depth + 1, nth: at.nth}); err == nil {
				return v, nil
			}
		}
	}
	if err == nil {
		err = errNever
	}
	return nil, err
}

func (p *place) clone() *place {
	return &place{
		keywords: maps.Clone(p.keywords), properties: maps.Clone(p.properties),
		names: slices.Clone(p.names), required: slices.Clone(p.required), choices: slices.Clone(p.choices),
	}
}

// guess is the type of a place that names none.
func (p *place) guess() []string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := p.keywords[n]; return ok })
	}
	switch {
	case len(p.names) > 0 || len(p.required) > 0 || has("additionalProperties", "minProperties", "maxProperties"):
		return []string{"object"}
	case has("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"):
		return []string{"array"}
	case has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return []string{"number"}
	default:
		return []string{"string"}
	}
}

func (m *maker) typed(p *place, typ string, at spot) (json.RawMessage, error) {
	switch typ {
	case "object":
		return m.object(p, at)
	case "array":
		return m.array(p, at)
	case "string":
		return m.text(p, at)
	case "integer", "number":
		return m.number(p, typ, at)
	case "boolean":
		b, ok := m.known.flag(at.name)
		if !ok {
			b = at.nth%2 == 1
		}
		return encode(b)
	case "null":
		return json.RawMessage("null"), nil
	default:
		return nil, fmt.Errorf("it has the unknown type %q", clipRunes(typ, 100))
	}
}

// chosen takes the value of an enum that the prompt mentions, else the first, or the nth where values must differ.
func (m *maker) chosen(p *place, enum json.RawMessage, types []string, at spot) (json.RawMessage, error) {
	var values []json.RawMessage
	if json.Unmarshal(enum, &values) != nil {
		return nil, fmt.Errorf("its enum is no list")
	}
	_, typed := p.keywords["type"]
	values = slices.DeleteFunc(values, func(v json.RawMessage) bool {
		return typed && !slices.ContainsFunc(types, func(t string) bool { return isType(v, t) }) || !p.fits(v)
	})
	if len(values) == 0 {
		return nil, errNever
	}
	if at.nth == 0 {
		for _, v := range values {
			var s string
			if json.Unmarshal(v, &s) == nil && m.known.mentions(s) {
				return v, nil
			}
		}
		if v := m.known.cell(at.name); v != nil && holds(values, v) {
			return v, nil
		}
	}
	return values[at.nth%len(values)], nil
}

// count reads a keyword that is a number of things.
func (p *place) count(keyword string, otherwise int) int {
	r, ok := rational(p.keywords[keyword])
	if !ok || !r.IsInt() || !r.Num().IsInt64() || r.Sign() < 0 {
		return otherwise
	}
	return int(min(r.Num().Int64(), maxSchema))
}

// holds reports whether a list has a value, whatever its spaces.
func holds(list []json.RawMessage, v json.RawMessage) bool {
	return slices.ContainsFunc(list, func(o json.RawMessage) bool { return packed(o) == packed(v) })
}

func packed(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return strings.TrimSpace(string(raw))
	}
	return b.String()
}
