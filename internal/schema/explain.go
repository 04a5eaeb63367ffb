package schema

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// explainer turns the validator's tree of errors into faults.
type explainer struct {
	schemas map[string]*jsonschema.Schema // by address; those of the meta-schemas are not there
	value   any                           // the document
}

func (e *explainer) all(err error) []fault {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	return e.flatten(invalid)
}

// flatten keeps the leaves of the tree. Of alternatives it keeps the one that the value comes closest to.
func (e *explainer) flatten(v *jsonschema.ValidationError) []fault {
	at := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.AnyOf:
		return e.closest(v)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []fault{{tokens: at, message: "matches several of the forms of which one is allowed"}}
		}
		return e.closest(v)
	case *kind.Required:
		return missing(at, k.Missing, "is required")
	case *kind.DependentRequired:
		return missing(at, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.Dependency:
		return missing(at, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.AdditionalProperties:
		return missing(at, k.Properties, "unknown field"+e.known(v.SchemaURL))
	case *kind.FalseSchema:
		return []fault{{tokens: at, message: e.forbidden(v)}}
	case *kind.PropertyNames:
		return []fault{{tokens: e.owner(at, k.Property), name: k.Property, message: "the name is not allowed" + e.rule(v)}}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return []fault{{tokens: at, message: countWords(v.ErrorKind)}}
	}
	if len(v.Causes) == 0 {
		return []fault{{tokens: at, say: func() string { return e.words(v) }, other: isDiscriminator(v.ErrorKind)}}
	}
	var all []fault
	for _, cause := range v.Causes {
		all = append(all, e.flatten(cause)...)
	}
	return all
}

func isDiscriminator(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Const, *kind.Enum:
		return true
	default:
		return false
	}
}

// missing are faults of members that are not there, or should not be.
func missing(tokens, names []string, message string) []fault {
	names = slices.Sorted(slices.Values(names))
	out := make([]fault, len(names))
	for i, name := range names {
		out[i] = fault{tokens: tokens, name: name, message: message}
		if name == "" {
			out[i].message = `"": ` + message
		}
	}
	return out
}

// known lists the fields of a schema.
func (e *explainer) known(url string) string {
	s := e.schemas[url]
	if s == nil || len(s.Properties) == 0 || len(s.PatternProperties) > 0 {
		return ""
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return ": want one of " + list(names)
}

// forbidden is for a value that its schema, false, takes in no form.
func (e *explainer) forbidden(v *jsonschema.ValidationError) string {
	if strings.HasSuffix(v.SchemaURL, "/unevaluatedProperties") || strings.HasSuffix(v.SchemaURL, "/additionalProperties") {
		return "unknown field"
	}
	return "is not allowed here"
}

// rule is why a name is refused.
func (e *explainer) rule(v *jsonschema.ValidationError) string {
	for _, cause := range v.Causes {
		for _, f := range (&explainer{schemas: e.schemas}).flatten(cause) {
			return ": " + f.text()
		}
	}
	return ""
}

// owner is the way to the object that has a member of that name. The validator's own way to a refused name may be wrong: it goes on to
// change the one that it has given.
func (e *explainer) owner(tokens []string, name string) []string {
	if object, ok := at(e.value, tokens).(map[string]any); ok {
		if _, ok := object[name]; ok {
			return slices.Clone(tokens)
		}
	}
	way, _ := find(e.value, name, nil)
	return way
}

// find is the way to the first object that has a member of that name.
func find(value any, name string, way []string) ([]string, bool) {
	way = slices.Clip(way)
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[name]; ok {
			return way, true
		}
		for _, key := range sortedNames(v) {
			if found, ok := find(v[key], name, append(way, key)); ok {
				return found, true
			}
		}
	case []any:
		for i, entry := range v {
			if found, ok := find(entry, name, append(way, strconv.Itoa(i))); ok {
				return found, true
			}
		}
	}
	return nil, false
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// at is the value at the end of a way, nil when it leads nowhere.
func at(value any, tokens []string) any {
	for _, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// closest picks among alternatives: one of the value's own type before the others, then one whose discriminator fits, then the one with
// the fewest faults. When none is of its type, the types are what is wrong; when only discriminators are, what they may be.
func (e *explainer) closest(v *jsonschema.ValidationError) []fault {
	depth := len(v.InstanceLocation)
	var best []fault
	var types []string
	least := 0
	for _, cause := range v.Causes {
		if t := mismatch(cause, depth); t != nil {
			types = append(types, t.Want...)
			continue
		}
		found := e.flatten(cause)
		if badness := badnessOf(found); len(found) > 0 && (best == nil || badness < least) {
			best, least = found, badness
		}
	}
	switch {
	case best != nil:
		return best
	case types != nil:
		return []fault{{tokens: v.InstanceLocation, message: typeWords(types, at(e.value, v.InstanceLocation))}}
	default:
		return []fault{{tokens: v.InstanceLocation, message: "matches none of the allowed forms"}}
	}
}

func badnessOf(faults []fault) int {
	n := 0
	for i := range faults {
		if n++; faults[i].other {
			n += 1000
		}
	}
	return n
}

// mismatch is the error about the type of the value at depth itself, nil when there is none.
func mismatch(v *jsonschema.ValidationError, depth int) *kind.Type {
	if len(v.InstanceLocation) != depth {
		return nil
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return k
	case *kind.Reference, *kind.Group, *kind.AllOf:
		for _, cause := range v.Causes {
			if t := mismatch(cause, depth); t != nil {
				return t
			}
		}
	}
	return nil
}
