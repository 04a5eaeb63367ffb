package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// address is the URL of the schema for the jsonschema library.
const address = "turnstone:///schema"

// maxInPlace bounds the length of a chain of schemas that apply to the same value, because the validator recurses for each.
const maxInPlace = 64

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	compiler *jsonschema.Compiler
	root     *jsonschema.Schema
	byURL    map[string]*jsonschema.Schema // by Location
	facts    map[*jsonschema.Schema]*facts

	hasUnevaluated bool // a schema has unevaluatedItems or unevaluatedProperties, so each visit copies the names of an object
	instructions   int  // of all patterns
}

var errRemote = errors.New("other documents are not read")

// noLoader is a loader that refuses to read other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// Compile compiles a schema in decoded JSON, or returns its faults.
func Compile(source any, w *Wording) (*Schema, []Fault) {
	p := &patterns{remaining: maxOfSchema}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.compile)
	_ = c.AddResource(address, source) // fails only for a duplicate or malformed address
	root, err := c.Compile(address)
	if err != nil {
		return nil, compileFaults(err, source, w)
	}
	s := &Schema{
		compiler: c, root: root, byURL: map[string]*jsonschema.Schema{}, facts: map[*jsonschema.Schema]*facts{}, instructions: maxOfSchema - p.remaining,
	}
	if f := s.survey(); f != nil {
		return nil, []Fault{*f}
	}
	return s, nil
}

// compileText compiles the JSON text of a schema.
func compileText(text []byte) (*Schema, []Fault) {
	source, f := read(text, bounds{bytes: MaxSchema, values: maxSchemaValues})
	if f != nil {
		return nil, []Fault{*f}
	}
	switch source.(type) {
	case map[string]any, bool:
		return Compile(source, &Wording{})
	default:
		return nil, []Fault{{message: "want a JSON Schema, got " + (&explainer{Wording: &Wording{}}).nameOf(source)}}
	}
}

// Faults returns the faults of a value, and whether it is valid. An invalid value may have no faults if w ignores some.
func (s *Schema) Faults(value any, w *Wording) (found []Fault, valid bool) {
	return s.faultsOf(s.root, value, w)
}

// FaultsAt is [Schema.Faults] for the part of the schema at a JSON Pointer in a URL fragment, such as #/properties/a. It fails if the part is not a
// schema.
func (s *Schema) FaultsAt(fragment string, value any, w *Wording) (found []Fault, valid bool, err error) {
	part, err := s.compiler.Compile(address + fragment)
	if err != nil {
		return nil, false, err
	}
	found, valid = s.faultsOf(part, value, w)
	return found, valid, nil
}

func (s *Schema) faultsOf(part *jsonschema.Schema, value any, w *Wording) (found []Fault, valid bool) {
	if err := part.Validate(value); err != nil {
		return explain(err, s.byURL, value, w), false
	}
	return nil, true
}

// compileFaults returns a compilation error of the library as faults.
func compileFaults(err error, source any, w *Wording) []Fault {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return explain(e.Err, nil, source, w)
	}
	if e, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return []Fault{{Tokens: tokensOf(e.URL), message: e.Err.Error()}}
	}
	message := "is no usable JSON Schema"
	switch e, isRemote := errors.AsType[*jsonschema.LoadURLError](err); {
	case isRemote:
		message = fmt.Sprintf("refers to %s: %s", clip.Runes(strings.TrimPrefix(e.URL, "turnstone:///"), maxEcho+1), errRemote)
	case hasType[*jsonschema.JSONPointerNotFoundError](err), hasType[*jsonschema.AnchorNotFoundError](err), hasType[*jsonschema.InvalidJsonPointerError](err):
		message = "has a $ref to what is not there: " + clip.Runes(strings.ReplaceAll(err.Error(), address, ""), 2*maxEcho+1)
	case hasType[*jsonschema.UnsupportedDraftError](err), hasType[*jsonschema.InvalidMetaSchemaURLError](err):
		return []Fault{{Name: "$schema", message: "want https://json-schema.org/draft/2020-12/schema, or leave it out"}}
	}
	return []Fault{{message: message}}
}

// hasType reports whether an error in err's chain has type E.
func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// survey records the root and all its subschemas. It returns a fault if their work cannot be bounded.
func (s *Schema) survey() *Fault {
	pending := []*jsonschema.Schema{s.root}
	s.byURL[s.root.Location] = s.root
	for len(pending) > 0 {
		part := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if part.DynamicRef != nil || part.RecursiveRef != nil {
			return &Fault{Tokens: tokensOf(part.Location), message: "$dynamicRef and $recursiveRef are not supported: use $ref"}
		}
		f := factsOf(part)
		s.facts[part] = f
		s.hasUnevaluated = s.hasUnevaluated || part.UnevaluatedItems != nil || part.UnevaluatedProperties != nil
		for _, sub := range slices.Concat(f.sameValue, childSchemas(part)) {
			if s.byURL[sub.Location] == nil {
				s.byURL[sub.Location] = sub
				pending = append(pending, sub)
			}
		}
	}
	lengths := map[*jsonschema.Schema]int{}
	for _, part := range s.byURL {
		switch n := s.chainLength(part, lengths); {
		case n == endless:
			return &Fault{message: "refers to itself without end"}
		case n > maxInPlace:
			return &Fault{message: fmt.Sprintf("applies more than %d schemas to one value, each through the other", maxInPlace)}
		}
	}
	return nil
}

// endless is the length of a chain with a cycle.
const endless = -1

// chainLength returns the length of the longest chain of schemas from part that apply to the same value.
func (s *Schema) chainLength(part *jsonschema.Schema, lengths map[*jsonschema.Schema]int) int {
	if n, exists := lengths[part]; exists {
		return n
	}
	lengths[part] = endless // while it is being measured
	longest := 0
	for _, sub := range s.facts[part].sameValue {
		n := s.chainLength(sub, lengths)
		if n == endless {
			return endless
		}
		longest = max(longest, n)
	}
	lengths[part] = longest + 1
	return longest + 1
}

// sameValueSchemas returns the subschemas that apply to the same value as s.
func sameValueSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
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

// childSchemas returns the subschemas that apply to the members of an object, their names, or the entries of an array.
func childSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
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
