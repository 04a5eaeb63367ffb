package jq

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// feeder gives a program its rows one by one: it is what .[] becomes. One row is decoded at a time.
type feeder struct {
	decoder *decoder
	rows    func() ([]byte, error) // the next row; io.EOF at the end. Nil: the values are there already
	ready   []any
	n       int // rows given
}

// Next makes it a gojq.Iter.
func (f *feeder) Next() (any, bool) {
	if f.rows == nil {
		if len(f.ready) == 0 {
			return nil, false
		}
		v := f.ready[0]
		f.ready = f.ready[1:]
		return v, true
	}
	row, err := f.rows()
	if errors.Is(err, io.EOF) {
		return nil, false
	}
	f.n++
	if err != nil {
		return err, true
	}
	v, err := decode(row, f.decoder)
	if err != nil {
		return err, true
	}
	return v, true
}

// values takes what an input that is no array has to give: an object its values, in jq's order.
func (f *feeder) values(input any) error {
	object, ok := input.(map[string]any)
	if !ok {
		return invalid("cannot iterate over %s", gojqType(input))
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		f.ready = append(f.ready, object[key])
	}
	return nil
}

// placed adds the row to an error of the program.
func (f *feeder) placed(err error) error {
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeInvalid && f.n > 0 {
		return agent.Invalid(field, "row %d: %w", f.n-1, e.Err)
	}
	return err
}

// elements goes through an array without decoding it.
func elements(doc []byte) func() ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(doc))
	begun := false
	return func() ([]byte, error) {
		if !begun {
			begun = true
			if _, err := dec.ReadToken(); err != nil {
				return nil, noJSON(err)
			}
		}
		if dec.PeekKind() == ']' {
			return nil, io.EOF
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, noJSON(err)
		}
		return v, nil
	}
}

func noJSON(err error) error {
	return agent.Errorf(agent.CodeInvalid, "", "the input is no JSON: %s", clip.Bytes(err.Error(), maxQuoted))
}
