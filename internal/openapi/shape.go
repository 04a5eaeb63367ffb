package openapi

import "slices"

// maxVisited is the maximum number of schemas that are visited to determine the types or members of a schema.
const maxVisited = 500

// typesAt returns the types that a schema of the set allows, nil if it does not name any.
func (s *schemaSet) typesAt(name string) []string {
	var types []string
	s.visitSchemas(s.defs[name], func(schema map[string]any) {
		for _, t := range typeList(schema["type"]) {
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	})
	return types
}

func typeList(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, one := range v {
			if t, ok := one.(string); ok {
				all = append(all, t)
			}
		}
		return all
	default:
		return nil
	}
}

// visitSchemas calls visit for schema and each subschema that describes the same value, except for "not" and "if".
func (s *schemaSet) visitSchemas(schema any, visit func(schema map[string]any)) {
	queue, visited := []any{schema}, 0
	for len(queue) > 0 && visited < maxVisited {
		schema, _ := queue[0].(map[string]any)
		queue = queue[1:]
		if schema == nil {
			continue
		}
		visited++
		visit(schema)
		if ref, ok := schema["$ref"].(string); ok {
			queue = append(queue, s.defs[lastToken(ref)])
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := schema[keyword].([]any)
			queue = append(queue, list...)
		}
		queue = append(queue, schema["then"], schema["else"]) // from applyDiscriminator
	}
}

// membersOf returns the named properties of a schema, nil if it does not allow objects. The value is true for a file or a list of files. isOpen
// reports whether other properties are allowed.
func (s *schemaSet) membersOf(name string) (members map[string]bool, isOpen bool) {
	var isObject, isOther, isClosed bool
	members = map[string]bool{}
	s.visitSchemas(s.defs[name], func(schema map[string]any) {
		types := typeList(schema["type"])
		isObject = isObject || slices.Contains(types, "object")
		isOther = isOther || (len(types) > 0 && !slices.Contains(types, "object"))
		isClosed = isClosed || schema["additionalProperties"] == false || schema["unevaluatedProperties"] == false
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			isObject = true
			if _, exists := members[name]; !exists || p != false { // false: forbidden in requests
				members[name] = s.isBinary(p)
			}
		}
	})
	if !isObject && isOther {
		return nil, false
	}
	return members, !isClosed
}

// isBinary reports whether a schema describes a file or a list of files.
func (s *schemaSet) isBinary(schema any) bool {
	found := false
	s.visitSchemas(schema, func(schema map[string]any) {
		found = found || schema["format"] == "binary"
		s.visitSchemas(schema["items"], func(item map[string]any) { found = found || item["format"] == "binary" })
	})
	return found
}
