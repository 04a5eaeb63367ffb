package openapi

import (
	"context"
	"slices"
	"strings"
)

// discriminate replaces alternatives that a discriminator tells apart by a choice: what the property says is checked, and nothing else. An
// error is then about the alternative that was meant. A discriminator whose alternatives are not all references says nothing that can be
// relied on; they are tried as without it.
func (s *schemas) discriminate(ctx context.Context, p place, out map[string]any, _ int) error {
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
	if len(list) == 0 {
		return nil
	}
	choices := s.choices(ctx, p, list, d)
	if choices == nil {
		return nil
	}
	all, _ := out["allOf"].([]any)
	all = slices.Clone(all)
	values := make([]any, 0, len(choices))
	for _, value := range sorted(choices) {
		values = append(values, value)
		all = append(all, map[string]any{
			"if":   map[string]any{"properties": map[string]any{property: map[string]any{"const": value}}, "required": []any{property}},
			"then": map[string]any{"$ref": "#/$defs/" + choices[value]},
		})
	}
	delete(out, keyword)
	out["allOf"] = append(all, map[string]any{
		"type": "object", "required": []any{property}, "properties": map[string]any{property: map[string]any{"enum": values}},
	})
	return nil
}

// choices are the names of the alternatives' schemas by what the property may say: the values of the mapping, and for an alternative that
// it does not have the last part of the reference. nil: they cannot be told apart by it.
func (s *schemas) choices(ctx context.Context, p place, list []any, d map[string]any) map[string]string {
	choices := map[string]string{}
	byPlace := map[string]string{} // the implicit value of each alternative
	for _, node := range list {
		alternative, _ := node.(map[string]any)
		ref, isRef := alternative["$ref"].(string)
		if !isRef {
			return nil
		}
		target, err := s.r.target(ctx, p.file, ref)
		if err != nil {
			return nil // what the alternatives lack has been said when they were translated
		}
		byPlace[target.where()] = unescapeToken(lastToken(ref))
		choices[byPlace[target.where()]] = s.name(target)
	}
	mapping, _ := d["mapping"].(map[string]any)
	for _, value := range sorted(mapping) {
		text, _ := mapping[value].(string)
		target, err := s.r.target(ctx, p.file, mappingRef(text))
		if err != nil {
			continue // a value that leads nowhere chooses nothing
		}
		implicit, of := byPlace[target.where()]
		if !of {
			continue
		}
		if _, taken := mapping[implicit]; !taken {
			delete(choices, implicit)
		}
		choices[value] = s.name(target)
	}
	return choices
}

// mappingRef is the reference that a value of a mapping stands for: it may be the name of a schema alone.
func mappingRef(text string) string {
	if strings.ContainsAny(text, "#/") || strings.HasSuffix(text, ".json") || strings.HasSuffix(text, ".yaml") {
		return text
	}
	return "#/components/schemas/" + text
}

func lastToken(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }
