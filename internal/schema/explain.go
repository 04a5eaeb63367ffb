package schema

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Wording adapts messages to the document. The zero value is for JSON of programs and models.
type Wording struct {
	// Catalog is for catalog documents. Users write them in YAML, and any text in them may be a secret, so messages do not quote values.
	Catalog bool
	// Message returns a message that the schema defines for an error, empty if it defines none. It may be nil.
	Message func(e *jsonschema.ValidationError) string
	// Unknown returns the message for an unknown member. Nil: the message lists the members of the schema.
	Unknown func(schemaURL, name string) string
	// Ignore reports whether to leave out an error, because the caller has a better one. It may be nil.
	Ignore func(e *jsonschema.ValidationError) bool
}

// explainer converts the validator's tree of errors to faults.
type explainer struct {
	*Wording

	schemas map[string]*jsonschema.Schema // by URL, without meta-schemas
	value   any                           // the document
}

// explain returns the faults in the validator's error. There are none only if w ignores all.
func explain(err error, schemas map[string]*jsonschema.Schema, value any, w *Wording) []Fault {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		if found := (&explainer{Wording: w, schemas: schemas, value: value}).flatten(invalid); len(found) > 0 {
			return found
		}
		if w.Ignore != nil {
			return nil
		}
	}
	return []Fault{{message: NotSatisfied}}
}

// NotSatisfied is the message for an invalid value if there is no better one.
const NotSatisfied = "does not satisfy its schema"

// flatten returns the faults in the leaves of the tree. Of alternatives, it uses the one that is closest to the value.
func (e *explainer) flatten(v *jsonschema.ValidationError) []Fault {
	if e.Ignore != nil && e.Ignore(v) {
		return nil
	}
	tokens := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.AnyOf:
		return e.closest(v)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []Fault{{Tokens: tokens, message: "matches several of the forms of which one is allowed"}}
		}
		return e.closest(v)
	case *kind.Required:
		return missingMembers(tokens, k.Missing, "is required")
	case *kind.DependentRequired:
		return missingMembers(tokens, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.Dependency:
		return missingMembers(tokens, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.AdditionalProperties:
		return e.unknownMembers(tokens, k.Properties, v.SchemaURL)
	case *kind.FalseSchema:
		return []Fault{{Tokens: tokens, message: forbiddenMessage(v.SchemaURL)}}
	case *kind.PropertyNames:
		return []Fault{{Tokens: e.ownerOf(tokens, k.Property), Name: k.Property, Unknown: true, message: "the name is not allowed" + e.nameRule(v)}}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.ContentSchema:
		return []Fault{{Tokens: tokens, message: e.message(v)}}
	}
	if len(v.Causes) == 0 {
		return []Fault{{Tokens: tokens, lazyMessage: func() string { return e.message(v) }, isDiscriminator: isDiscriminator(v.ErrorKind)}}
	}
	var all []Fault
	for _, cause := range v.Causes {
		all = append(all, e.flatten(cause)...)
	}
	return all
}

// isDiscriminator reports whether an error of a kind suggests that another alternative was meant.
func isDiscriminator(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Const, *kind.Enum:
		return true
	default:
		return false
	}
}

func missingMembers(tokens, names []string, message string) []Fault {
	names = slices.Sorted(slices.Values(names))
	out := make([]Fault, len(names))
	for i, name := range names {
		out[i] = memberFault(tokens, name, message)
	}
	return out
}

func (e *explainer) unknownMembers(tokens, names []string, schemaURL string) []Fault {
	names = slices.Sorted(slices.Values(names))
	out := make([]Fault, len(names))
	for i, name := range names {
		var message string
		if e.Unknown != nil {
			message = e.Unknown(schemaURL, name)
		} else {
			message = "unknown field" + e.knownMembers(schemaURL)
		}
		out[i] = memberFault(tokens, name, message)
		out[i].Unknown = true
	}
	return out
}

// memberFault returns a fault of a member of the object at tokens.
func memberFault(tokens []string, name, message string) Fault {
	if name == "" {
		message = `"": ` + message
	}
	return Fault{Tokens: tokens, Name: name, message: message}
}

// knownMembers returns the end of a message that lists the members of a schema.
func (e *explainer) knownMembers(url string) string {
	s := e.schemas[url]
	if s == nil || len(s.Properties) == 0 || len(s.PatternProperties) > 0 {
		return ""
	}
	return ": want one of " + joinNames(slices.Sorted(maps.Keys(s.Properties)))
}

// forbiddenMessage returns the message for a value whose schema is false.
func forbiddenMessage(url string) string {
	if strings.HasSuffix(url, "/unevaluatedProperties") || strings.HasSuffix(url, "/additionalProperties") {
		return "unknown field"
	}
	return "is not allowed here"
}

// nameRule returns the end of a message that says why a name is not allowed.
func (e *explainer) nameRule(v *jsonschema.ValidationError) string {
	names := &explainer{Wording: e.Wording, schemas: e.schemas} // the causes are about the name, not about a value of the document
	for _, cause := range v.Causes {
		if faults := names.flatten(cause); len(faults) > 0 {
			return ": " + faults[0].Message()
		}
	}
	return ""
}

// ownerOf returns the tokens of the object that has a member. The tokens of the validator may be wrong, because the validator reuses the slice.
func (e *explainer) ownerOf(tokens []string, name string) []string {
	if object, ok := valueAt(e.value, tokens).(map[string]any); ok {
		if _, ok := object[name]; ok {
			return slices.Clone(tokens)
		}
	}
	found, _ := findMember(e.value, name, nil)
	return found
}

// findMember returns the tokens of the first object that has a member. tokens are those of value.
func findMember(value any, name string, tokens []string) ([]string, bool) {
	tokens = slices.Clip(tokens)
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[name]; ok {
			return tokens, true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if found, ok := findMember(v[key], name, append(tokens, key)); ok {
				return found, true
			}
		}
	case []any:
		for i, entry := range v {
			if found, ok := findMember(entry, name, append(tokens, strconv.Itoa(i))); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// valueAt returns the value at tokens, nil if there is none.
func valueAt(value any, tokens []string) any {
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

// closest returns the faults of one alternative. It prefers an alternative of the value's type, then one whose discriminator matches, then the one with
// the fewest faults. If no alternative has the value's type, the fault is about the type.
func (e *explainer) closest(v *jsonschema.ValidationError) []Fault {
	depth := len(v.InstanceLocation)
	var best []Fault
	var types []string
	bestDistance := 0
	for _, cause := range v.Causes {
		if t := typeError(cause, depth); t != nil {
			types = append(types, t.Want...)
			continue
		}
		found := e.flatten(cause)
		if d := distance(found); len(found) > 0 && (best == nil || d < bestDistance) {
			best, bestDistance = found, d
		}
	}
	switch {
	case best != nil:
		return best
	case types != nil:
		return []Fault{{Tokens: v.InstanceLocation, message: e.typeMessage(types, v.InstanceLocation)}}
	default:
		return []Fault{{Tokens: v.InstanceLocation, message: "matches none of the allowed forms"}}
	}
}

// distance returns a measure of the difference between a value and an alternative with these faults.
func distance(faults []Fault) int {
	n := len(faults)
	for i := range faults {
		if faults[i].isDiscriminator {
			n += 1000
		}
	}
	return n
}

// typeError returns the error about the type of the value at depth, nil if there is none.
func typeError(v *jsonschema.ValidationError, depth int) *kind.Type {
	if len(v.InstanceLocation) != depth {
		return nil
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return k
	case *kind.Reference, *kind.Group, *kind.AllOf:
		for _, cause := range v.Causes {
			if t := typeError(cause, depth); t != nil {
				return t
			}
		}
	}
	return nil
}
