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
	maxExample    = 60 // bytes of an example
)

// inputRef is the parameter of a composite whose pipeline has no source of rows.
const inputRef = "input_ref"

// property is the JSON Schema of one argument of a composite.
type property struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Items       *property         `json:"items,omitempty"`
	Minimum     *int              `json:"minimum,omitempty"`
	MinItems    *int              `json:"minItems,omitempty"` //nolint:tagliatelle // JSON Schema's word
	Default     json.RawMessage   `json:"default,omitempty"`
	Examples    []json.RawMessage `json:"examples,omitempty"`
}

// parameters is the JSON Schema of all arguments of a composite.
type parameters struct {
	Type       string               `json:"type"`
	Additional bool                 `json:"additionalProperties"` //nolint:tagliatelle // JSON Schema's word
	Required   []string             `json:"required"`
	Properties map[string]*property `json:"properties"`
}

// buildComposite returns a composite for pipelines of one shape, the newest first. A literal that differs among them becomes a required
// parameter, and so does every reference of a dataset; other literals are fixed. ok is false if they cannot become a composite.
func buildComposite(samples []document) (c agent.Composite, ok bool) {
	values, ok := literalValues(samples)
	if !ok {
		return c, false
	}
	p := &parameters{Type: "object", Required: []string{}, Properties: map[string]*property{}}
	taken := map[string]bool{inputRef: true}
	if !samples[0].hasSource() {
		p.Properties[inputRef] = &property{Type: "string", Description: "Reference (cas:// or artifact://) of the rows"}
		p.Required = append(p.Required, inputRef)
	}
	var fixed []literal
	i := 0
	template, err := samples[0].mapLiterals(func(l *literal) json.RawMessage {
		used := values[i]
		i++
		if len(used) == 1 && l.kind != literalReference {
			fixed = append(fixed, *l)
			return l.value
		}
		name := uniqueName(l.name, taken)
		p.Properties[name] = newProperty(l, used)
		p.Required = append(p.Required, name)
		return placeholder(name)
	})
	if err != nil {
		return c, false
	}
	c = agent.Composite{Name: toolName(template), Enabled: true, EffectFree: true, Version: 1}
	return c, completeComposite(&c, template, p, fixed)
}

// extendComposite returns the next version of a composite for pipelines that differ from it. A fixed literal that differs becomes a parameter
// with the fixed value as default, so that the arguments of earlier callers still mean the same. Integers become numbers if needed. ok is
// false if nothing differs.
func extendComposite(old *agent.Composite, samples []document) (c agent.Composite, ok bool) {
	values, ok := literalValues(samples)
	template, err := decodeDocument(old.Pipeline)
	if !ok || err != nil {
		return c, false
	}
	var p parameters
	if json.Unmarshal(old.Parameters, &p) != nil || p.Properties == nil {
		return c, false
	}
	sampleLiterals, err := samples[0].literals()
	if literals, templateErr := template.literals(); err != nil || templateErr != nil || len(literals) != len(sampleLiterals) {
		return c, false
	}
	taken := map[string]bool{inputRef: true}
	for name := range p.Properties {
		taken[name] = true
	}
	var fixed []literal
	i, changed := 0, false
	template, err = template.mapLiterals(func(l *literal) json.RawMessage {
		used, kind := values[i], sampleLiterals[i].kind
		i++
		if l.kind == literalParameter {
			changed = p.widen(parameterName(l.value), used) || changed
			return l.value
		}
		if !slices.ContainsFunc(used, func(v json.RawMessage) bool { return !bytes.Equal(v, l.value) }) {
			fixed = append(fixed, *l)
			return l.value
		}
		changed = true
		name := uniqueName(l.name, taken)
		l.kind = kind
		p.Properties[name] = newProperty(l, addDistinct(used, l.value))
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

// completeComposite sets the pipeline, parameters and description of a composite. It returns false if there are too many parameters.
func completeComposite(c *agent.Composite, template document, p *parameters, fixed []literal) bool {
	if len(p.Properties) > maxParameters || c.Name == "" {
		return false
	}
	slices.Sort(p.Required)
	var pipelineErr, parametersErr error
	c.Pipeline, pipelineErr = template.encode()
	c.Parameters, parametersErr = tool.EncodeJSON(p)
	c.Description = toolDescription(template, fixed)
	return pipelineErr == nil && parametersErr == nil
}

// literalValues returns the distinct values of each literal, the newest first. It returns false if the pipelines do not have one shape.
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

// addDistinct returns the list with a value appended, unless it has the value already.
func addDistinct(values []json.RawMessage, v json.RawMessage) []json.RawMessage {
	if slices.ContainsFunc(values, func(old json.RawMessage) bool { return bytes.Equal(old, v) }) {
		return values
	}
	return append(slices.Clip(values), v)
}

func placeholder(name string) json.RawMessage {
	return json.RawMessage(`{"$parameter":"` + name + `"}`)
}

// newProperty returns the property of the parameter that replaces a literal. used are the values that pipelines had there.
func newProperty(l *literal, used []json.RawMessage) *property {
	p := &property{Description: l.description}
	one := 1
	switch l.kind {
	case literalBoolean:
		p.Type = "boolean"
	case literalNumber:
		p.Type = numberType(used)
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
	for _, v := range used {
		if len(p.Examples) < maxExamples && len(v) <= maxExample && l.kind != literalBoolean && l.kind != literalReference {
			p.Examples = append(p.Examples, v)
		}
	}
	return p
}

var integerPattern = regexp.MustCompile(`^-?[0-9]{1,18}$`)

// numberType returns the JSON Schema type that covers all values.
func numberType(values []json.RawMessage) string {
	if slices.ContainsFunc(values, func(v json.RawMessage) bool { return !integerPattern.Match(v) }) {
		return "number"
	}
	return "integer"
}

// widen turns an integer parameter into a number if some value is no integer. It reports whether it has. A parameter with a minimum is a
// count of rows, and stays an integer.
func (p *parameters) widen(name string, values []json.RawMessage) bool {
	old, ok := p.Properties[name]
	if !ok || old.Type != "integer" || old.Minimum != nil || numberType(values) == "integer" {
		return false
	}
	old.Type = "number"
	return true
}
