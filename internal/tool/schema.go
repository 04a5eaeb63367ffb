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

// schemaOf returns the JSON Schema of a type, which must be a struct or a map.
func schemaOf[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map || decodesItself(t) {
		return nil, agent.Invalid(t.String(), "want a struct: the arguments of a tool are an object")
	}
	if err := checkType(t, t.String(), nil); err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, Mapper: schemaOverride}
	s := reflector.ReflectFromType(t)
	s.Version = "" // some providers refuse the member
	makePointersOptional(t, s)
	return json.Marshal(s)
}

// checkType returns an error if a type, or the type of a field in it, cannot be described by a JSON Schema. The error names the field below
// path. enclosing are the types that enclose t; if t is one of them, its schema would be infinite.
func checkType(t reflect.Type, path string, enclosing []reflect.Type) error {
	switch {
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[url.URL]():
		return agent.Invalid(path, "a %s has no agreed form in JSON: use a string or a number", t)
	case decodesItself(t):
		return nil
	case slices.Contains(enclosing, t):
		return agent.Invalid(path, "%s contains itself: its schema has no end", t)
	}
	enclosing = append(slices.Clip(enclosing), t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), path, enclosing)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return agent.Invalid(path, "the keys of a map are strings in JSON, got %s", t.Key())
		}
		return checkType(t.Elem(), path, enclosing)
	case reflect.Struct:
		return checkFields(t, path, enclosing)
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

func checkFields(t reflect.Type, path string, enclosing []reflect.Type) error {
	if err := strictjson.Decode([]byte("{}"), reflect.New(t).Interface()); err != nil { // the decoder refuses bad tags
		return agent.Invalid(path, "%w", err)
	}
	for f := range t.Fields() {
		if name, _ := memberOf(f); name == "" {
			continue
		}
		if err := checkType(f.Type, path+"."+f.Name, enclosing); err != nil {
			return err
		}
	}
	return nil
}

// memberOf returns the name of a field in JSON, empty if it is not encoded. inline reports whether the members of the field are members of the
// object that holds it.
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

// decodesItself reports whether a type, or a pointer to it, has a method that decodes it.
func decodesItself(t reflect.Type) bool {
	return isOrPointsTo[json.Unmarshaler](t) || isOrPointsTo[encoding.TextUnmarshaler](t)
}

func isOrPointsTo[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// schemaOverride returns the schema of a type for which that of the library does not match its decoder, nil for all other types.
func schemaOverride(t reflect.Type) *jsonschema.Schema {
	anything := &jsonschema.Schema{Extras: map[string]any{}} // encoded as {}; providers do not support true
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

// makePointersOptional removes members whose fields are pointers from the required members in a type's schema.
func makePointersOptional(t reflect.Type, s *jsonschema.Schema) {
	switch {
	case s == nil || decodesItself(t):
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
