package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds a check, in visits of a value by a schema: half a second and some 250 MB when each of them finds a fault.
const maxWork = 400_000

// facts are what the tally knows of a schema.
type facts struct {
	cost    int      // of one visit, whatever the value
	types   []string // of values that it looks at any closer; none: of any
	inPlace []*jsonschema.Schema
	below   bool // it says something of members or entries
	exact   bool // it computes with a number
}

func factsOf(s *jsonschema.Schema) *facts {
	f := &facts{cost: costOf(s), inPlace: inPlace(s), below: len(below(s)) > 0}
	if s.Types != nil {
		f.types = s.Types.ToStrings()
	}
	bounded := s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
	f.exact = bounded || s.Enum != nil || s.Const != nil || slices.Contains(f.types, "integer")
	return f
}

// costOf is what one visit costs at least: the comparisons that do not depend on the value.
func costOf(s *jsonschema.Schema) int {
	size := len(s.Required)
	for _, names := range s.DependentRequired {
		size += len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			size += len(names)
		}
	}
	if s.Enum != nil {
		size += weigh(s.Enum.Values)
	}
	if s.Const != nil {
		size += weigh(*s.Const)
	}
	return 1 + size/8
}

// weigh counts the values in a value, long strings by their length.
func weigh(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			n += 1 + len(name)/64 + weigh(sub)
		}
	case []any:
		for _, sub := range v {
			n += weigh(sub)
		}
	case string:
		n += len(v) / 64
	}
	return n
}

// tally counts the work of a check before it is done: it goes wherever the validator could go, at a fraction of the cost, and gives up
// when that is too far. The validator cannot be stopped, and a schema of a few lines can keep it busy for years.
type tally struct {
	*compiled

	left int
}

// affordable reports whether the work of a check is within its bound.
func (c *compiled) affordable(value any) bool {
	t := &tally{compiled: c, left: maxWork}
	t.visit(c.root, value)
	return t.left >= 0
}

func (t *tally) visit(s *jsonschema.Schema, value any) {
	if s == nil || t.left < 0 {
		return
	}
	f := t.facts[s]
	if t.left -= f.cost; t.left < 0 || s.Bool != nil || !f.looksAt(value) {
		return
	}
	for _, sub := range f.inPlace {
		t.visit(sub, value)
	}
	switch v := value.(type) {
	case map[string]any:
		if t.container(len(v)); f.below {
			t.object(s, v)
		}
	case []any:
		if t.container(len(v)); f.below {
			t.array(s, v)
		}
		if s.UniqueItems && len(v) > 1 {
			t.unique(v)
		}
	case string:
		t.text(s, v)
	case json.Number:
		t.number(s, f, string(v))
	}
}

// looksAt reports whether a value is of a type that the schema allows: the validator does nothing more with others.
func (f *facts) looksAt(value any) bool {
	if len(f.types) == 0 {
		return true
	}
	is := typeOf(value)
	return slices.Contains(f.types, is) || is == "number" && slices.Contains(f.types, "integer")
}

func (t *tally) object(s *jsonschema.Schema, object map[string]any) {
	for name, value := range object {
		if t.left < 0 {
			return
		}
		known := false
		if sub := s.Properties[name]; sub != nil {
			known = true
			t.visit(sub, value)
		}
		for re, sub := range s.PatternProperties {
			t.match(re, name)
			if known = true; t.left >= 0 && re.MatchString(name) {
				t.visit(sub, value)
			}
		}
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && (!known || s.PatternProperties != nil) {
			t.visit(sub, value)
		}
		t.visit(s.UnevaluatedProperties, value)
		t.visit(s.PropertyNames, name)
	}
}

func (t *tally) array(s *jsonschema.Schema, array []any) {
	items, _ := s.Items.(*jsonschema.Schema)
	list, _ := s.Items.([]*jsonschema.Schema)
	more, _ := s.AdditionalItems.(*jsonschema.Schema)
	if len(s.PrefixItems) > 0 {
		list = s.PrefixItems
	}
	for i, value := range array {
		switch {
		case t.left < 0:
			return
		case i < len(list):
			t.visit(list[i], value)
		default:
			t.visit(items, value)
			t.visit(more, value)
			t.visit(s.Items2020, value)
		}
		t.visit(s.Contains, value)
		t.visit(s.UnevaluatedItems, value)
	}
}

// container is for going through members or entries, and for copying their names.
func (t *tally) container(length int) {
	t.left -= length / 2
	if t.uneval {
		t.left -= length
	}
}

// unique is for comparing all entries: short arrays by pairs, others by a hash, which arrays and objects can be made to share.
func (t *tally) unique(array []any) {
	nested := 0
	for _, v := range array {
		switch v.(type) {
		case map[string]any, []any:
			nested++
		}
	}
	switch size := weigh(array); {
	case len(array) <= 20:
		t.left -= size * len(array) / 4
	default:
		t.left -= size + nested*nested/8
	}
}

func (t *tally) text(s *jsonschema.Schema, text string) {
	if s.MinLength != nil || s.MaxLength != nil || s.Format != nil || s.Enum != nil || s.Const != nil {
		t.left -= len(text) / 64
	}
	if s.Pattern != nil {
		t.match(s.Pattern, text)
	}
}

// number is for exact arithmetic: of every digit, and of those that an exponent stands for.
func (t *tally) number(s *jsonschema.Schema, f *facts, text string) {
	if !f.exact {
		return
	}
	cost := 1 + len(text)/8
	if strings.ContainsAny(text, "eE") {
		cost += 8
	}
	if s.Enum != nil {
		cost += 4 * len(s.Enum.Values)
	}
	t.left -= cost
}

// match is for a pattern: linear in the text and in the pattern.
func (t *tally) match(re jsonschema.Regexp, text string) {
	instructions := maxInstructions
	if p, ok := re.(*pattern); ok {
		instructions = p.instructions
	}
	t.left -= 1 + len(text)*instructions/32
}
