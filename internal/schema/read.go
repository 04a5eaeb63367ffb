package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of a number, because exact arithmetic takes time. Doubles and 256-bit integers are within the bounds.
const (
	maxDigits   = 400
	maxExponent = 400
)

type bounds struct{ bytes, values int }

// reader decodes a JSON value for the validator: map[string]any, []any, string, json.Number, bool, nil.
type reader struct {
	decoder   *jsontext.Decoder
	remaining int      // number of values that may still be read
	tokens    []string // the path of the current value
}

// read decodes JSON. Duplicate names, invalid UTF-8, trailing data and exceeded bounds are faults.
func read(data []byte, b bounds) (any, *Fault) {
	if len(data) > b.bytes {
		f := tooLong(len(data), b.bytes)
		return nil, &f
	}
	r := &reader{decoder: jsontext.NewDecoder(bytes.NewBuffer(data)), remaining: b.values}
	value, f := r.value(0)
	if f != nil {
		return nil, f
	}
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &Fault{message: "malformed JSON: there is more after the value"}
	}
	return value, nil
}

func tooLong(length, bound int) Fault {
	return Fault{message: fmt.Sprintf("has %d bytes, at most %d are allowed", length, bound)}
}

func (r *reader) fault(format string, args ...any) *Fault {
	return &Fault{Tokens: slices.Clone(r.tokens), message: fmt.Sprintf(format, args...)}
}

// syntaxFault returns an error of the decoder as a fault.
func (r *reader) syntaxFault(err error) *Fault {
	switch s, ok := errors.AsType[*jsontext.SyntacticError](err); {
	case errors.Is(err, jsontext.ErrDuplicateName) && ok:
		f := r.fault("is given twice")
		f.Name = s.JSONPointer.LastToken()
		return f
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.fault("malformed JSON: it ends too early")
	case ok:
		return r.fault("malformed JSON at byte %d: %s", s.ByteOffset, clip.Runes(s.Err.Error(), maxEcho+1))
	default:
		return r.fault("malformed JSON")
	}
}

func (r *reader) value(depth int) (any, *Fault) {
	r.remaining--
	if r.remaining < 0 {
		r.tokens = nil
		return nil, r.fault("has too many values")
	}
	t, err := r.decoder.ReadToken()
	if err != nil {
		return nil, r.syntaxFault(err)
	}
	switch t.Kind() {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if depth == maxDepth {
			r.tokens = r.tokens[:min(len(r.tokens), 8)]
			return nil, r.fault("is nested more than %d deep", maxDepth)
		}
		if t.Kind() == jsontext.KindBeginArray {
			return r.array(depth)
		}
		return r.object(depth)
	case jsontext.KindString:
		return t.String(), nil
	case jsontext.KindNumber:
		return r.number(t.String())
	case jsontext.KindTrue, jsontext.KindFalse:
		return t.Bool(), nil
	default: // null
		return nil, nil
	}
}

func (r *reader) object(depth int) (any, *Fault) {
	object := map[string]any{}
	for r.decoder.PeekKind() != jsontext.KindEndObject {
		t, err := r.decoder.ReadToken()
		if err != nil {
			return nil, r.syntaxFault(err)
		}
		name := t.String()
		r.tokens = append(r.tokens, name)
		value, f := r.value(depth + 1)
		if f != nil {
			return nil, f
		}
		object[name] = value
		r.tokens = r.tokens[:len(r.tokens)-1]
	}
	if _, err := r.decoder.ReadToken(); err != nil {
		return nil, r.syntaxFault(err)
	}
	return object, nil
}

func (r *reader) array(depth int) (any, *Fault) {
	array := []any{}
	for r.decoder.PeekKind() != jsontext.KindEndArray {
		r.tokens = append(r.tokens, strconv.Itoa(len(array)))
		value, f := r.value(depth + 1)
		if f != nil {
			return nil, f
		}
		array = append(array, value)
		r.tokens = r.tokens[:len(r.tokens)-1]
	}
	if _, err := r.decoder.ReadToken(); err != nil {
		return nil, r.syntaxFault(err)
	}
	return array, nil
}

// number returns a number in its original notation. It is bounded because the validator computes with the exact value.
func (r *reader) number(text string) (any, *Fault) {
	if len(text) > maxDigits {
		return nil, r.fault("has more than %d digits", maxDigits)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if exponent, err := strconv.Atoi(text[i+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return nil, r.fault("has an exponent beyond %d", maxExponent)
		}
	}
	return json.Number(text), nil
}
