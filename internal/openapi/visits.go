package openapi

import (
	"encoding/json"
	"math"
)

// sane reports whether arithmetic with a number is cheap.
func sane(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && !math.IsInf(f, 0) && len(n) < 400 && (f == 0 || math.Abs(f) > 1e-300)
}

// visits bounds the work of a validation by walking schema and value the way that it will: alternatives within alternatives multiply at
// each level, and no validator gives up.
type visits struct {
	defs  map[string]any
	left  int
	depth int
}

const (
	maxVisits  = 1_000_000 // of schema and value, in one validation
	maxDescent = 5_000     // levels: schemas that consist of themselves never end
)

func (w *visits) of(schema, value any) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	w.left--
	w.depth++
	defer func() { w.depth-- }()
	if w.left < 0 || w.depth > maxDescent {
		return false
	}
	if ref, ok := s["$ref"].(string); ok && !w.of(w.defs[lastToken(ref)], value) {
		return false
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[name].([]any)
		for _, one := range list {
			if !w.of(one, value) {
				return false
			}
		}
	}
	for _, name := range []string{"not", "if", "then", "else"} {
		if one, has := s[name]; has && !w.of(one, value) {
			return false
		}
	}
	switch value := value.(type) {
	case map[string]any:
		return w.object(s, value)
	case []any:
		return w.array(s, value)
	}
	return true
}

func (w *visits) object(s, value map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	for name, member := range value {
		if one, has := properties[name]; has {
			if !w.of(one, member) {
				return false
			}
		}
		for _, one := range patterns {
			if !w.of(one, member) {
				return false
			}
		}
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
			if !w.of(s[keyword], member) {
				return false
			}
		}
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for name, one := range dependent {
		if _, has := value[name]; has && !w.of(one, value) {
			return false
		}
	}
	return true
}

func (w *visits) array(s map[string]any, value []any) bool {
	prefix, _ := s["prefixItems"].([]any)
	for i, element := range value {
		if i < len(prefix) && !w.of(prefix[i], element) {
			return false
		}
		for _, keyword := range []string{"items", "contains", "unevaluatedItems"} {
			if !w.of(s[keyword], element) {
				return false
			}
		}
	}
	return true
}

// plain counts a value and looks for numbers that no arithmetic should meet, in enum and uniqueItems as well.
func (w *visits) plain(value any) bool {
	if w.left--; w.left < 0 {
		return false
	}
	switch value := value.(type) {
	case json.Number:
		return sane(value)
	case map[string]any:
		for _, member := range value {
			if !w.plain(member) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !w.plain(element) {
				return false
			}
		}
	}
	return true
}
