package openapi

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// maxSchemas bounds the values of the schemas that one operation reaches.
const maxSchemas = 200_000

// maxLooked bounds how many schemas are looked at ahead of their translation. Behind it, readOnly and discriminators are read of each schema alone.
const maxLooked = 1_000_000

// schemas are those that one side of an operation reaches, translated to JSON Schema 2020-12, each under a name in $defs. They are the
// same for both sides but for what only the other side may have: readOnly properties of requests, writeOnly ones of responses.
type schemas struct {
	r       *resolver
	request bool
	defs    map[string]any
	names   map[string]string // by place and access
	queue   []queued
	values  int
	looked  int      // schemas that accessOf has looked at
	faults  []string // of responses: what could not be resolved is not checked
}

// queued is a schema that has a name and waits for its translation.
type queued struct {
	place  place
	access access
	name   string
}

func newSchemas(r *resolver, request bool) *schemas {
	return &schemas{r: r, request: request, defs: map[string]any{}, names: map[string]string{}}
}

// add translates a schema and all that it reaches, and returns its name.
func (s *schemas) add(ctx context.Context, p place) (string, error) {
	name := s.name(p, nil)
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		translated, err := s.translate(ctx, next.place, next.access, maxDepth)
		if err != nil {
			return "", err
		}
		s.defs[next.name] = translated
	}
	return name, nil
}

// name gives a schema its name, and sees to its translation. A part of an allOf is translated once for each access that it is a part with.
func (s *schemas) name(p place, a access) string {
	if len(a) == 0 {
		a = nil
	}
	key := p.where() + a.key()
	if name, known := s.names[key]; known {
		return name
	}
	name := "s" + strconv.Itoa(len(s.names))
	s.names[key] = name
	s.queue = append(s.queue, queued{place: p, access: a, name: name})
	return name
}

// reference translates a reference. What follows it is the target's own reference, so that a chain of any length is walked once.
func (s *schemas) reference(ctx context.Context, p place, a access, ref string) (any, error) {
	target, err := s.r.target(ctx, p.file, ref)
	if err != nil {
		if s.request || ctx.Err() != nil {
			return nil, err
		}
		s.fault(err.Error())
		return true, nil
	}
	return map[string]any{"$ref": "#/$defs/" + s.name(target, a)}, nil
}

// translate keeps the keywords that are known and well-formed: a fault in a schema must not keep the rest from being checked. a is what was
// collected of the object that the schema is a part of, nil for a schema that is a part of none.
func (s *schemas) translate(ctx context.Context, p place, a access, levels int) (any, error) {
	if s.values++; s.values > maxSchemas || levels < 0 {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the operation's schemas have more than %d parts, or are nested too deep", maxSchemas)
	}
	if flag, ok := p.node.(bool); ok {
		return flag, nil
	}
	in := p.object()
	if in == nil {
		return true, nil
	}
	out := map[string]any{}
	ref, isRef := in["$ref"].(string)
	if isRef && s.r.doc.is30 { // siblings of a reference have no meaning, but for the one that many documents give one
		target, err := s.reference(ctx, p, a, ref)
		if err == nil && in["nullable"] == true {
			target = orNull(target)
		}
		return target, err
	}
	if a == nil {
		a = s.accessOf(ctx, p, nil)
	}
	if isRef {
		target, err := s.reference(ctx, p, a, ref)
		if err != nil {
			return nil, err
		}
		out["allOf"] = []any{target}
	}
	copyAssertions(in, out)
	a.dropRequired(out)
	for _, step := range []func(context.Context, place, access, map[string]any, int) error{s.single, s.lists, s.maps, s.discriminate} {
		if err := step(ctx, p, a, out, levels-1); err != nil {
			return nil, err
		}
	}
	if in["nullable"] == true {
		return orNull(out), nil
	}
	return out, nil
}

// orNull allows null as well. Where the type alone stands in its way that reads best in errors.
func orNull(schema any) any {
	if m, ok := schema.(map[string]any); ok {
		simple := true
		for _, name := range []string{"$ref", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if"} {
			_, has := m[name]
			simple = simple && !has
		}
		if simple {
			if t, ok := m["type"].(string); ok {
				m["type"] = []any{t, "null"}
			} else if list, ok := m["type"].([]any); ok && !slices.Contains(list, any("null")) {
				m["type"] = append(slices.Clone(list), "null")
			}
			return m
		}
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "null"}, schema}}
}

// copyAssertions copies the keywords that hold no schemas.
func copyAssertions(in, out map[string]any) {
	if t := typesOf(in["type"]); t != nil {
		out["type"] = t
	}
	if list, ok := in["enum"].([]any); ok && len(list) > 0 {
		out["enum"] = list
	}
	if v, ok := in["const"]; ok {
		out["const"] = v
	}
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"} {
		if n, ok := in[name].(json.Number); ok {
			if i, err := strconv.ParseUint(n.String(), 10, 31); err == nil {
				out[name] = json.Number(strconv.FormatUint(i, 10))
			}
		}
	}
	for _, name := range []string{"pattern", "format"} {
		if text, ok := in[name].(string); ok {
			out[name] = text
		}
	}
	if in["uniqueItems"] == true {
		out["uniqueItems"] = true
	}
	copyBounds(in, out)
	if names := stringsOf(in["required"]); len(names) > 0 {
		out["required"] = names
	}
	if m, ok := in["dependentRequired"].(map[string]any); ok {
		dependent := map[string]any{}
		for name, list := range m {
			dependent[name] = stringsOf(list)
		}
		out["dependentRequired"] = dependent
	}
}

// copyBounds copies bounds of numbers; an exclusive one is a flag in 3.0 and a number in 3.1, and documents mix them up.
func copyBounds(in, out map[string]any) {
	for name, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		bound, ok := in[name].(json.Number)
		switch {
		case ok && !sane(bound):
		case ok && in[exclusive] == true:
			out[exclusive] = bound
		case ok:
			out[name] = bound
		}
		if n, isNumber := in[exclusive].(json.Number); isNumber && sane(n) {
			out[exclusive] = n
		}
	}
	if n, ok := in["multipleOf"].(json.Number); ok && sane(n) {
		if f, err := n.Float64(); err == nil && f > 0 {
			out["multipleOf"] = n
		}
	}
}

func typesOf(v any) any {
	known := []string{"string", "number", "integer", "boolean", "array", "object", "null"}
	switch v := v.(type) {
	case string:
		if slices.Contains(known, v) {
			return v
		}
	case []any:
		var list []any
		for _, t := range v {
			if name, ok := t.(string); ok && slices.Contains(known, name) && !slices.Contains(list, t) {
				list = append(list, name)
			}
		}
		if len(list) == len(v) && len(list) > 0 {
			return list
		}
	}
	return nil
}

func stringsOf(v any) []any {
	list, _ := v.([]any)
	out := []any{}
	for _, one := range list {
		if _, ok := one.(string); ok && !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

func (s *schemas) single(ctx context.Context, p place, a access, out map[string]any, levels int) error {
	for _, name := range []string{
		"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
	} {
		child, ok := p.child(name)
		if _, isObject := child.node.(map[string]any); !ok || !isObject && child.node != true && child.node != false {
			continue
		}
		var of access
		if slices.Contains([]string{"not", "if", "then", "else"}, name) { // these say something of the same object
			of = s.accessOf(ctx, child, a)
		}
		translated, err := s.translate(ctx, child, of, levels)
		if err != nil {
			return err
		}
		out[name] = translated
	}
	return nil
}

func (s *schemas) lists(ctx context.Context, p place, a access, out map[string]any, levels int) error {
	for _, name := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		child, _ := p.child(name)
		list, _ := child.node.([]any)
		for i, node := range list {
			of := a
			switch name {
			case "anyOf", "oneOf":
				of = s.accessOf(ctx, child.element(i, node), a)
			case "prefixItems":
				of = nil
			}
			translated, err := s.translate(ctx, child.element(i, node), of, levels)
			if err != nil {
				return err
			}
			before, _ := out[name].([]any)
			out[name] = append(before, translated)
		}
	}
	return nil
}

func (s *schemas) maps(ctx context.Context, p place, a access, out map[string]any, levels int) error {
	for _, name := range []string{"properties", "patternProperties", "dependentSchemas"} {
		child, _ := p.child(name)
		members := child.object()
		if members == nil {
			continue
		}
		translated := make(map[string]any, len(members))
		for _, member := range sorted(members) {
			if s.request && name == "properties" && a.refused(member) {
				translated[member] = false
				continue
			}
			of, _ := child.child(member)
			t, err := s.translate(ctx, of, nil, levels)
			if err != nil {
				return err
			}
			translated[member] = t
		}
		out[name] = translated
	}
	return nil
}

// foreign reports whether a property is of the other side alone.
func (s *schemas) foreign(ctx context.Context, p place) bool {
	flag := "writeOnly"
	if s.request {
		flag = "readOnly"
	}
	if p.object()[flag] == true {
		return true
	}
	if _, isRef := p.object()["$ref"]; !isRef {
		return false
	}
	target, err := s.r.follow(ctx, p)
	return err == nil && target.object()[flag] == true
}

// fault remembers what cannot be checked.
func (s *schemas) fault(text string) {
	if len(s.faults) < maxProblems {
		s.faults = append(s.faults, text)
	}
}
