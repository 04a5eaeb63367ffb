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

// message describes the expected value and, except in the catalog, the actual value.
func (e *explainer) message(v *jsonschema.ValidationError) string {
	if e.Message != nil {
		if message := e.Message(v); message != "" {
			return message
		}
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return e.typeMessage(k.Want, v.InstanceLocation)
	case *kind.Enum:
		return e.enumMessage(k.Want, k.Got)
	case *kind.Const:
		return e.enumMessage([]any{k.Want}, k.Got)
	case *kind.Pattern:
		return "does not match the pattern " + clip.Runes(k.Want, maxEcho+1) + e.gotText(k.Got)
	case *kind.Format:
		switch {
		case k.Want != "regex":
			return "is no " + clip.Runes(k.Want, maxEcho+1)
		case e.Catalog:
			return "is no regular expression"
		default:
			return "is no regular expression: " + clip.Bytes(k.Err.Error(), maxMessage)
		}
	case *kind.Minimum:
		return e.rangeMessage(v.SchemaURL, "at least "+decimal(k.Want), k.Got)
	case *kind.Maximum:
		return e.rangeMessage(v.SchemaURL, "at most "+decimal(k.Want), k.Got)
	case *kind.ExclusiveMinimum:
		return e.rangeMessage(v.SchemaURL, "more than "+decimal(k.Want), k.Got)
	case *kind.ExclusiveMaximum:
		return e.rangeMessage(v.SchemaURL, "less than "+decimal(k.Want), k.Got)
	case *kind.MultipleOf:
		return "want a multiple of " + decimal(k.Want) + ", got " + decimal(k.Got)
	case *kind.MinLength:
		if k.Got == 0 {
			return "is empty"
		}
		return fmt.Sprintf("has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d are allowed", k.Got, k.Want)
	default:
		return countMessage(v.ErrorKind)
	}
}

// countMessage returns the message for an array or an object, and NotSatisfied for other errors.
func countMessage(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinItems:
		return fmt.Sprintf("has %d entries, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d entries, at most %d are allowed", k.Got, k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d entries too many", k.Count)
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
	case *kind.Not:
		return "is what the schema forbids"
	default:
		return NotSatisfied
	}
}

// typeMessage returns the message for a value at tokens that has none of the types.
func (e *explainer) typeMessage(want []string, tokens []string) string {
	value := valueAt(e.value, tokens)
	var names []string
	for _, w := range want {
		if name := e.typeName(w); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	got := e.nameOf(value)
	number, isNumber := value.(json.Number)
	switch {
	case isNumber && slices.Contains(want, "integer") && e.Catalog:
		got = "a fraction"
	case isNumber && slices.Contains(want, "integer"):
		got = clip.Runes(number.String(), maxEcho+1)
	}
	message := "want " + strings.Join(names, " or ") + ", got " + got
	if _, isBool := value.(bool); e.Catalog && (isNumber || isBool) && slices.Equal(want, []string{"string"}) {
		message += ": put it in quotes"
	}
	return message
}

// typeName returns the name of a type of JSON Schema with its article.
func (e *explainer) typeName(t string) string {
	switch {
	case t == "object", t == "array":
		return "an " + t
	case t == "integer":
		return "a whole number"
	case t == "boolean":
		return "true or false"
	case t == "null" && e.Catalog:
		return "nothing"
	case t == "null":
		return "null"
	default:
		return "a " + t
	}
}

// typeOf returns the JSON Schema type of a value.
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

// nameOf returns the type of a value with its article.
func (e *explainer) nameOf(value any) string {
	if t := typeOf(value); t != "boolean" {
		return e.typeName(t)
	}
	return "a boolean"
}

// gotText returns the end of a message that quotes the value, empty in the catalog.
func (e *explainer) gotText(value any) string {
	if e.Catalog {
		return ""
	}
	return ", got " + e.valueText(value)
}

// valueText returns a value for a message. It quotes strings, except in the catalog.
func (e *explainer) valueText(value any) string {
	switch v := value.(type) {
	case string:
		if e.Catalog {
			return clip.Bytes(v, maxName)
		}
		return strconv.Quote(clip.Runes(v, maxEcho+1))
	case json.Number:
		return clip.Runes(v.String(), maxEcho+1)
	case bool:
		return strconv.FormatBool(v)
	default:
		return e.nameOf(value)
	}
}

// enumMessage returns a message that lists the allowed values.
func (e *explainer) enumMessage(allowed []any, value any) string {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		switch a.(type) {
		case map[string]any, []any:
			return "is not one of the allowed values"
		}
		names[i] = e.valueText(a)
	}
	if len(names) == 1 {
		return "want " + names[0] + e.gotText(value)
	}
	return "want one of " + joinNames(names) + e.gotText(value)
}

// joinNames joins the first names up to a bound.
func joinNames(names []string) string {
	const maxNames, maxBytes = 20, 180
	size := 0
	for i, name := range names {
		size += len(name) + 2
		if i == maxNames || (i > 0 && size > maxBytes) {
			return strings.Join(names[:i], ", ") + ", …"
		}
	}
	return strings.Join(names, ", ")
}

// rangeMessage returns a message with all bounds of a number, or only the exceeded one if the schema is unknown.
func (e *explainer) rangeMessage(url, exceeded string, got *big.Rat) string {
	want := []string{exceeded}
	if s := e.schemas[url]; s != nil {
		want = nil
		switch {
		case s.Minimum != nil && s.Maximum != nil:
			want = append(want, decimal(s.Minimum)+" to "+decimal(s.Maximum))
		case s.Minimum != nil:
			want = append(want, "at least "+decimal(s.Minimum))
		case s.Maximum != nil:
			want = append(want, "at most "+decimal(s.Maximum))
		}
		if s.ExclusiveMinimum != nil {
			want = append(want, "more than "+decimal(s.ExclusiveMinimum))
		}
		if s.ExclusiveMaximum != nil {
			want = append(want, "less than "+decimal(s.ExclusiveMaximum))
		}
	}
	return "want " + strings.Join(want, " and ") + ", got " + decimal(got)
}

// decimal returns a number as an exact decimal, or rounded if that is too long.
func decimal(r *big.Rat) string {
	if digits, exact := r.FloatPrec(); exact && digits <= maxEcho {
		if s := r.FloatString(digits); len(s) <= maxEcho {
			return s
		}
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
