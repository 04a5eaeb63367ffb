package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// words says what a value should have been, and what it is.
func (e *explainer) words(v *jsonschema.ValidationError) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return typeWords(k.Want, at(e.value, v.InstanceLocation))
	case *kind.Enum:
		return oneOf(k.Want, k.Got)
	case *kind.Const:
		return oneOf([]any{k.Want}, k.Got)
	case *kind.Pattern:
		return "does not match the pattern " + clip.Runes(k.Want, maxEcho+1) + ", got " + got(k.Got)
	case *kind.Format:
		message := "is no " + clip.Runes(k.Want, maxEcho+1)
		if k.Want == "regex" {
			message += ": " + clip.Bytes(k.Err.Error(), maxMessage)
		}
		return message
	case *kind.Minimum:
		return "want at least " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.Maximum:
		return "want at most " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.ExclusiveMinimum:
		return "want more than " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.ExclusiveMaximum:
		return "want less than " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.MultipleOf:
		return "want a multiple of " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.MinLength:
		if k.Got == 0 {
			return "is empty"
		}
		return fmt.Sprintf("has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, want at most %d", k.Got, k.Want)
	default:
		return countWords(v.ErrorKind)
	}
}

// countWords are for arrays, objects and what has no better words.
func countWords(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinItems:
		return fmt.Sprintf("has %d entries, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d entries, want at most %d", k.Got, k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d entries too many", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("entries %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return fmt.Sprintf("has %d fields, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d fields, want at most %d", k.Got, k.Want)
	case *kind.Contains, *kind.MinContains:
		return "lacks an entry that the schema asks for"
	case *kind.MaxContains:
		return "has too many entries of one sort"
	case *kind.Not:
		return "is what the schema forbids"
	default:
		return "does not satisfy its schema"
	}
}

func typeWords(want []string, value any) string {
	var wants []string
	for _, w := range want {
		if name := nameOfType(w); !slices.Contains(wants, name) {
			wants = append(wants, name)
		}
	}
	is := nameOf(value)
	if n, ok := value.(json.Number); ok && slices.Contains(want, "integer") {
		is = clip.Runes(n.String(), maxEcho+1) // a fraction
	}
	return "want " + strings.Join(wants, " or ") + ", got " + is
}

func nameOfType(t string) string {
	switch t {
	case "object", "array":
		return "an " + t
	case "integer":
		return "a whole number"
	case "boolean":
		return "true or false"
	case "null":
		return "null"
	default:
		return "a " + t
	}
}

// typeOf is the type of a value in the words of JSON Schema.
func typeOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	default:
		return "null"
	}
}

func nameOf(value any) string {
	if t := typeOf(value); t != "boolean" {
		return nameOfType(t)
	}
	return "a boolean"
}

// got is a value as an error repeats it: text in quotes.
func got(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(clip.Runes(v, maxEcho+1))
	case json.Number:
		return clip.Runes(v.String(), maxEcho+1)
	case bool:
		return strconv.FormatBool(v)
	default:
		return nameOf(value)
	}
}

func oneOf(allowed []any, value any) string {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		switch a.(type) {
		case map[string]any, []any:
			return "is not one of the allowed values"
		}
		names[i] = got(a)
	}
	if len(names) == 1 {
		return "want " + names[0] + ", got " + got(value)
	}
	return "want one of " + list(names) + ", got " + got(value)
}

// list bounds what an error lists.
func list(names []string) string {
	const most, bytes = 20, 180
	size := 0
	for i, name := range names {
		if size += len(name) + 2; i == most || i > 0 && size > bytes {
			return strings.Join(names[:i], ", ") + ", …"
		}
	}
	return strings.Join(names, ", ")
}

// decimal writes a number exactly, as far as it is of bearable length.
func decimal(r *big.Rat) string {
	if digits, exact := r.FloatPrec(); exact && digits <= maxEcho {
		if s := r.FloatString(digits); len(s) <= maxEcho {
			return s
		}
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
