package tool

import (
	"encoding"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// schemaOf returns the JSON Schema of a type, which has to be a struct or a map.
func schemaOf[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map || hasOwnForm(t) {
		return nil, agent.Invalid(t.String(), "want a struct: the arguments of a tool are an object")
	}
	if err := checkType(t, t.String(), nil); err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, Mapper: ownSchema}
	s := reflector.ReflectFromType(t)
	s.Version = "" // what providers take is a part of 2020-12, and some refuse the member
	makePointersOptional(t, s)
	return json.Marshal(s)
}

// checkType returns an error that names the field, below path, which has no JSON Schema or no form in JSON. Types of the fields around it
// are within: inside one of them, the schema would have no end.
func checkType(t reflect.Type, path string, within []reflect.Type) error {
	switch {
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[url.URL]():
		return agent.Invalid(path, "a %s has no agreed form in JSON: use a string or a number", t)
	case hasOwnForm(t):
		return nil
	case slices.Contains(within, t):
		return agent.Invalid(path, "%s contains itself: its schema has no end", t)
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), path, within)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return agent.Invalid(path, "the keys of a map are strings in JSON, got %s", t.Key())
		}
		return checkType(t.Elem(), path, within)
	case reflect.Struct:
		return checkFields(t, path, within)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return agent.Invalid(path, "a %s has no form in JSON", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return agent.Invalid(path, "nothing says which type a %s is to be: use a concrete type, or any", t)
		}
	default:
	}
	return nil
}

func checkFields(t reflect.Type, path string, within []reflect.Type) error {
	if err := strictjson.Decode([]byte("{}"), reflect.New(t).Interface()); err != nil { // what the decoder says of the tags
		return agent.Invalid(path, "%w", err)
	}
	for f := range t.Fields() {
		if name, _ := memberOf(f); name == "" {
			continue
		}
		if err := checkType(f.Type, path+"."+f.Name, within); err != nil {
			return err
		}
	}
	return nil
}

// memberOf returns the name of the member that a field is in JSON, empty if it is none. inline reports whether the members of the field
// are those of the object instead.
func memberOf(f reflect.StructField) (name string, inline bool) {
	tag := f.Tag.Get("json")
	name, _, _ = strings.Cut(tag, ",")
	switch {
	case tag == "-", !f.IsExported() && !f.Anonymous:
		return "", false
	case name == "":
		return f.Name, f.Anonymous
	default:
		return name, false
	}
}

// hasOwnForm reports whether a type, or a pointer to it, decodes itself.
func hasOwnForm(t reflect.Type) bool {
	return isOrPointsTo[json.Unmarshaler](t) || isOrPointsTo[encoding.TextUnmarshaler](t)
}

func isOrPointsTo[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// ownSchema returns the schema of a type that the library describes otherwise than it is decoded, nil for all other types.
func ownSchema(t reflect.Type) *jsonschema.Schema {
	anything := &jsonschema.Schema{Extras: map[string]any{}} // {} and not true, which providers do not know
	switch {
	case t == reflect.TypeFor[time.Time]():
		return nil
	case isOrPointsTo[json.Unmarshaler](t), t.Kind() == reflect.Interface:
		return anything
	case isOrPointsTo[encoding.TextUnmarshaler](t):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	default:
		return nil
	}
}

// makePointersOptional removes the members whose fields are pointers from the required ones of a type's schema.
func makePointersOptional(t reflect.Type, s *jsonschema.Schema) {
	switch {
	case s == nil || hasOwnForm(t):
	case t.Kind() == reflect.Pointer:
		makePointersOptional(t.Elem(), s)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		makePointersOptional(t.Elem(), s.Items)
	case t.Kind() == reflect.Map:
		makePointersOptional(t.Elem(), s.AdditionalProperties)
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, inline := memberOf(f)
			if inline {
				makePointersOptional(f.Type, s)
				continue
			}
			if f.Type.Kind() == reflect.Pointer {
				s.Required = slices.DeleteFunc(s.Required, func(required string) bool { return required == name })
			}
			if member, ok := s.Properties.Get(name); ok {
				makePointersOptional(f.Type, member)
			}
		}
	}
}
