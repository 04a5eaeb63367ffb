package manifest

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// flaw is one thing that the schema validator found, in words.
type flaw struct {
	tokens  []string // the way to the value
	name    string   // of a member that is unknown or missing; empty: the value itself
	unknown bool     // name is a member that should not be there
	lost    bool     // the validator may have lost the way
	message string
}

// flaws runs the validator and flattens its tree of errors. refused: the value is wrong, even when no flaw is listed.
func (s *schema) flaws(value any) (found []flaw, refused bool) {
	err := s.compiled.Validate(value)
	if err == nil {
		return nil, false
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		found = s.flatten(invalid)
	}
	slices.SortStableFunc(found, func(a, b flaw) int { // the validator walks maps: of several flaws of one place the first is told
		return cmp.Or(slices.Compare(a.tokens, b.tokens), cmp.Compare(a.name, b.name), cmp.Compare(a.message, b.message))
	})
	return found, true
}

// flatten keeps the leaves of the tree. Of alternatives it keeps the one that the value comes closest to.
func (s *schema) flatten(e *jsonschema.ValidationError) []flaw {
	_, same := e.ErrorKind.(*kind.UniqueItems)
	if s.own && (same || strings.HasPrefix(strings.TrimPrefix(e.SchemaURL, s.url), "#/allOf/")) {
		return nil // document.check says better which entries are equal, and what depends on a field's value
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return s.closest(e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []flaw{{tokens: e.InstanceLocation, message: "matches several of the forms of which one is allowed"}}
		}
		return s.closest(e)
	case *kind.Required:
		return missing(e.InstanceLocation, k.Missing, "is required")
	case *kind.DependentRequired:
		return missing(e.InstanceLocation, k.Missing, "is required when "+k.Prop+" is given")
	case *kind.Dependency:
		return missing(e.InstanceLocation, k.Missing, "is required when "+k.Prop+" is given")
	case *kind.AdditionalProperties:
		return s.unknown(e, k.Properties)
	case *kind.PropertyNames:
		return []flaw{{tokens: e.InstanceLocation, name: k.Property, unknown: true, lost: true, message: "the name is not allowed" + s.nameRule(e)}}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.ContentSchema:
		return []flaw{{tokens: e.InstanceLocation, message: s.words(e)}}
	}
	if len(e.Causes) == 0 {
		return []flaw{{tokens: e.InstanceLocation, message: s.words(e)}}
	}
	var all []flaw
	for _, cause := range e.Causes {
		all = append(all, s.flatten(cause)...)
	}
	return all
}

func missing(tokens, names []string, message string) []flaw {
	out := make([]flaw, len(names))
	for i, name := range names {
		out[i] = flaw{tokens: tokens, name: name, message: message}
	}
	return out
}

// unknown names the members that a schema does not have, with the one that was probably meant.
func (s *schema) unknown(e *jsonschema.ValidationError, names []string) []flaw {
	source := s.at(e.SchemaURL)
	rule := ""
	if source["patternProperties"] != nil {
		rule, _ = source["errorMessage"].(string) // the names follow a rule: there is none to suggest
	}
	fields, _ := source["properties"].(map[string]any)
	out := make([]flaw, len(names))
	for i, name := range names {
		message := rule
		if rule == "" {
			message = "unknown field" + suggestion(name, fields)
		}
		out[i] = flaw{tokens: e.InstanceLocation, name: name, unknown: true, message: message}
	}
	return out
}

func (s *schema) nameRule(e *jsonschema.ValidationError) string {
	for _, cause := range e.Causes {
		if found := s.flatten(cause); len(found) > 0 {
			return ": " + found[0].message
		}
	}
	return ""
}

// closest picks among alternatives: one of the value's own type before the others, then the one with the fewest flaws. When none is of
// its type, the types are what is wrong.
func (s *schema) closest(e *jsonschema.ValidationError) []flaw {
	depth := len(e.InstanceLocation)
	var best []flaw
	var types []string
	got := ""
	for _, cause := range e.Causes {
		if t := mismatch(cause, depth); t != nil {
			types = append(types, t.Want...)
			got = t.Got
			continue
		}
		found := s.flatten(cause)
		if len(found) > 0 && (best == nil || len(found) < len(best)) {
			best = found
		}
	}
	switch {
	case best != nil:
		return best
	case types != nil:
		return []flaw{{tokens: e.InstanceLocation, message: typeWords(types, got)}}
	default:
		return []flaw{{tokens: e.InstanceLocation, message: "matches none of the allowed forms"}}
	}
}

// mismatch is the error about the type of the value at depth itself, nil when there is none.
func mismatch(e *jsonschema.ValidationError, depth int) *kind.Type {
	if len(e.InstanceLocation) != depth {
		return nil
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return k
	case *kind.Reference, *kind.Group, *kind.AllOf:
		for _, cause := range e.Causes {
			if t := mismatch(cause, depth); t != nil {
				return t
			}
		}
	}
	return nil
}

// schema adds the flaws that the schema finds, and marks what has one. refused: the schema says no, even when no fault was added.
func (c *checker) checkSchema(s *schema) (refused bool) {
	found, refused := s.flaws(c.root.value())
	for _, f := range found {
		n, path := c.root.route(f.tokens)
		if n == nil || n.bad || c.known[path] {
			continue
		}
		if f.name == "" {
			c.addFaultAt(n.where(), path, f.message)
			n.bad = n != c.root
			continue
		}
		path = child(path, f.name)
		field := n.member(f.name)
		switch {
		case field == nil:
			c.addFaultAt(n.where(), path, f.message)
		case f.unknown && !field.bad:
			c.addFaultAt(field.key, path, hint(c.kind, f.name, f.message))
			field.bad = true
		}
	}
	return refused
}
