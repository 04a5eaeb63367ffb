package openapi

import "slices"

// maxShape bounds how many references and alternatives are looked through for the shape of a schema.
const maxShape = 500

// typesAt are the types that a schema of the request names, through references; nil when it names none.
func (s *schemas) typesAt(name string) []string {
	var types []string
	s.look(name, func(schema map[string]any) {
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

// look shows each schema that says something of the same value, as far as it is not beneath "not" or a condition.
func (s *schemas) look(name string, see func(schema map[string]any)) {
	if name != "" {
		s.lookAt(s.defs[name], see)
	}
}

func (s *schemas) lookAt(schema any, see func(schema map[string]any)) {
	queue, seen := []any{schema}, 0
	for len(queue) > 0 && seen < maxShape {
		schema, _ := queue[0].(map[string]any)
		queue = queue[1:]
		seen++
		if schema == nil {
			continue
		}
		see(schema)
		if ref, ok := schema["$ref"].(string); ok {
			queue = append(queue, s.defs[lastToken(ref)])
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := schema[keyword].([]any)
			queue = append(queue, list...)
		}
		for _, keyword := range []string{"then", "else"} { // the choice of a discriminator
			if branch, ok := schema[keyword]; ok {
				queue = append(queue, branch)
			}
		}
	}
}

// membersOf are the properties that a schema of an object names, nil when it is none. open: it takes others as well.
func (s *schemas) membersOf(name string) (members map[string]member, open bool) {
	var object, other, closed bool
	members = map[string]member{}
	s.look(name, func(schema map[string]any) {
		types := typeList(schema["type"])
		object = object || slices.Contains(types, "object")
		other = other || len(types) > 0 && !slices.Contains(types, "object")
		closed = closed || schema["additionalProperties"] == false || schema["unevaluatedProperties"] == false
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			object = true
			if p == false { // read-only
				if _, known := members[name]; !known {
					members[name] = member{}
				}
				continue
			}
			members[name] = s.memberOf(p)
		}
	})
	if !object && other {
		return nil, false
	}
	return members, !closed
}

func (s *schemas) memberOf(schema any) member {
	var m member
	s.lookAt(schema, func(schema map[string]any) {
		m.types = append(m.types, typeList(schema["type"])...)
		m.binary = m.binary || isBinary(schema)
		if items, ok := schema["items"]; ok {
			s.lookAt(items, func(item map[string]any) {
				if isBinary(item) {
					m.binary, m.items = true, true
				}
			})
		}
	})
	return m
}

// isBinary reports whether a schema is that of a file: format binary in 3.0, a media type of content in 3.1.
func isBinary(schema map[string]any) bool {
	return schema["format"] == "binary" || schema["contentMediaType"] != nil && schema["contentEncoding"] == nil
}
