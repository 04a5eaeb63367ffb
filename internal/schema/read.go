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

// The bounds of a number: beyond them its exact value costs more than it can mean. They hold every double and every 256-bit integer.
const (
	maxDigits   = 400
	maxExponent = 400
)

type bounds struct{ bytes, values int }

// reader reads one JSON value into what the validator takes: map[string]any, []any, string, json.Number, bool, nil.
type reader struct {
	in   *jsontext.Decoder
	left int // values
	at   []string
}

// read reads strictly: names given twice, invalid UTF-8 and trailing data are faults, as is what exceeds a bound.
func read(data []byte, b bounds) (any, *fault) {
	if len(data) > b.bytes {
		f := tooLong(len(data), b.bytes)
		return nil, &f
	}
	r := &reader{in: jsontext.NewDecoder(bytes.NewBuffer(data)), left: b.values}
	value, f := r.value(0)
	if f != nil {
		return nil, f
	}
	if _, err := r.in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &fault{message: "malformed JSON: there is more after the value"}
	}
	return value, nil
}

func tooLong(length, bound int) fault {
	return fault{message: fmt.Sprintf("has %d bytes, at most %d are allowed", length, bound)}
}

func (r *reader) fault(format string, args ...any) *fault {
	return &fault{tokens: slices.Clone(r.at), message: fmt.Sprintf(format, args...)}
}

// syntax is the fault of a decoder's error.
func (r *reader) syntax(err error) *fault {
	switch s, ok := errors.AsType[*jsontext.SyntacticError](err); {
	case errors.Is(err, jsontext.ErrDuplicateName) && ok:
		f := r.fault("is given twice")
		f.name = s.JSONPointer.LastToken()
		return f
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.fault("malformed JSON: it ends too early")
	case ok:
		return r.fault("malformed JSON at byte %d: %s", s.ByteOffset, clip.Runes(s.Err.Error(), maxEcho+1))
	default:
		return r.fault("malformed JSON")
	}
}

func (r *reader) value(depth int) (any, *fault) {
	if r.left--; r.left < 0 {
		r.at = nil
		return nil, r.fault("has too many values")
	}
	t, err := r.in.ReadToken()
	if err != nil {
		return nil, r.syntax(err)
	}
	switch t.Kind() {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if depth == MaxDepth {
			r.at = r.at[:min(len(r.at), 8)]
			return nil, r.fault("is nested more than %d deep", MaxDepth)
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
	default: // null: the decoder returns no other
		return nil, nil
	}
}

func (r *reader) object(depth int) (any, *fault) {
	object := map[string]any{}
	for r.in.PeekKind() != jsontext.KindEndObject {
		t, err := r.in.ReadToken()
		if err != nil {
			return nil, r.syntax(err)
		}
		name := t.String()
		r.at = append(r.at, name)
		value, f := r.value(depth + 1)
		if f != nil {
			return nil, f
		}
		object[name] = value
		r.at = r.at[:len(r.at)-1]
	}
	if _, err := r.in.ReadToken(); err != nil {
		return nil, r.syntax(err)
	}
	return object, nil
}

func (r *reader) array(depth int) (any, *fault) {
	array := []any{}
	for r.in.PeekKind() != jsontext.KindEndArray {
		r.at = append(r.at, strconv.Itoa(len(array)))
		value, f := r.value(depth + 1)
		if f != nil {
			return nil, f
		}
		array = append(array, value)
		r.at = r.at[:len(r.at)-1]
	}
	if _, err := r.in.ReadToken(); err != nil {
		return nil, r.syntax(err)
	}
	return array, nil
}

// number keeps a number as it is written. The validator computes with its exact value, which must not fill the memory.
func (r *reader) number(text string) (any, *fault) {
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
