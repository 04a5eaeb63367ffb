package openapi

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// maxSchemas is the maximum number of values in the schemas of an operation.
const maxSchemas = 200_000

// maxInspected is the maximum number of schemas that are inspected before translation. Beyond it, only the schema itself is inspected for readOnly
// and discriminators.
const maxInspected = 1_000_000

// schemaSet has the schemas of requests or responses of an operation, translated to JSON Schema 2020-12, each under a name in $defs. Requests must
// not have readOnly properties, responses no writeOnly ones.
type schemaSet struct {
	refs      *resolver
	isRequest bool
	defs      map[string]any
	names     map[string]string // by node and uses
	queue     []pendingSchema
	values    int
	inspected int
}

// pendingSchema is a named schema that is not translated yet.
type pendingSchema struct {
	node node
	uses propertyUses
	name string
}

func newSchemaSet(refs *resolver, isRequest bool) *schemaSet {
	return &schemaSet{refs: refs, isRequest: isRequest, defs: map[string]any{}, names: map[string]string{}}
}

// add translates a schema and all schemas that it refers to, and returns its name.
func (s *schemaSet) add(ctx context.Context, n node) (string, error) {
	name := s.nameOf(n, nil)
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		translated, err := s.translate(ctx, next.node, next.uses, maxDepth)
		if err != nil {
			return "", err
		}
		s.defs[next.name] = translated
	}
	return name, nil
}

// nameOf returns the name of a schema, and queues a new schema for translation. A part of an allOf has a translation for each set of uses.
func (s *schemaSet) nameOf(n node, uses propertyUses) string {
	if len(uses) == 0 {
		uses = nil
	}
	key := n.id() + uses.key()
	if name, exists := s.names[key]; exists {
		return name
	}
	name := "s" + strconv.Itoa(len(s.names))
	s.names[key] = name
	s.queue = append(s.queue, pendingSchema{node: n, uses: uses, name: name})
	return name
}

// reference translates a reference. If the target is a reference too, that is translated separately, so each reference of a chain is followed once. A
// broken reference in a response allows any value.
func (s *schemaSet) reference(ctx context.Context, n node, uses propertyUses, ref string) (any, error) {
	target, err := s.refs.target(ctx, n.file, ref)
	switch {
	case err == nil:
		return map[string]any{"$ref": "#/$defs/" + s.nameOf(target, uses)}, nil
	case s.isRequest || ctx.Err() != nil:
		return nil, err
	default:
		return true, nil
	}
}

// translate translates a schema. It drops unknown and malformed keywords, so that the others can still be checked. uses are those of the object that
// the schema is a part of, nil if it is not a part.
func (s *schemaSet) translate(ctx context.Context, n node, uses propertyUses, levels int) (any, error) {
	s.values++
	if s.values > maxSchemas || levels < 0 {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the operation's schemas have more than %d parts, or are nested too deep", maxSchemas)
	}
	if flag, ok := n.value.(bool); ok {
		return flag, nil
	}
	in := n.object()
	if in == nil {
		return true, nil
	}
	ref, isRef := in["$ref"].(string)
	if isRef && s.refs.doc.is30 { // in 3.0 siblings of a reference have no meaning, but many documents use nullable
		target, err := s.reference(ctx, n, uses, ref)
		if err == nil && in["nullable"] == true {
			target = allowNull(target)
		}
		return target, err
	}
	if uses == nil {
		uses = s.collectUses(ctx, n, nil)
	}
	out := map[string]any{}
	if isRef {
		target, err := s.reference(ctx, n, uses, ref)
		if err != nil {
			return nil, err
		}
		out["allOf"] = []any{target}
	}
	copyAssertions(in, out)
	uses.dropRequired(out)
	for _, step := range []func(context.Context, node, propertyUses, map[string]any, int) error{
		s.translateSingle, s.translateLists, s.translateMaps, s.applyDiscriminator,
	} {
		if err := step(ctx, n, uses, out, levels-1); err != nil {
			return nil, err
		}
	}
	if in["nullable"] == true {
		return allowNull(out), nil
	}
	return out, nil
}

// allowNull returns a schema that also allows null. If only the type forbids null, it adds null to the type, which leads to better errors.
func allowNull(schema any) any {
	if m, ok := schema.(map[string]any); ok {
		onlyType := true
		for _, name := range []string{"$ref", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if"} {
			_, exists := m[name]
			onlyType = onlyType && !exists
		}
		if onlyType {
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

// copyAssertions copies the keywords that have no subschemas.
func copyAssertions(in, out map[string]any) {
	if t := validTypes(in["type"]); t != nil {
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
	if names := uniqueStrings(in["required"]); len(names) > 0 {
		out["required"] = names
	}
	if m, ok := in["dependentRequired"].(map[string]any); ok {
		dependent := map[string]any{}
		for name, list := range m {
			dependent[name] = uniqueStrings(list)
		}
		out["dependentRequired"] = dependent
	}
}

// copyBounds copies bounds of numbers. An exclusive bound is a boolean in 3.0 and a number in 3.1; documents confuse them.
func copyBounds(in, out map[string]any) {
	for name, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		bound, ok := in[name].(json.Number)
		switch {
		case ok && !isBoundedNumber(bound):
		case ok && in[exclusive] == true:
			out[exclusive] = bound
		case ok:
			out[name] = bound
		}
		if n, isNumber := in[exclusive].(json.Number); isNumber && isBoundedNumber(n) {
			out[exclusive] = n
		}
	}
	if n, ok := in["multipleOf"].(json.Number); ok && isBoundedNumber(n) {
		if f, err := n.Float64(); err == nil && f > 0 {
			out["multipleOf"] = n
		}
	}
}

// validTypes returns a type or a list of types if all are types of JSON Schema, otherwise nil.
func validTypes(v any) any {
	all := []string{"string", "number", "integer", "boolean", "array", "object", "null"}
	switch v := v.(type) {
	case string:
		if slices.Contains(all, v) {
			return v
		}
	case []any:
		list := uniqueStrings(v)
		isUnknown := func(t any) bool { name, _ := t.(string); return !slices.Contains(all, name) }
		if len(list) == len(v) && len(list) > 0 && !slices.ContainsFunc(list, isUnknown) {
			return list
		}
	}
	return nil
}

// uniqueStrings returns the distinct strings in a list.
func uniqueStrings(v any) []any {
	list, _ := v.([]any)
	out := []any{}
	for _, element := range list {
		if _, ok := element.(string); ok && !slices.Contains(out, element) {
			out = append(out, element)
		}
	}
	return out
}

// translateSingle translates the keywords that have one subschema.
func (s *schemaSet) translateSingle(ctx context.Context, n node, uses propertyUses, out map[string]any, levels int) error {
	for _, name := range []string{
		"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
	} {
		child, ok := n.child(name)
		if _, isObject := child.value.(map[string]any); !ok || (!isObject && child.value != true && child.value != false) {
			continue
		}
		var childUses propertyUses
		if slices.Contains([]string{"not", "if", "then", "else"}, name) { // these are about the same object
			childUses = s.collectUses(ctx, child, uses)
		}
		translated, err := s.translate(ctx, child, childUses, levels)
		if err != nil {
			return err
		}
		out[name] = translated
	}
	return nil
}

// translateLists translates the keywords that have a list of subschemas.
func (s *schemaSet) translateLists(ctx context.Context, n node, uses propertyUses, out map[string]any, levels int) error {
	for _, name := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		for _, element := range n.elements(name) {
			elementUses := uses
			switch name {
			case "anyOf", "oneOf":
				elementUses = s.collectUses(ctx, element, uses)
			case "prefixItems":
				elementUses = nil
			}
			translated, err := s.translate(ctx, element, elementUses, levels)
			if err != nil {
				return err
			}
			list, _ := out[name].([]any)
			out[name] = append(list, translated)
		}
	}
	return nil
}

// translateMaps translates the keywords that have subschemas by name. A property that a request must not have becomes false.
func (s *schemaSet) translateMaps(ctx context.Context, n node, uses propertyUses, out map[string]any, levels int) error {
	for _, name := range []string{"properties", "patternProperties", "dependentSchemas"} {
		child, _ := n.child(name)
		members := child.object()
		if members == nil {
			continue
		}
		translated := make(map[string]any, len(members))
		for _, member := range sortedKeys(members) {
			if s.isRequest && name == "properties" && uses.isForbidden(member) {
				translated[member] = false
				continue
			}
			schema, _ := child.child(member)
			t, err := s.translate(ctx, schema, nil, levels)
			if err != nil {
				return err
			}
			translated[member] = t
		}
		out[name] = translated
	}
	return nil
}

// isOfOtherSide reports whether a property is readOnly (in a request) or writeOnly (in a response).
func (s *schemaSet) isOfOtherSide(ctx context.Context, n node) bool {
	flag := "writeOnly"
	if s.isRequest {
		flag = "readOnly"
	}
	if n.object()[flag] == true {
		return true
	}
	if _, isRef := n.object()["$ref"]; !isRef {
		return false
	}
	target, err := s.refs.resolve(ctx, n)
	return err == nil && target.object()[flag] == true
}
