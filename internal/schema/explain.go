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

// Wording adapts messages to the document. The zero value is for JSON that a program or a model wrote.
type Wording struct {
	// Catalog is for documents of the catalog: a person wrote them in YAML, and any text may be a secret, so that messages repeat none.
	Catalog bool
	// Message returns a message of the schema's own, empty if it has none; nil: no schema has.
	Message func(e *jsonschema.ValidationError) string
	// Unknown returns the message for a member that the schema does not know; nil: the names that it knows.
	Unknown func(schemaURL, name string) string
	// Ignore reports whether an error is left out, because the caller has a better one; nil: none is.
	Ignore func(e *jsonschema.ValidationError) bool
}

// explainer turns the validator's tree of errors into faults.
type explainer struct {
	*Wording

	schemas map[string]*jsonschema.Schema // by address, except those of the meta-schemas
	value   any                           // the document
}

// explain returns the faults that the validator found, never none.
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

// NotSatisfied is the message of a value that is wrong in a way without a better message.
const NotSatisfied = "does not satisfy its schema"

// flatten returns the leaves of the tree. Of alternatives it returns those of the one that comes closest to the value.
func (e *explainer) flatten(v *jsonschema.ValidationError) []Fault {
	if e.Ignore != nil && e.Ignore(v) {
		return nil
	}
	at := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.AnyOf:
		return e.closest(v)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []Fault{{Tokens: at, message: "matches several of the forms of which one is allowed"}}
		}
		return e.closest(v)
	case *kind.Required:
		return missingMembers(at, k.Missing, "is required")
	case *kind.DependentRequired:
		return missingMembers(at, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.Dependency:
		return missingMembers(at, k.Missing, "is required when "+clip.Bytes(k.Prop, maxName)+" is given")
	case *kind.AdditionalProperties:
		return e.unknownMembers(at, k.Properties, v.SchemaURL)
	case *kind.FalseSchema:
		return []Fault{{Tokens: at, message: forbiddenMessage(v.SchemaURL)}}
	case *kind.PropertyNames:
		return []Fault{{Tokens: e.ownerOf(at, k.Property), Name: k.Property, Unknown: true, message: "the name is not allowed" + e.nameRule(v)}}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.ContentSchema:
		return []Fault{{Tokens: at, message: e.message(v)}}
	}
	if len(v.Causes) == 0 {
		return []Fault{{Tokens: at, lazy: func() string { return e.message(v) }, otherForm: isDiscriminator(v.ErrorKind)}}
	}
	var all []Fault
	for _, cause := range v.Causes {
		all = append(all, e.flatten(cause)...)
	}
	return all
}

// isDiscriminator reports whether an error of this kind in an alternative means that another alternative was meant.
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

// memberFault returns a fault about a member of the object at tokens.
func memberFault(tokens []string, name, message string) Fault {
	if name == "" {
		message = `"": ` + message
	}
	return Fault{Tokens: tokens, Name: name, message: message}
}

// knownMembers lists the members that a schema knows, as the end of a message.
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

// nameRule says why a name is refused, as the end of a message.
func (e *explainer) nameRule(v *jsonschema.ValidationError) string {
	names := &explainer{Wording: e.Wording, schemas: e.schemas} // the causes are about the name, which is no part of the document
	for _, cause := range v.Causes {
		for _, f := range names.flatten(cause) {
			return ": " + f.Message()
		}
	}
	return ""
}

// ownerOf returns the way to the object that has a member of that name. The validator's own way to a refused name may be wrong: the
// validator goes on to change the slice.
func (e *explainer) ownerOf(tokens []string, name string) []string {
	if object, ok := valueAt(e.value, tokens).(map[string]any); ok {
		if _, ok := object[name]; ok {
			return slices.Clone(tokens)
		}
	}
	way, _ := findMember(e.value, name, nil)
	return way
}

// findMember returns the way to the first object that has a member of that name.
func findMember(value any, name string, way []string) ([]string, bool) {
	way = slices.Clip(way)
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[name]; ok {
			return way, true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if found, ok := findMember(v[key], name, append(way, key)); ok {
				return found, true
			}
		}
	case []any:
		for i, entry := range v {
			if found, ok := findMember(entry, name, append(way, strconv.Itoa(i))); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// valueAt returns the value at the end of a way, nil if there is none.
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

// closest returns the faults of one alternative: of the value's type rather than another, then with a discriminator that fits, then with
// the fewest faults. If none is of its type, the fault is about the types.
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

// distance returns how far a value is from an alternative with these faults.
func distance(faults []Fault) int {
	n := 0
	for i := range faults {
		if n++; faults[i].otherForm {
			n += 1000
		}
	}
	return n
}

// typeError returns the error about the type of the value at depth itself, nil if there is none.
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
