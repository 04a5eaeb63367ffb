package openapi

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// applyDiscriminator replaces oneOf or anyOf by the alternative that the discriminator's property chooses, so that errors are about the
// alternative that was meant. If some alternatives are no references, the discriminator is not reliable and all alternatives are tried.
func (s *schemaSet) applyDiscriminator(ctx context.Context, n node, _ propertyUses, out map[string]any, _ int) error {
	d, _ := n.object()["discriminator"].(map[string]any)
	property, _ := d["propertyName"].(string)
	if property == "" {
		return nil
	}
	keyword := "oneOf"
	if _, has := out[keyword]; !has {
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

// anyOf returns a schema that allows what one of several allows. oneOf would be wrong: alternatives with the same value of the
// discriminator may overlap.
func anyOf(all []any) map[string]any {
	if len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok {
			return only
		}
	}
	return map[string]any{"anyOf": all}
}

// alternatives says which alternatives a discriminator's property chooses, by their index.
type alternatives struct {
	byValue map[string][]int
	unnamed []int // those that a value without the property, or with null, may fit
}

// chooseAlternatives finds the values of each alternative: by the mapping, by the const or enum that it gives the property, and else by the
// last part of its reference. It returns nil if the property cannot tell the alternatives apart.
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
			return nil // reported when the alternatives were translated
		}
		tag := s.tagOf(ctx, target, property, maxTagDepth)
		values := mapped[target.id()]
		if len(values) == 0 && len(tag.values) == 0 {
			tag.values = []string{lastToken(ref)}
		}
		for _, value := range tag.values {
			if _, taken := mapping[value]; !taken {
				values = append(values, value)
			}
		}
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			chosen.byValue[value] = append(chosen.byValue[value], i)
		}
		if len(tag.values) > 0 && (tag.null || !tag.required) {
			chosen.unnamed = append(chosen.unnamed, i)
		}
	}
	return chosen
}

// mappedValues returns the values of a mapping by the schema that each leads to. A value that leads nowhere chooses nothing.
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

// maxTagDepth is how deep the const or enum of a discriminator's property is looked for.
const maxTagDepth = 12

// tag is what an alternative says of a discriminator's property.
type tag struct {
	values   []string // of its const or enum; nil: it has none
	null     bool     // it may be null
	required bool
}

// tagOf looks for the property in a schema, what it refers to, the parts of its allOf and all of its alternatives.
func (s *schemaSet) tagOf(ctx context.Context, n node, property string, depth int) tag {
	if s.inspected++; depth == 0 || s.inspected > maxInspected {
		return tag{}
	}
	found := tag{required: slices.Contains(uniqueStrings(n.object()["required"]), any(property))}
	if ref, isRef := n.object()["$ref"].(string); isRef {
		if target, err := s.refs.target(ctx, n.file, ref); err == nil {
			found.join(s.tagOf(ctx, target, property, depth-1))
		}
		if s.refs.doc.is30 {
			return found
		}
	}
	properties, _ := n.child("properties")
	if schema, has := properties.child(property); has {
		values, null := s.constants(ctx, schema, depth-1)
		found.join(tag{values: values, null: null})
	}
	for _, part := range n.elements("allOf") {
		found.join(s.tagOf(ctx, part, property, depth-1))
	}
	if len(found.values) == 0 {
		found.join(s.tagOfAlternatives(ctx, n, property, depth))
	}
	return found
}

// join adds what another part of the same object says. Of two lists of values the shorter one is what both allow.
func (t *tag) join(part tag) {
	t.required = t.required || part.required
	if len(part.values) > 0 && (len(t.values) == 0 || len(part.values) < len(t.values)) {
		t.values, t.null = part.values, part.null
	}
}

// tagOfAlternatives returns the values of all alternatives; none if one of them has none.
func (s *schemaSet) tagOfAlternatives(ctx context.Context, n node, property string, depth int) tag {
	all := tag{required: true}
	for _, alternative := range slices.Concat(n.elements("oneOf"), n.elements("anyOf")) {
		one := s.tagOf(ctx, alternative, property, depth-1)
		if len(one.values) == 0 {
			return tag{}
		}
		all.values = append(all.values, one.values...)
		all.null, all.required = all.null || one.null, all.required && one.required
	}
	if len(all.values) == 0 {
		return tag{}
	}
	return all
}

// constants returns the texts that a schema allows by const or enum, and whether it allows null too.
func (s *schemaSet) constants(ctx context.Context, n node, depth int) (values []string, null bool) {
	if s.inspected++; depth <= 0 || s.inspected > maxInspected {
		return nil, false
	}
	if target, err := s.refs.resolve(ctx, n); err == nil {
		n = target
	}
	object := n.object()
	listed, _ := object["enum"].([]any)
	if value, has := object["const"]; has {
		listed = []any{value}
	}
	for _, value := range listed {
		if text, ok := value.(string); ok {
			values = append(values, text)
		}
	}
	null = object["nullable"] == true || slices.Contains(listed, nil) || slices.Contains(typeList(object["type"]), "null")
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, element := range n.elements(keyword) {
			more, orNull := s.constants(ctx, element, depth-1)
			values, null = append(values, more...), null || orNull
		}
	}
	return values, null
}

// mappingRef returns the reference that a value of a mapping stands for: it may be only the name of a schema.
func mappingRef(text string) string {
	if strings.ContainsAny(text, "#/") || strings.HasSuffix(text, ".json") || strings.HasSuffix(text, ".yaml") {
		return text
	}
	return "#/components/schemas/" + text
}

func lastToken(pointer string) string { return jsontext.Pointer(pointer).LastToken() }
