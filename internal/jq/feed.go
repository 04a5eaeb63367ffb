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

// feeder takes the place of .[]: it gives a program its rows one by one, each decoded when it is asked for.
type feeder struct {
	decoder *decoder
	rows    func() ([]byte, error) // returns the next row, io.EOF at the end; nil if the values are in ready
	ready   []any
	n       int // rows given so far
}

// Next returns the next row or an error, and false at the end. It makes feeder a gojq.Iter.
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

// setInput makes the values of an object the rows, in the order of their names. Other values have no rows.
func (f *feeder) setInput(input any) error {
	object, ok := input.(map[string]any)
	if !ok {
		return invalid("cannot iterate over %s", gojqType(input))
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		f.ready = append(f.ready, object[key])
	}
	return nil
}

// withRow adds the row to an error of the program.
func (f *feeder) withRow(err error) error {
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeInvalid && f.n > 0 {
		return agent.Invalid(field, "row %d: %w", f.n-1, e.Err)
	}
	return err
}

// elements returns a function that returns the elements of an array one by one, not decoded, and io.EOF at the end.
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
