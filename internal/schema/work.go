package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds the work of a check. 1 is about one visit of a value by a schema. The maximum takes half a second, and about 250 MB if every visit
// finds a fault.
const maxWork = 400_000

// facts are the properties of a schema that [workCounter] needs.
type facts struct {
	cost            int                  // minimum cost of a visit
	types           []string             // of the values that the schema examines; empty: all
	sameValue       []*jsonschema.Schema // for the same value
	hasChildren     bool                 // there are schemas for members or entries
	computesExactly bool                 // numbers are compared exactly
}

func factsOf(s *jsonschema.Schema) *facts {
	f := &facts{cost: costOf(s), sameValue: sameValueSchemas(s), hasChildren: len(childSchemas(s)) > 0}
	if s.Types != nil {
		f.types = s.Types.ToStrings()
	}
	hasBounds := s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
	f.computesExactly = hasBounds || s.Enum != nil || s.Const != nil || slices.Contains(f.types, "integer")
	return f
}

// costOf returns the cost of the comparisons in a visit that do not depend on the value.
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

// countValues returns the number of values in a value, including itself. Long strings count more.
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

// workCounter estimates the work of a check in advance. It makes the same visits as the validator at a fraction of the cost, and stops at the bound. The
// validator itself cannot be stopped, and a schema of a few lines can keep it busy for years.
type workCounter struct {
	*Schema

	remaining int
}

// isAffordable reports whether the work of a check is within its bound.
func (s *Schema) isAffordable(value any) bool {
	t := &workCounter{Schema: s, remaining: maxWork}
	t.visit(s.root, value)
	return t.remaining >= 0
}

func (t *workCounter) visit(s *jsonschema.Schema, value any) {
	if s == nil || t.remaining < 0 {
		return
	}
	f := t.facts[s]
	t.remaining -= f.cost
	if t.remaining < 0 || s.Bool != nil || !f.examines(value) {
		return
	}
	for _, sub := range f.sameValue {
		t.visit(sub, value)
	}
	switch v := value.(type) {
	case map[string]any:
		t.addContainer(len(v))
		if f.hasChildren {
			t.visitObject(s, v)
		}
	case []any:
		t.addContainer(len(v))
		if f.hasChildren {
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

// examines reports whether a value has a type that the schema allows. The validator does not examine other values.
func (f *facts) examines(value any) bool {
	if len(f.types) == 0 {
		return true
	}
	valueType := typeOf(value)
	return slices.Contains(f.types, valueType) || (valueType == "number" && slices.Contains(f.types, "integer"))
}

func (t *workCounter) visitObject(s *jsonschema.Schema, object map[string]any) {
	for name, value := range object {
		if t.remaining < 0 {
			return
		}
		property := s.Properties[name]
		t.visit(property, value)
		for re, sub := range s.PatternProperties {
			t.addMatch(re, name)
			if t.remaining >= 0 && re.MatchString(name) {
				t.visit(sub, value)
			}
		}
		// With patterns, the estimate assumes that none of them matches.
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && (property == nil || s.PatternProperties != nil) {
			t.visit(sub, value)
		}
		t.visit(s.UnevaluatedProperties, value)
		t.visit(s.PropertyNames, name)
	}
}

func (t *workCounter) visitArray(s *jsonschema.Schema, array []any) {
	items, _ := s.Items.(*jsonschema.Schema)
	prefix, _ := s.Items.([]*jsonschema.Schema)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	if len(s.PrefixItems) > 0 {
		prefix = s.PrefixItems
	}
	for i, value := range array {
		switch {
		case t.remaining < 0:
			return
		case i < len(prefix):
			t.visit(prefix[i], value)
		default:
			t.visit(items, value)
			t.visit(additional, value)
			t.visit(s.Items2020, value)
		}
		t.visit(s.Contains, value)
		t.visit(s.UnevaluatedItems, value)
	}
}

// addContainer counts an iteration over members or entries, and copies of their names.
func (t *workCounter) addContainer(length int) {
	t.remaining -= length / 2
	if t.hasUnevaluated {
		t.remaining -= length
	}
}

// addUniqueCheck counts the comparison of all entries. The validator compares pairs in short arrays and hashes in long ones; nested values may have equal
// hashes.
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
		t.remaining -= size * len(array) / 4
	default:
		t.remaining -= size + nested*nested/8
	}
}

func (t *workCounter) addText(s *jsonschema.Schema, text string) {
	if s.MinLength != nil || s.MaxLength != nil || s.Format != nil || s.Enum != nil || s.Const != nil {
		t.remaining -= len(text) / 64
	}
	if s.Pattern != nil {
		t.addMatch(s.Pattern, text)
	}
}

// addNumber counts exact arithmetic with all digits, including those of an exponent.
func (t *workCounter) addNumber(s *jsonschema.Schema, f *facts, text string) {
	if !f.computesExactly {
		return
	}
	cost := 1 + len(text)/8
	if strings.ContainsAny(text, "eE") {
		cost += 8
	}
	if s.Enum != nil {
		cost += 4 * len(s.Enum.Values)
	}
	t.remaining -= cost
}

// addMatch counts a match, whose time is proportional to the lengths of the text and the pattern.
func (t *workCounter) addMatch(re jsonschema.Regexp, text string) {
	instructions := maxInstructions
	if p, ok := re.(*pattern); ok {
		instructions = p.instructions
	}
	t.remaining -= 1 + len(text)*instructions/32
}
