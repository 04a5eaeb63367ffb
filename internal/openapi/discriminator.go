package openapi

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// applyDiscriminator replaces oneOf or anyOf by the alternative that the discriminator's property selects, so that errors are about that
// alternative. It changes nothing if an alternative is not a reference, because then the discriminator is not reliable.
func (s *schemaSet) applyDiscriminator(ctx context.Context, n node, _ propertyUses, out map[string]any, _ int) error {
	d, _ := n.object()["discriminator"].(map[string]any)
	property, _ := d["propertyName"].(string)
	if property == "" {
		return nil
	}
	keyword := "oneOf"
	if _, exists := out[keyword]; !exists {
		keyword = "anyOf"
	}
	list := n.elements(keyword)
	translated, _ := out[keyword].([]any)
	if len(list) == 0 || len(list) != len(translated) {
		return nil
	}
	chosen := s.chooseAlternatives(ctx, list, d)
	if chosen == nil {
		return nil
	}
	pick := func(indexes []int) map[string]any {
		all := make([]any, len(indexes))
		for i, index := range indexes {
			all[i] = translated[index]
		}
		return anyOf(all)
	}
	all, _ := out["allOf"].([]any)
	all = slices.Clone(all)
	values := make([]any, 0, len(chosen.byValue))
	for _, value := range sortedKeys(chosen.byValue) {
		values = append(values, value)
		all = append(all, map[string]any{
			"if":   objectWith(property, map[string]any{"const": value}),
			"then": pick(chosen.byValue[value]),
		})
	}
	known := objectWith(property, map[string]any{"enum": values})
	if len(chosen.unnamed) > 0 {
		known = map[string]any{"if": known, "else": pick(chosen.unnamed)}
	}
	delete(out, keyword)
	out["allOf"] = append(all, known)
	return nil
}

// objectWith returns a schema of objects that have a property.
func objectWith(property string, schema map[string]any) map[string]any {
	return map[string]any{"type": "object", "required": []any{property}, "properties": map[string]any{property: schema}}
}

// anyOf returns a schema of values that satisfy one of several schemas. oneOf would be wrong, because alternatives with the same value of the
// discriminator may overlap.
func anyOf(all []any) map[string]any {
	if len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok {
			return only
		}
	}
	return map[string]any{"anyOf": all}
}

// alternatives are the indexes of the alternatives that the values of a discriminator's property select.
type alternatives struct {
	byValue map[string][]int
	unnamed []int // alternatives that allow a missing property or null
}

// chooseAlternatives returns the alternatives by value. The values of an alternative are those of the mapping and those of its const or enum of the
// property, or else the last part of its reference. It returns nil if the property does not distinguish the alternatives.
func (s *schemaSet) chooseAlternatives(ctx context.Context, list []node, d map[string]any) *alternatives {
	property, _ := d["propertyName"].(string)
	mapping, _ := d["mapping"].(map[string]any)
	chosen := &alternatives{byValue: map[string][]int{}}
	mapped := s.mappedValues(ctx, list[0].file, mapping)
	for i, alternative := range list {
		ref, isRef := alternative.object()["$ref"].(string)
		if !isRef {
			return nil
		}
		target, err := s.refs.target(ctx, alternative.file, ref)
		if err != nil {
			return nil // the translation has reported it
		}
		tag := s.tagOf(ctx, target, property, maxTagDepth)
		values := mapped[target.id()]
		if len(values) == 0 && len(tag.values) == 0 {
			tag.values = []string{lastToken(ref)}
		}
		for _, value := range tag.values {
			if _, isMapped := mapping[value]; !isMapped {
				values = append(values, value)
			}
		}
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			chosen.byValue[value] = append(chosen.byValue[value], i)
		}
		if len(tag.values) > 0 && (tag.allowsNull || !tag.isRequired) {
			chosen.unnamed = append(chosen.unnamed, i)
		}
	}
	return chosen
}

// mappedValues returns the values of a mapping by the ID of their schema. It ignores broken references.
func (s *schemaSet) mappedValues(ctx context.Context, file string, mapping map[string]any) map[string][]string {
	all := map[string][]string{}
	for _, value := range sortedKeys(mapping) {
		text, _ := mapping[value].(string)
		if target, err := s.refs.target(ctx, file, mappingRef(text)); err == nil {
			all[target.id()] = append(all[target.id()], value)
		}
	}
	return all
}

// maxTagDepth bounds the depth of the search for the const or enum of a discriminator's property.
const maxTagDepth = 12

// tag describes a discriminator's property in an alternative.
type tag struct {
	values     []string // of its const or enum; nil if it has none
	allowsNull bool
	isRequired bool
}

// tagOf searches a schema for the property, including references, the parts of allOf, and alternatives.
func (s *schemaSet) tagOf(ctx context.Context, n node, property string, depth int) tag {
	s.inspected++
	if depth == 0 || s.inspected > maxInspected {
		return tag{}
	}
	found := tag{isRequired: slices.Contains(uniqueStrings(n.object()["required"]), any(property))}
	if ref, isRef := n.object()["$ref"].(string); isRef {
		if target, err := s.refs.target(ctx, n.file, ref); err == nil {
			found.join(s.tagOf(ctx, target, property, depth-1))
		}
		if s.refs.doc.is30 {
			return found
		}
	}
	properties, _ := n.child("properties")
	if schema, exists := properties.child(property); exists {
		values, allowsNull := s.constants(ctx, schema, depth-1)
		found.join(tag{values: values, allowsNull: allowsNull})
	}
	for _, part := range n.elements("allOf") {
		found.join(s.tagOf(ctx, part, property, depth-1))
	}
	if len(found.values) == 0 {
		found.join(s.tagOfAlternatives(ctx, n, property, depth))
	}
	return found
}

// join adds the tag of another part of the same object. Of two lists of values it keeps the shorter one, which is stricter.
func (t *tag) join(part tag) {
	t.isRequired = t.isRequired || part.isRequired
	if len(part.values) > 0 && (len(t.values) == 0 || len(part.values) < len(t.values)) {
		t.values, t.allowsNull = part.values, part.allowsNull
	}
}

// tagOfAlternatives returns the tag with the values of all alternatives, without values if an alternative has none.
func (s *schemaSet) tagOfAlternatives(ctx context.Context, n node, property string, depth int) tag {
	all := tag{isRequired: true}
	for _, alternative := range slices.Concat(n.elements("oneOf"), n.elements("anyOf")) {
		t := s.tagOf(ctx, alternative, property, depth-1)
		if len(t.values) == 0 {
			return tag{}
		}
		all.values = append(all.values, t.values...)
		all.allowsNull, all.isRequired = all.allowsNull || t.allowsNull, all.isRequired && t.isRequired
	}
	if len(all.values) == 0 {
		return tag{}
	}
	return all
}

// constants returns the strings that a schema allows by const or enum, and whether it also allows null.
func (s *schemaSet) constants(ctx context.Context, n node, depth int) (values []string, allowsNull bool) {
	s.inspected++
	if depth <= 0 || s.inspected > maxInspected {
		return nil, false
	}
	if target, err := s.refs.resolve(ctx, n); err == nil {
		n = target
	}
	object := n.object()
	listed, _ := object["enum"].([]any)
	if value, exists := object["const"]; exists {
		listed = []any{value}
	}
	for _, value := range listed {
		if text, ok := value.(string); ok {
			values = append(values, text)
		}
	}
	allowsNull = object["nullable"] == true || slices.Contains(listed, nil) || slices.Contains(typeList(object["type"]), "null")
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, element := range n.elements(keyword) {
			elementValues, elementAllowsNull := s.constants(ctx, element, depth-1)
			values, allowsNull = append(values, elementValues...), allowsNull || elementAllowsNull
		}
	}
	return values, allowsNull
}

// mappingRef returns the reference in a mapping, which may be just the name of a schema.
func mappingRef(text string) string {
	if strings.ContainsAny(text, "#/") || strings.HasSuffix(text, ".json") || strings.HasSuffix(text, ".yaml") {
		return text
	}
	return "#/components/schemas/" + text
}

func lastToken(pointer string) string { return jsontext.Pointer(pointer).LastToken() }
