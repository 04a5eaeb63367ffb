package openapi

import (
	"encoding/json"
	"math"
)

// isBoundedNumber reports whether arithmetic with a number is cheap.
func isBoundedNumber(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && !math.IsInf(f, 0) && len(n) < 400 && (f == 0 || math.Abs(f) > 1e-300)
}

const (
	maxVisits     = 1_000_000 // visits of values by schemas in one validation
	maxVisitDepth = 5_000     // nested visits; a schema may refer to itself without end
)

// workLimit walks a schema and a value like the validator would, and stops when that is too much work. The validator itself cannot be stopped, and
// its work grows exponentially with nested alternatives.
type workLimit struct {
	defs      map[string]any
	remaining int
	depth     int
}

// allows reports whether the validation of a value against a schema is within the limit.
func (w *workLimit) allows(schema, value any) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	w.remaining--
	w.depth++
	defer func() { w.depth-- }()
	if w.remaining < 0 || w.depth > maxVisitDepth {
		return false
	}
	if ref, ok := s["$ref"].(string); ok && !w.allows(w.defs[lastToken(ref)], value) {
		return false
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[name].([]any)
		for _, sub := range list {
			if !w.allows(sub, value) {
				return false
			}
		}
	}
	for _, name := range []string{"not", "if", "then", "else"} {
		if !w.allows(s[name], value) {
			return false
		}
	}
	switch value := value.(type) {
	case map[string]any:
		return w.allowsObject(s, value)
	case []any:
		return w.allowsArray(s, value)
	}
	return true
}

func (w *workLimit) allowsObject(s, value map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	for name, member := range value {
		for _, sub := range []any{properties[name], s["additionalProperties"], s["unevaluatedProperties"]} {
			if !w.allows(sub, member) {
				return false
			}
		}
		for _, sub := range patterns {
			if !w.allows(sub, member) {
				return false
			}
		}
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for name, sub := range dependent {
		if _, exists := value[name]; exists && !w.allows(sub, value) {
			return false
		}
	}
	return true
}

func (w *workLimit) allowsArray(s map[string]any, value []any) bool {
	prefix, _ := s["prefixItems"].([]any)
	for i, element := range value {
		if i < len(prefix) && !w.allows(prefix[i], element) {
			return false
		}
		for _, keyword := range []string{"items", "contains", "unevaluatedItems"} {
			if !w.allows(s[keyword], element) {
				return false
			}
		}
	}
	return true
}

// allowsValue counts the values in a value and reports whether all numbers are cheap to compare for enum and uniqueItems.
func (w *workLimit) allowsValue(value any) bool {
	w.remaining--
	if w.remaining < 0 {
		return false
	}
	switch value := value.(type) {
	case json.Number:
		return isBoundedNumber(value)
	case map[string]any:
		for _, member := range value {
			if !w.allowsValue(member) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !w.allowsValue(element) {
				return false
			}
		}
	}
	return true
}
