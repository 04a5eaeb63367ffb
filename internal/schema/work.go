package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds a check, in visits of a value by a schema: half a second and some 250 MB when each of them finds a fault.
const maxWork = 400_000

// facts has what the tally needs to know about a schema.
type facts struct {
	cost    int      // of one visit of any value
	types   []string // of the values that it examines; none: of all
	inPlace []*jsonschema.Schema
	below   bool // it has schemas for members or entries
	exact   bool // it computes with a number
}

func factsOf(s *jsonschema.Schema) *facts {
	f := &facts{cost: costOf(s), inPlace: schemasInPlace(s), below: len(schemasBelow(s)) > 0}
	if s.Types != nil {
		f.types = s.Types.ToStrings()
	}
	bounded := s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
	f.exact = bounded || s.Enum != nil || s.Const != nil || slices.Contains(f.types, "integer")
	return f
}

// costOf returns the least cost of a visit: the comparisons that do not depend on the value.
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
		size += countValues(s.Enum.Values)
	}
	if s.Const != nil {
		size += countValues(*s.Const)
	}
	return 1 + size/8
}

// countValues returns the number of values in a value; long strings count by their length.
func countValues(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			n += 1 + len(name)/64 + countValues(sub)
		}
	case []any:
		for _, sub := range v {
			n += countValues(sub)
		}
	case string:
		n += len(v) / 64
	}
	return n
}

// workCounter counts the work of a check beforehand. It goes wherever the validator could go, at a fraction of the cost, and stops at the bound.
// The validator cannot be stopped, and a schema of a few lines can keep it busy for years.
type workCounter struct {
	*Schema

	left int
}

// isAffordable reports whether the work of a check is within its bound.
func (s *Schema) isAffordable(value any) bool {
	t := &workCounter{Schema: s, left: maxWork}
	t.visit(s.root, value)
	return t.left >= 0
}

func (t *workCounter) visit(s *jsonschema.Schema, value any) {
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
		if t.addContainer(len(v)); f.below {
			t.visitObject(s, v)
		}
	case []any:
		if t.addContainer(len(v)); f.below {
			t.visitArray(s, v)
		}
		if s.UniqueItems && len(v) > 1 {
			t.addUniqueCheck(v)
		}
	case string:
		t.addText(s, v)
	case json.Number:
		t.addNumber(s, f, string(v))
	}
}

// looksAt reports whether a value is of a type that the schema allows. The validator does not examine others.
func (f *facts) looksAt(value any) bool {
	if len(f.types) == 0 {
		return true
	}
	is := typeOf(value)
	return slices.Contains(f.types, is) || is == "number" && slices.Contains(f.types, "integer")
}

func (t *workCounter) visitObject(s *jsonschema.Schema, object map[string]any) {
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
			t.addMatch(re, name)
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

func (t *workCounter) visitArray(s *jsonschema.Schema, array []any) {
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

// addContainer counts a pass over members or entries, and copies of their names.
func (t *workCounter) addContainer(length int) {
	t.left -= length / 2
	if t.uneval {
		t.left -= length
	}
}

// addUniqueCheck counts the comparison of all entries: in pairs for short arrays, otherwise by a hash, which nested values can be made to share.
func (t *workCounter) addUniqueCheck(array []any) {
	nested := 0
	for _, v := range array {
		switch v.(type) {
		case map[string]any, []any:
			nested++
		}
	}
	switch size := countValues(array); {
	case len(array) <= 20:
		t.left -= size * len(array) / 4
	default:
		t.left -= size + nested*nested/8
	}
}

func (t *workCounter) addText(s *jsonschema.Schema, text string) {
	if s.MinLength != nil || s.MaxLength != nil || s.Format != nil || s.Enum != nil || s.Const != nil {
		t.left -= len(text) / 64
	}
	if s.Pattern != nil {
		t.addMatch(s.Pattern, text)
	}
}

// addNumber counts exact arithmetic with all digits, including those that an exponent adds.
func (t *workCounter) addNumber(s *jsonschema.Schema, f *facts, text string) {
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

// addMatch counts a match, which is linear in the text and in the pattern.
func (t *workCounter) addMatch(re jsonschema.Regexp, text string) {
	instructions := maxInstructions
	if p, ok := re.(*pattern); ok {
		instructions = p.instructions
	}
	t.left -= 1 + len(text)*instructions/32
}
