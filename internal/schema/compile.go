package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// address is what the library knows a schema by.
const address = "turnstone:///schema"

// maxInPlace bounds how many schemas may apply to one value by leading to each other: the validator calls itself for each.
const maxInPlace = 64

// compiled is a schema that can be used. It does not change.
type compiled struct {
	root   *jsonschema.Schema
	byURL  map[string]*jsonschema.Schema // by Location
	facts  map[*jsonschema.Schema]*facts
	uneval bool // some schema says unevaluated…: each visit copies the names of an object

	instructions int // of its patterns
}

var errRemote = errors.New("other documents are not read")

// noLoader keeps the library from reading files and the network.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

func newCompiler(source any, p *patterns) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.compile)
	_ = c.AddResource(address, source) // fails for an address that is taken or malformed
	return c
}

func compile(schema []byte) (*compiled, *problem) {
	source, f := read(schema, bounds{bytes: MaxSchema, values: maxSchemaValues})
	if f != nil {
		return nil, &problem{[]fault{*f}}
	}
	switch source.(type) {
	case map[string]any, bool:
	default:
		return nil, &problem{[]fault{{message: "want a JSON Schema, got " + nameOf(source)}}}
	}
	p := &patterns{left: maxOfSchema}
	root, err := newCompiler(source, p).Compile(address)
	if err != nil {
		return nil, &problem{compileFaults(err, source)}
	}
	c := &compiled{root: root, byURL: map[string]*jsonschema.Schema{}, facts: map[*jsonschema.Schema]*facts{}, instructions: maxOfSchema - p.left}
	if f := c.survey(); f != nil {
		return nil, &problem{[]fault{*f}}
	}
	return c, nil
}

// compileFaults says what the library has against a schema.
func compileFaults(err error, source any) []fault {
	if broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return explain(broken.Err, nil, source)
	}
	if bad, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return []fault{{tokens: tokensOf(bad.URL), message: bad.Err.Error()}}
	}
	message := "is no usable JSON Schema"
	switch e, remote := errors.AsType[*jsonschema.LoadURLError](err); {
	case remote:
		message = fmt.Sprintf("refers to %s: %s", clip.Runes(strings.TrimPrefix(e.URL, "turnstone:///"), maxEcho+1), errRemote)
	case is[*jsonschema.JSONPointerNotFoundError](err), is[*jsonschema.AnchorNotFoundError](err), is[*jsonschema.InvalidJsonPointerError](err):
		message = "has a $ref to what is not there: " + clip.Runes(strings.ReplaceAll(err.Error(), address, ""), 2*maxEcho+1)
	case is[*jsonschema.UnsupportedDraftError](err), is[*jsonschema.InvalidMetaSchemaURLError](err):
		return []fault{{name: "$schema", message: "want https://json-schema.org/draft/2020-12/schema, or leave it out"}}
	}
	return []fault{{message: message}}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// survey looks at every schema that can be reached, and refuses what cannot be bounded.
func (c *compiled) survey() *fault {
	pending := []*jsonschema.Schema{c.root}
	c.byURL[c.root.Location] = c.root
	for len(pending) > 0 {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return &fault{tokens: tokensOf(s.Location), message: "$dynamicRef and $recursiveRef are not supported: use $ref"}
		}
		f := factsOf(s)
		c.facts[s] = f
		c.uneval = c.uneval || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		for _, sub := range slices.Concat(f.inPlace, below(s)) {
			if c.byURL[sub.Location] == nil {
				c.byURL[sub.Location] = sub
				pending = append(pending, sub)
			}
		}
	}
	lengths := map[*jsonschema.Schema]int{}
	for _, s := range c.byURL {
		switch n := c.chain(s, lengths); {
		case n == endless:
			return &fault{message: "refers to itself without end"}
		case n > maxInPlace:
			return &fault{message: fmt.Sprintf("applies more than %d schemas to one value, each through the other", maxInPlace)}
		}
	}
	return nil
}

// endless is the length of a chain that comes back to where it began.
const endless = -1

// chain is how many schemas apply to one value, one through the other, from s on.
func (c *compiled) chain(s *jsonschema.Schema, lengths map[*jsonschema.Schema]int) int {
	if n, known := lengths[s]; known {
		return n
	}
	lengths[s] = endless // while it is being measured
	longest := 0
	for _, sub := range c.facts[s].inPlace {
		n := c.chain(sub, lengths)
		if n == endless {
			return endless
		}
		longest = max(longest, n)
	}
	lengths[s] = longest + 1
	return longest + 1
}

// inPlace are the schemas that apply to the same value as s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			all = append(all, sub)
		}
	}
	all = append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, sub := range s.DependentSchemas {
		all = append(all, sub)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			all = append(all, sub)
		}
	}
	return all
}

// below are the schemas that apply to the members of an object, their names, or the entries of an array.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := append([]*jsonschema.Schema(nil), s.PrefixItems...)
	for _, sub := range []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems} {
		if sub != nil {
			all = append(all, sub)
		}
	}
	for _, sub := range s.Properties {
		all = append(all, sub)
	}
	for _, sub := range s.PatternProperties {
		all = append(all, sub)
	}
	for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch sub := either.(type) {
		case *jsonschema.Schema:
			all = append(all, sub)
		case []*jsonschema.Schema:
			all = append(all, sub...)
		}
	}
	return all
}
