package pipeline

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of a composite.
const (
	maxParameters = 32
	maxExamples   = 5
	maxExample    = 60 // bytes of one
)

// inputRef is the parameter of a composite that has no rows of its own.
const inputRef = "input_ref"

// property describes one argument of a composite: a JSON Schema.
type property struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Items       *property         `json:"items,omitempty"`
	Minimum     *int              `json:"minimum,omitempty"`
	MinItems    *int              `json:"minItems,omitempty"` //nolint:tagliatelle // JSON Schema's word
	Default     json.RawMessage   `json:"default,omitempty"`
	Examples    []json.RawMessage `json:"examples,omitempty"`
}

// parameters describes all arguments: a JSON Schema of an object.
type parameters struct {
	Type       string               `json:"type"`
	Additional bool                 `json:"additionalProperties"` //nolint:tagliatelle // JSON Schema's word
	Required   []string             `json:"required"`
	Properties map[string]*property `json:"properties"`
}

// promotedComposite makes a composite of the pipelines of one shape, the newest first. What differs among them, and every reference of a
// dataset, becomes a parameter that must be given; what never differed stays. ok is false when nothing useful can be made of them.
func promotedComposite(samples []document) (c agent.Composite, ok bool) {
	values, ok := literalValues(samples)
	if !ok {
		return c, false
	}
	p := &parameters{Type: "object", Required: []string{}, Properties: map[string]*property{}}
	taken := map[string]bool{inputRef: true}
	if !samples[0].hasOwnRows() {
		p.Properties[inputRef] = &property{Type: "string", Description: "Reference (cas:// or artifact://) of the rows"}
		p.Required = append(p.Required, inputRef)
	}
	var fixed []literal
	at := 0
	template, err := samples[0].each(func(l *literal) json.RawMessage {
		seen := values[at]
		at++
		if len(seen) == 1 && l.kind != literalReference {
			fixed = append(fixed, *l)
			return l.value
		}
		name := uniqueName(l.name, taken)
		p.Properties[name] = propertyOf(l, seen)
		p.Required = append(p.Required, name)
		return placeholder(name)
	})
	if err != nil {
		return c, false
	}
	c = agent.Composite{Name: toolName(template), Enabled: true, EffectFree: true, Version: 1}
	return c, completeComposite(&c, template, p, fixed)
}

// grownComposite makes the next version of a composite where pipelines of its shape differ from it: what was fixed becomes a parameter
// with what was fixed as default, so that earlier callers stay right, and whole numbers become numbers. ok is false when there is nothing
// to grow.
func grownComposite(old *agent.Composite, samples []document) (c agent.Composite, ok bool) {
	values, ok := literalValues(samples)
	template, err := decodeDocument(old.Pipeline)
	if !ok || err != nil {
		return c, false
	}
	var p parameters
	if json.Unmarshal(old.Parameters, &p) != nil || p.Properties == nil {
		return c, false
	}
	kinds, err := samples[0].literals()
	if places, fault := template.literals(); err != nil || fault != nil || len(places) != len(kinds) {
		return c, false
	}
	taken := map[string]bool{inputRef: true}
	for name := range p.Properties {
		taken[name] = true
	}
	var fixed []literal
	at, changed := 0, false
	template, err = template.each(func(l *literal) json.RawMessage {
		seen, kind := values[at], kinds[at].kind
		at++
		if l.kind == literalParameter {
			changed = p.widen(parameterOf(l.value), seen) || changed
			return l.value
		}
		if !slices.ContainsFunc(seen, func(v json.RawMessage) bool { return !bytes.Equal(v, l.value) }) {
			fixed = append(fixed, *l)
			return l.value
		}
		changed = true
		name := uniqueName(l.name, taken)
		l.kind = kind
		p.Properties[name] = propertyOf(l, addDistinct(seen, l.value))
		p.Properties[name].Default = l.value
		return placeholder(name)
	})
	if err != nil || !changed {
		return c, false
	}
	c = *old
	c.Version++
	return c, completeComposite(&c, template, &p, fixed)
}

// completeComposite writes pipeline and parameters into a composite; false when there are too many.
func completeComposite(c *agent.Composite, template document, p *parameters, fixed []literal) bool {
	if len(p.Properties) > maxParameters || c.Name == "" {
		return false
	}
	slices.Sort(p.Required)
	var err, fault error
	c.Pipeline, err = template.encode()
	c.Parameters, fault = tool.EncodeJSON(p)
	c.Description = toolDescription(template, fixed)
	return err == nil && fault == nil
}

// literalValues lists for each literal the different values that it has, the newest first; false when the pipelines are not of one shape.
func literalValues(samples []document) ([][]json.RawMessage, bool) {
	var values [][]json.RawMessage
	for i, d := range samples {
		literals, err := d.literals()
		if err != nil || i > 0 && len(literals) != len(values) {
			return nil, false
		}
		if i == 0 {
			values = make([][]json.RawMessage, len(literals))
		}
		for j := range literals {
			values[j] = addDistinct(values[j], literals[j].value)
		}
	}
	return values, len(samples) > 0
}

// addDistinct appends a value to a list that lacks it.
func addDistinct(values []json.RawMessage, v json.RawMessage) []json.RawMessage {
	if slices.ContainsFunc(values, func(old json.RawMessage) bool { return bytes.Equal(old, v) }) {
		return values
	}
	return append(slices.Clip(values), v)
}

func placeholder(name string) json.RawMessage {
	return json.RawMessage(`{"$parameter":"` + name + `"}`)
}

// propertyOf describes the parameter in a literal's place.
func propertyOf(l *literal, seen []json.RawMessage) *property {
	p := &property{Description: l.about}
	one := 1
	switch l.kind {
	case literalBoolean:
		p.Type = "boolean"
	case literalNumber:
		p.Type = numberType(seen)
	case literalInteger:
		p.Type, p.Minimum = "integer", &one
	case literalStrings:
		p.Type, p.Items, p.MinItems = "array", &property{Type: "string"}, &one
	case literalNumbers:
		p.Type, p.Items, p.MinItems = "array", &property{Type: "number"}, &one
	case literalBooleans:
		p.Type, p.Items, p.MinItems = "array", &property{Type: "boolean"}, &one
	default:
		p.Type = "string"
	}
	for _, v := range seen {
		if len(p.Examples) < maxExamples && len(v) <= maxExample && l.kind != literalBoolean && l.kind != literalReference {
			p.Examples = append(p.Examples, v)
		}
	}
	return p
}

var whole = regexp.MustCompile(`^-?[0-9]{1,18}$`)

// numberType is integer where all that was seen is whole.
func numberType(seen []json.RawMessage) string {
	if slices.ContainsFunc(seen, func(v json.RawMessage) bool { return !whole.Match(v) }) {
		return "number"
	}
	return "integer"
}

// widen makes a number of a parameter that took whole ones, when others came. A parameter that has a least value is one that counts.
func (p *parameters) widen(name string, seen []json.RawMessage) bool {
	old, ok := p.Properties[name]
	if !ok || old.Type != "integer" || old.Minimum != nil || numberType(seen) == "integer" {
		return false
	}
	old.Type = "number"
	return true
}
