package manifest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// words says what a value should have been. Texts of the document are not repeated: they may be secrets.
func (s *schema) words(e *jsonschema.ValidationError) string {
	source := s.at(e.SchemaURL)
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return typeWords(k.Want, k.Got)
	case *kind.Enum:
		return oneOf(k.Want)
	case *kind.Const:
		return oneOf([]any{k.Want})
	case *kind.Pattern:
		if message, ok := source["patternErrorMessage"].(string); ok {
			return message
		}
		return "does not match the pattern " + clip.Bytes(k.Want, maxQuoted)
	case *kind.Format:
		if k.Want == "regex" {
			return "is no regular expression"
		}
		return "is no " + k.Want
	case *kind.Minimum:
		return rangeWords(source, "at least "+rational(k.Want), k.Got)
	case *kind.Maximum:
		return rangeWords(source, "at most "+rational(k.Want), k.Got)
	case *kind.ExclusiveMinimum:
		return rangeWords(source, "more than "+rational(k.Want), k.Got)
	case *kind.ExclusiveMaximum:
		return rangeWords(source, "less than "+rational(k.Want), k.Got)
	case *kind.MultipleOf:
		return "want a multiple of " + rational(k.Want)
	case *kind.MinLength:
		if k.Got == 0 {
			return "is empty"
		}
		return fmt.Sprintf("has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d are allowed", k.Got, k.Want)
	}
	if message, ok := source["errorMessage"].(string); ok {
		return message
	}
	return countWords(e.ErrorKind)
}

// countWords are for lists, objects and what has no better words.
func countWords(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinItems:
		return fmt.Sprintf("has %d entries, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d entries, at most %d are allowed", k.Got, k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("entries %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return fmt.Sprintf("has %d fields, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d fields, at most %d are allowed", k.Got, k.Want)
	case *kind.Contains, *kind.MinContains:
		return "lacks an entry that the schema asks for"
	case *kind.MaxContains:
		return "has too many entries of one sort"
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return "is what the schema forbids"
	default:
		return "does not satisfy its schema"
	}
}

func typeWords(want []string, got string) string {
	names := map[string]string{
		"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false",
		"object": "an object", "array": "an array", "null": "nothing",
	}
	var wants []string
	for _, w := range want {
		if name := names[w]; !slices.Contains(wants, name) {
			wants = append(wants, name)
		}
	}
	is := names[got]
	switch {
	case got == "boolean":
		is = "a boolean"
	case got == "number" && slices.Contains(want, "integer"):
		is = "a fraction"
	}
	message := "want " + strings.Join(wants, " or ") + ", got " + is
	if slices.Equal(want, []string{"string"}) && (got == "number" || got == "boolean") {
		message += ": put it in quotes"
	}
	return message
}

// maxListed bounds how many allowed values a fault lists.
const maxListed = 20

func oneOf(allowed []any) string {
	var words []string
	for _, a := range allowed {
		switch a.(type) {
		case map[string]any, []any:
			return "is not one of the allowed values"
		}
		if len(words) == maxListed {
			words = append(words, "…")
			break
		}
		words = append(words, clip.Bytes(fmt.Sprint(a), maxQuoted))
	}
	if len(words) == 1 {
		return "want " + words[0]
	}
	return "want one of " + strings.Join(words, ", ")
}

// rangeWords names all bounds that the schema has; passed is the one that was passed, for a schema that cannot be seen.
func rangeWords(source map[string]any, passed string, got *big.Rat) string {
	bound := func(name string) (string, bool) {
		n, ok := source[name].(json.Number)
		if !ok {
			return "", false
		}
		r, ok := new(big.Rat).SetString(n.String())
		if !ok {
			return "", false
		}
		return rational(r), true
	}
	low, hasLow := bound("minimum")
	high, hasHigh := bound("maximum")
	above, hasAbove := bound("exclusiveMinimum")
	below, hasBelow := bound("exclusiveMaximum")
	var want []string
	switch {
	case hasLow && hasHigh:
		want = append(want, low+" to "+high)
	case hasLow:
		want = append(want, "at least "+low)
	case hasHigh:
		want = append(want, "at most "+high)
	}
	if hasAbove {
		want = append(want, "more than "+above)
	}
	if hasBelow {
		want = append(want, "less than "+below)
	}
	if want == nil {
		want = []string{passed}
	}
	return "want " + strings.Join(want, " and ") + ", got " + rational(got)
}

func rational(r *big.Rat) string {
	f, _ := r.Float64()
	return jsontext.Float(f).String()
}
