package jq

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// The rough cost of the parts of a decoded document, in bytes of memory.
const (
	costValue  = 32
	costObject = 48
	costMember = 56
)

// decoder turns JSON text into gojq's values, within a budget of memory.
type decoder struct {
	dec    *jsontext.Decoder
	budget int64             // bytes of memory for each document
	left   int64             // of the budget
	names  map[string]string // the names of members, once each
	meter  *meter
	values int // decoded so far
}

// maxNames bounds the names that a decoder keeps.
const maxNames = 1000

func decode(doc []byte, d *decoder) (any, error) {
	d.dec.Reset(bytes.NewBuffer(doc))
	d.left = d.budget
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func newDecoder(budget int64, m *meter) *decoder {
	return &decoder{dec: &jsontext.Decoder{}, budget: budget, meter: m, names: map[string]string{}}
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, tooMuch("the input is nested deeper than %d", maxDepth)
	}
	if d.values++; d.values%checkEvery == 0 {
		if d.meter.giveWay(); d.meter.Context.Err() != nil {
			return nil, agent.Interrupted(d.meter.Context, "run jq program")
		}
	}
	token, err := d.dec.ReadToken()
	if err != nil {
		return nil, noJSON(err)
	}
	if err := d.spend(costValue); err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '[':
		return d.array(depth)
	case '{':
		return d.object(depth)
	case '"':
		s := token.String()
		if len(s) > maxText {
			return nil, tooMuch("the input has a string of %d bytes, at most %d", len(s), maxText)
		}
		return s, d.spend(len(s))
	case '0':
		s := token.String()
		return number(s), d.spend(len(s))
	case 't', 'f':
		return token.Bool(), nil
	default:
		return nil, nil //nolint:nilnil // JSON's null is Go's nil
	}
}

func (d *decoder) array(depth int) (any, error) {
	list := []any{}
	for d.dec.PeekKind() != ']' {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.dec.ReadToken()
	return list, err
}

func (d *decoder) object(depth int) (any, error) {
	object := map[string]any{}
	if err := d.spend(costObject); err != nil {
		return nil, err
	}
	for d.dec.PeekKind() != '}' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return nil, noJSON(err)
		}
		key := d.name(token.String())
		if err := d.spend(costMember + len(key)); err != nil {
			return nil, err
		}
		if object[key], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.dec.ReadToken()
	return object, err
}

func (d *decoder) name(s string) string {
	if kept, ok := d.names[s]; ok {
		return kept
	}
	if len(d.names) < maxNames {
		d.names[s] = s
	}
	return s
}

func (d *decoder) spend(n int) error {
	if d.left -= int64(n); d.left < 0 {
		return tooMuch("the input takes more than %d MiB of memory as a whole; begin the program with .[] | to have the rows one by one, "+
			"or filter them first", d.budget>>20)
	}
	return nil
}

// number returns a short integer as an int, and any other number as its text, so that every digit is kept until the program computes with
// it.
func number(s string) any {
	const maxDigits = 15
	if len(s) <= maxDigits && s != "-0" {
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
	}
	return json.Number(s)
}
