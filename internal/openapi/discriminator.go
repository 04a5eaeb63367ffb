package openapi

import (
	"context"
	"slices"
	"strings"
)

// discriminate replaces alternatives that a discriminator tells apart by a choice: what the property says is checked, and nothing else. An
// error is then about the alternative that was meant. A discriminator whose alternatives are not all references says nothing that can be
// relied on; they are tried as without it.
func (s *schemas) discriminate(ctx context.Context, p place, _ access, out map[string]any, _ int) error {
	d, _ := p.object()["discriminator"].(map[string]any)
	property, _ := d["propertyName"].(string)
	if property == "" {
		return nil
	}
	keyword := "oneOf"
	if _, has := out[keyword]; !has {
		keyword = "anyOf"
	}
	child, _ := p.child(keyword)
	list, _ := child.node.([]any)
	translated, _ := out[keyword].([]any)
	if len(list) == 0 || len(list) != len(translated) {
		return nil
	}
	chosen := s.choices(ctx, child, list, d)
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
	for _, value := range sorted(chosen.byValue) {
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

// objectWith is a schema of objects that have a property.
func objectWith(property string, schema map[string]any) map[string]any {
	return map[string]any{"type": "object", "required": []any{property}, "properties": map[string]any{property: schema}}
}

// anyOf is a schema that one of several fits. Those that share a value of a discriminator may overlap, so oneOf would refuse what is right.
func anyOf(all []any) map[string]any {
	if len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok {
			return only
		}
	}
	return map[string]any{"anyOf": all}
}

// choices say which alternatives a discriminator's property chooses, by their index.
type choices struct {
	byValue map[string][]int
	unnamed []int // those that a value without the property, or with null, may fit
}

// choices are found by the mapping, then by the const or enum that an alternative gives the property, and else by the last part of its
// reference. nil: the alternatives cannot be told apart by the property.
func (s *schemas) choices(ctx context.Context, listed place, list []any, d map[string]any) *choices {
	property, _ := d["propertyName"].(string)
	mapping, _ := d["mapping"].(map[string]any)
	chosen := &choices{byValue: map[string][]int{}}
	mapped := s.mapped(ctx, listed.file, mapping)
	for i, node := range list {
		alternative, _ := node.(map[string]any)
		ref, isRef := alternative["$ref"].(string)
		if !isRef {
			return nil
		}
		target, err := s.r.target(ctx, listed.file, ref)
		if err != nil {
			return nil // what the alternatives lack has been said when they were translated
		}
		tag := s.tagOf(ctx, target, property, maxTagDepth)
		values := mapped[target.where()]
		if len(values) == 0 && len(tag.values) == 0 {
			tag.values = []string{unescapeToken(lastToken(ref))}
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

// mapped lists the values of a mapping by the schema that each leads to. A value that leads nowhere chooses nothing.
func (s *schemas) mapped(ctx context.Context, file string, mapping map[string]any) map[string][]string {
	all := map[string][]string{}
	for _, value := range sorted(mapping) {
		text, _ := mapping[value].(string)
		if target, err := s.r.target(ctx, file, mappingRef(text)); err == nil {
			all[target.where()] = append(all[target.where()], value)
		}
	}
	return all
}

// maxTagDepth bounds how deep the const or enum of a discriminator's property is looked for.
const maxTagDepth = 12

// tag is what an alternative says of a discriminator's property.
type tag struct {
	values   []string // of its const or enum; nil: it has none
	null     bool     // it may be null
	required bool
}

// tagOf looks for the property in a schema, what it refers to, the parts of its allOf and all of its alternatives.
func (s *schemas) tagOf(ctx context.Context, p place, property string, depth int) tag {
	if s.looked++; depth == 0 || s.looked > maxLooked {
		return tag{}
	}
	found := tag{required: slices.Contains(stringsOf(p.object()["required"]), any(property))}
	if ref, isRef := p.object()["$ref"].(string); isRef {
		if target, err := s.r.target(ctx, p.file, ref); err == nil {
			found.join(s.tagOf(ctx, target, property, depth-1))
		}
		if s.r.doc.is30 {
			return found
		}
	}
	properties, _ := p.child("properties")
	if of, has := properties.child(property); has {
		values, null := s.constants(ctx, of, depth-1)
		found.join(tag{values: values, null: null})
	}
	parts, _ := p.child("allOf")
	list, _ := parts.node.([]any)
	for i, node := range list {
		found.join(s.tagOf(ctx, parts.element(i, node), property, depth-1))
	}
	if len(found.values) == 0 {
		found.join(s.tagOfAlternatives(ctx, p, property, depth))
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

// tagOfAlternatives has the values of all alternatives; none when one of them has none.
func (s *schemas) tagOfAlternatives(ctx context.Context, p place, property string, depth int) tag {
	all := tag{required: true}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		child, _ := p.child(keyword)
		list, _ := child.node.([]any)
		for i, node := range list {
			one := s.tagOf(ctx, child.element(i, node), property, depth-1)
			if len(one.values) == 0 {
				return tag{}
			}
			all.values = append(all.values, one.values...)
			all.null, all.required = all.null || one.null, all.required && one.required
		}
	}
	if len(all.values) == 0 {
		return tag{}
	}
	return all
}

// constants are the texts that a schema allows by const or enum, and whether it allows null too.
func (s *schemas) constants(ctx context.Context, p place, depth int) (values []string, null bool) {
	if s.looked++; depth <= 0 || s.looked > maxLooked {
		return nil, false
	}
	if target, err := s.r.follow(ctx, p); err == nil {
		p = target
	}
	object := p.object()
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
		child, _ := p.child(keyword)
		list, _ := child.node.([]any)
		for i, node := range list {
			more, orNull := s.constants(ctx, child.element(i, node), depth-1)
			values, null = append(values, more...), null || orNull
		}
	}
	return values, null
}

// mappingRef is the reference that a value of a mapping stands for: it may be the name of a schema alone.
func mappingRef(text string) string {
	if strings.ContainsAny(text, "#/") || strings.HasSuffix(text, ".json") || strings.HasSuffix(text, ".yaml") {
		return text
	}
	return "#/components/schemas/" + text
}

func lastToken(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }
